"""Which application's container gives way where one more starts than a node has cores, and how many of it did.

Of the containers that share the cores of a node one of the widest job gives way. A job pays its share and no more: of
its running containers at most one in N is shrunk at a time, N being the cores of a node, but always one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from policies.common.service_levels import level
from quicksilver.common.messages import ContainerState, Report

NOTHING_YIELDS: Final = -1.0
"""In place of a level: no container would give way."""


@dataclass(slots=True)
class _AtNode:
    """The containers of one node that share its cores."""

    cores: int = 1
    runs: dict[str, int] = field(default_factory=dict)
    """By application: containers that run, shrunk ones included."""
    shrunk: dict[str, int] = field(default_factory=dict)
    """By application: those of them that are shrunk, or will be for a container that is on its way."""
    next_app: str = ""
    """The application whose container would give way next; "" for none."""


class GivingWay:
    """A machine: reports and front places in, the application that would give way at each node out."""

    def __init__(self) -> None:
        self._nodes: dict[str, _AtNode] = {}
        self._runs: dict[str, int] = {}
        self._shrunk: dict[str, int] = {}
        self._next_at: dict[str, dict[str, None]] = {}
        """By application: the nodes where its container would give way next."""

    def report(self, report: Report, beyond: float, work_s: Callable[[str, float], float], now_s: float) -> float:
        """Count a node's containers anew; returns the level of the application that would give way, -1 without one.

        beyond: vcores in use there beyond its cores; work_s: returns an application's work at a time.
        """
        node_id = report.node_id
        if not report.slots:
            self.forget_node(node_id)
            return NOTHING_YIELDS
        at = self._nodes.get(node_id)
        if at is None:
            at = self._nodes[node_id] = _AtNode()
        at.cores = max(1, int(report.vcores))
        whole = self._count(at, report)
        work, app_id = -1.0, ""
        for each in whole:
            if not self._shrunk or not self.spares(each, at.cores):
                work, app_id = max((work, app_id), (work_s(each, now_s), each))
        if app_id != at.next_app:
            self._next_nowhere(node_id, at)
        if not app_id:
            return NOTHING_YIELDS
        if app_id != at.next_app:
            at.next_app = app_id
            self._next_at.setdefault(app_id, {})[node_id] = None
        if beyond > 0 and beyond > sum(at.shrunk.values()):
            self._shrink_next(at)
        return level(work)

    def _count(self, at: _AtNode, report: Report) -> dict[str, None]:
        """Count the containers that share the cores of a node; returns the applications of those that have theirs."""
        runs, shrunk, whole = dict[str, int](), dict[str, int](), dict[str, None]()
        for c in report.containers:
            if c.kind != "Q" or c.am or c.state is ContainerState.WAITING:
                continue
            app_id = c.app_id
            runs[app_id] = runs.get(app_id, 0) + 1
            if c.state is ContainerState.SHRUNK:
                shrunk[app_id] = shrunk.get(app_id, 0) + 1
            elif c.state is ContainerState.RUNNING:
                whole[app_id] = None
        if runs != at.runs:
            _add(self._runs, at.runs, -1)
            _add(self._runs, runs, 1)
            at.runs = runs
        if shrunk != at.shrunk:
            _add(self._shrunk, at.shrunk, -1)
            _add(self._shrunk, shrunk, 1)
            at.shrunk = shrunk
        return whole

    def taken(self, node_id: str) -> list[str]:
        """Note that a container takes a place beyond the cores of a node; returns nodes where nothing gives way now."""
        at = self._nodes.get(node_id)
        if at is None or not at.next_app:
            return []
        app_id = at.next_app
        self._shrink_next(at)
        nodes = self._next_at[app_id]
        ended = [each for each in nodes if each == node_id or self.spares(app_id, self._nodes[each].cores)]
        for each in ended:
            self._next_nowhere(each, self._nodes[each])
        return ended

    def spares(self, app_id: str, cores: int) -> bool:
        """Return whether as many containers of an application gave way as may, on nodes of so many cores."""
        shrunk = self._shrunk.get(app_id, 0)
        return shrunk > 0 and shrunk >= self._runs.get(app_id, 0) // cores

    def at(self, node_id: str) -> Collection[str]:
        """Return the applications of which queueable containers run at a node."""
        at = self._nodes.get(node_id)
        return at.runs.keys() if at is not None else ()

    def forget_node(self, node_id: str) -> None:
        """Forget the containers of a node."""
        at = self._nodes.pop(node_id, None)
        if at is not None:
            self._next_nowhere(node_id, at)
            _add(self._runs, at.runs, -1)
            _add(self._shrunk, at.shrunk, -1)

    def _shrink_next(self, at: _AtNode) -> None:
        at.shrunk[at.next_app] = at.shrunk.get(at.next_app, 0) + 1
        _add(self._shrunk, {at.next_app: 1}, 1)

    def _next_nowhere(self, node_id: str, at: _AtNode) -> None:
        if not at.next_app:
            return
        nodes = self._next_at[at.next_app]
        del nodes[node_id]
        if not nodes:
            del self._next_at[at.next_app]
        at.next_app = ""


def _add(totals: dict[str, int], counts: dict[str, int], sign: int) -> None:
    """Add counts to totals; totals of 0 are forgotten."""
    for app_id, count in counts.items():
        total = totals.get(app_id, 0) + sign * count
        if total:
            totals[app_id] = total
        else:
            totals.pop(app_id, None)
