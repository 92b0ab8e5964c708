"""Waiting containers that move to another node: taken over by an idle one, or corrected (Hawk §2.3, Apollo §3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from policies.settings import Policies
from rm_proxy.nodes import Node
from rm_proxy.world import Effect
from shell.messages import Shed


class Mover:
    """A machine: nodes in, containers to shed out, once a round; it remembers where each of them is to go."""

    def __init__(self) -> None:
        self._sheds: dict[str, list[Shed]] = {}

    def round(self, policies: Policies, nodes: Mapping[str, Node], rng: Random, now_s: float) -> list[Effect]:
        """Choose what moves; returns what was decided, for the record."""
        return []

    def shed(self, node_id: str, wanted: Shed) -> None:
        """Have a waiting container shed with the node's next report."""
        self._sheds.setdefault(node_id, []).append(wanted)

    def take(self, node_id: str) -> list[Shed]:
        """Return what the node is to shed, and forget it."""
        return self._sheds.pop(node_id, [])

    def steered_to(self, container_id: str) -> str:
        """Return the node for which a container was shed, and forget it; "" for none."""
        return ""
