"""The nodes that are kept for short jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from policies.model import NodeView

PERIOD_S: Final = 30.0
"""How long a partition stays as it is while the same nodes are there."""
_NOBODY: Final[frozenset[str]] = frozenset()


class Partition:
    """A machine: the cluster's nodes in, those that are kept for short jobs out."""

    def __init__(self) -> None:
        self.nodes: frozenset[str] = _NOBODY
        """Their ids."""
        self.hosts: frozenset[str] = _NOBODY
        """Their hosts, of which long jobs run on none."""
        self._among: frozenset[str] = _NOBODY
        self._at_s: float | None = None

    def round(
        self, nodes: Iterable[NodeView], choose: Callable[[list[NodeView]], frozenset[str]] | None, now_s: float
    ) -> None:
        """Choose anew where it is time; choose: asks the policy, None where nothing is kept."""
        if choose is None:
            self.nodes = self.hosts = self._among = _NOBODY
            self._at_s = None
            return
        views = [node for node in nodes if not node.label]
        among = frozenset(node.id for node in views)
        if among == self._among and self._at_s is not None and now_s - self._at_s < PERIOD_S:
            return
        self._among, self._at_s = among, now_s
        self.nodes = choose(views)
        others = {node.host for node in views if node.id not in self.nodes}
        self.hosts = frozenset({node.host for node in views if node.id in self.nodes} - others)
