"""How fast nodes are: how much longer tasks take on one than their like take elsewhere (own; Mercury §7.2.3).

Mercury's stragglers are nodes whose tasks outlast their estimates, so that queues there are longer than anybody
believes. Here each task that ended tells the ratio of what it took to what was expected of its like; of a node the mean
of their logarithms counts, as far as it stands out from chance, against the median of all nodes. An estimate that
is wrong everywhere so tells nothing of a node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

HALF_S: Final = 300.0
"""After so long a node's tasks count half: it may have been mended meanwhile."""
LEAST_NODES: Final = 3
"""With fewer nodes to compare, all count as equal."""
MOST_TIMES: Final = 10.0
"""No node counts as slower or faster than this; single tasks neither."""
DEAD_BAND: Final = 0.1
"""Of the logarithm: what differs by less counts as equal."""
_PRIOR: Final = 1.0
"""As many tasks as this were as long as expected, before any came, with a spread of..."""
_PRIOR_SD: Final = 0.5


@dataclass(slots=True)
class _Pace:
    """Logarithms of a node's ratios: how many count, their sum, that of their squares, and when that was."""

    count: float = 0.0
    sum: float = 0.0
    squares: float = 0.0
    at_s: float = 0.0
    outlived: tuple[float, ...] = ()
    """Of those that run and outlived what was expected: as if they ended now. What is below the mean of those that
    ended tells nothing yet."""

    def fade(self, now_s: float) -> None:
        """Have what is known count less as time goes by."""
        self._keep(0.5 ** (max(0.0, now_s - self.at_s) / HALF_S))
        self.at_s = now_s

    def add(self, ratio_log: float, most: int) -> None:
        """Take in a task; all together count as `most` at most."""
        if self.count > most - 1:
            self._keep((most - 1) / self.count)
        self.count += 1
        self.sum += ratio_log
        self.squares += ratio_log * ratio_log

    def _keep(self, part: float) -> None:
        self.count, self.sum, self.squares = self.count * part, self.sum * part, self.squares * part

    def mean_and_error(self) -> tuple[float, float]:
        """Return the mean, the prior counted in, and its standard error."""
        told = self.sum / (self.count + _PRIOR)
        more = [each for each in self.outlived if each > told]
        weight = self.count + len(more) + _PRIOR
        mean = (self.sum + sum(more)) / weight
        squares = self.squares + sum(each * each for each in more) + _PRIOR * _PRIOR_SD**2
        return mean, math.sqrt(max(0.0, squares / weight - mean * mean) / weight)


class Speeds:
    """A machine: ended tasks in, ratios out, computed once a round; as much memory as nodes are known."""

    def __init__(self) -> None:
        self._paces: dict[str, _Pace] = {}
        self._ratios: dict[str, float] = {}
        """Of the nodes that are not like the others."""

    def observe(self, node_id: str, took_s: float, expected_s: float, most: int, now_s: float) -> None:
        """Take in what a task took, and what was expected of its like; seconds, both > 0.

        most: how many of a node's tasks count.
        """
        pace = self._paces.setdefault(node_id, _Pace(at_s=now_s))
        pace.fade(now_s)
        pace.add(_log(took_s / expected_s), most)

    def running(self, node_id: str, outlived: Sequence[float], now_s: float) -> None:
        """Take in the ages of those that run and outlived what was expected of their like, as parts of that (> 1)."""
        pace = self._paces.get(node_id)
        if pace is None and outlived:
            pace = self._paces[node_id] = _Pace(at_s=now_s)
        if pace is not None:
            pace.outlived = tuple(_log(ratio) for ratio in outlived)

    def forget(self, node_id: str) -> None:
        """Forget a node."""
        self._paces.pop(node_id, None)
        self._ratios.pop(node_id, None)

    def clear(self) -> None:
        """Forget all: nodes count as equal."""
        self._paces.clear()
        self._ratios.clear()

    def round(self, now_s: float) -> None:
        """Compute the ratios anew."""
        for pace in self._paces.values():
            pace.fade(now_s)
        self._ratios = {}
        if len(self._paces) < LEAST_NODES:
            return
        known = {node_id: pace.mean_and_error() for node_id, pace in self._paces.items()}
        middle, bound = median(mean for mean, _ in known.values()), math.log(MOST_TIMES)
        for node_id, (mean, error) in known.items():
            sure = abs(mean - middle) - error
            if sure > DEAD_BAND:
                self._ratios[node_id] = math.exp(math.copysign(min(bound, sure), mean - middle))

    def of(self, node_id: str) -> float:
        """Return how many times as long tasks take there as elsewhere; 1 for a node like the others."""
        return self._ratios.get(node_id, 1.0)


def _log(ratio: float) -> float:
    bound = math.log(MOST_TIMES)
    return min(bound, max(-bound, math.log(ratio)))
