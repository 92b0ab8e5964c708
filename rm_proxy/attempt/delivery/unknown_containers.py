"""Containers that the proxy granted itself, and whose end the ResourceManager never reports: it does not know them.

One that it was informed of for a node that it had lost a moment before is unknown to it, and it says so to nobody. It
reports the ends of all others: with the application master's next call after the node's heartbeat, or after the node
was lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.completions import Completions
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from rm_proxy.attempt.own_grants import is_own

ENDED_S: Final = 30.0
"""Time after its sidecar reported the end of a container; its NodeManager reports each second."""
UNLISTED_S: Final = 120.0
"""Time after its node left the ResourceManager's list; one that was restarted lists nodes again within seconds."""


@dataclass(slots=True)
class _Doubt:
    since_s: float
    answers: int | None = None
    """Answers that the application master had got when the time was over."""


class UnknownContainers:
    """Ends such containers, once, of one application attempt."""

    def __init__(self, world: ClusterView, live: HeldContainers, ends: Completions) -> None:
        self._world, self._live, self._ends = world, live, ends
        self._doubts: dict[str, _Doubt] = {}

    def round(self, answers: int, now_s: float) -> None:
        """Do all due work; answers: how many the application master got so far.

        The ResourceManager may have an end that the application master has not asked for: one more answer has to come.
        """
        doubts: dict[str, _Doubt] = {}
        due: list[HeldContainer] = []
        for live in self._live if self._world.minter.on else ():
            wait_s = self._wait_s(live, now_s) if is_own(live.proto) else None
            if wait_s is None:
                continue
            doubt = self._doubts.get(live.id) or _Doubt(now_s)
            if doubt.answers is not None and answers > doubt.answers:
                due.append(live)
                continue
            if doubt.answers is None and now_s - doubt.since_s >= wait_s:
                doubt.answers = answers
            doubts[live.id] = doubt
        self._doubts = doubts
        for live in due:
            self._ends.preempt(live, f"the ResourceManager does not know it on {live.node_id}", now_s)

    def _wait_s(self, live: HeldContainer, now_s: float) -> float | None:
        """Return after how long a container's end is made; None while there is nothing to doubt."""
        inventory = self._world.inventory
        if not inventory.listed(live.node_id):
            return UNLISTED_S
        return ENDED_S if live.is_over and inventory.away(live.node_id, now_s) is None else None
