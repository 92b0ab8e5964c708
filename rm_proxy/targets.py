"""What the coordinator wants of each node until the next round: shedding and policing (Mercury §4.2, §4.4)."""

from __future__ import annotations

from collections.abc import Mapping

from policies.settings import Policies
from rm_proxy.nodes import Node
from rm_proxy.world import Effect
from shell.messages import Targets


class TargetSetter:
    """A machine: nodes in, targets out, once a round."""

    def __init__(self) -> None:
        self._targets: dict[str, Targets] = {}

    def round(self, policies: Policies, nodes: Mapping[str, Node], now_s: float) -> list[Effect]:
        """Compute the targets of all nodes; returns what was decided, for the record."""
        return []

    def of(self, node_id: str) -> Targets | None:
        """Return the targets of a node; None when there are none."""
        return self._targets.get(node_id)
