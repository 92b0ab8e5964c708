"""How alternatives compare at the nodes (slots `order`, `fill`, `preempt`), as sidecars count it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quicksilver.common.messages import Comparison

_NOTHING: Final = Comparison(alternative="", slot="order")


@dataclass(slots=True)
class NodeCounts:
    """Decisions of an alternative at nodes, in one slot, since the last round."""

    alternative: str
    slot: str
    nodes: int = 0
    """Reports that brought some."""
    decisions: int = 0
    differ: int = 0
    faults: int = 0
    node_id: str = ""
    """Where the last decision differed, and both decisions."""
    decision: str = ""
    shadow_decision: str = ""
    fault: str = ""


class NodeComparisons:
    """Reports in, what is new in all of them out: sidecars report counts that grow.

    What a node counted before its first report here is not new: a proxy before this one knows of it.
    """

    def __init__(self) -> None:
        self._known: dict[str, Sequence[Comparison]] = {}
        """The last counts of each node."""
        self._new: dict[tuple[str, str], NodeCounts] = {}

    def report(self, node_id: str, compared: Sequence[Comparison]) -> None:
        """Handle the counts of a node's report."""
        known = self._known.get(node_id)
        if known != compared:
            self._known[node_id] = compared
        if not compared or known is None or known == compared:
            return
        before = {(count.alternative, count.slot): count for count in known}
        for count in compared:
            last = before.get((count.alternative, count.slot), _NOTHING)
            self._add(node_id, count, last if last.since_s == count.since_s else _NOTHING)

    def _add(self, node_id: str, now: Comparison, last: Comparison) -> None:
        decisions, faults = now.decisions - last.decisions, now.faults - last.faults
        differ = now.differ - last.differ
        if min(decisions, faults, differ) < 0 or not (decisions or faults):
            return
        key = now.alternative, now.slot
        counts = self._new.get(key)
        if counts is None:
            counts = self._new[key] = NodeCounts(*key)
        counts.nodes += 1
        counts.decisions += decisions
        counts.differ += min(differ, decisions)
        counts.faults += faults
        if differ:
            counts.node_id, counts.decision, counts.shadow_decision = node_id, now.chosen, now.other
        if faults:
            counts.fault = now.fault

    def take(self) -> list[NodeCounts]:
        """Return what is new since the last call, and forget it."""
        new, self._new = list(self._new.values()), {}
        return new

    def clear(self) -> None:
        """Forget all: another proxy serves now."""
        self._known.clear()
        self._new.clear()

    def forget_node(self, node_id: str) -> None:
        """Forget a node that left the cluster."""
        self._known.pop(node_id, None)
