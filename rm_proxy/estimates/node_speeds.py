"""Speeds of nodes: how much longer tasks take on one than similar tasks elsewhere (own; Mercury §7.2.3).

Mercury's stragglers are nodes whose tasks outlast their estimates, so that queues there are longer than
expected. Here each ended task gives the ratio of its duration to the estimate of its kind; for a node the mean of
their logarithms counts, as far as it stands out from chance, against the median of all nodes. So an estimate that is
wrong everywhere says nothing about a node.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HALF_S: Final = 300.0
"""Time after which a node's tasks count half: it may have been repaired meanwhile."""
FADE_S: Final = 10.0
"""Tasks fade in steps of this time."""
LEAST_NODES: Final = 3
"""With fewer nodes to compare, all count as equal."""
MOST_TIMES: Final = 10.0
"""No node counts as slower or faster than this; single tasks neither."""
DEAD_BAND: Final = 0.1
"""Of the logarithm: smaller differences count as none."""
_PRIOR: Final = 1.0
"""As many tasks as this were as long as expected, before any came, with a spread of..."""
_PRIOR_SD: Final = 0.5
_REBASE: Final = 20.0
"""Number of half-lives after which everything is scaled anew: a task then counts a million times an old one."""


@dataclass(slots=True)
class _Pace:
    """Logarithms of a node's ratios: how many count, their sum, and that of their squares, in the scale of `Speeds`."""

    count: float = 0.0
    sum: float = 0.0
    squares: float = 0.0
    outlived: tuple[float, ...] = ()
    """Of running tasks that outlived their estimates: as if they ended now. One below the mean of ended tasks gives no
    information yet."""

    def add(self, ratio_log: float, limit: int, weight: float) -> None:
        """Handle a task that counts as `weight`; all together count as `limit` such at most."""
        if self.count > (limit - 1) * weight:
            self.keep((limit - 1) * weight / self.count)
        self.count += weight
        self.sum += weight * ratio_log
        self.squares += weight * ratio_log * ratio_log

    def keep(self, part: float) -> None:
        """Reduce the weight of everything to a part of it."""
        self.count, self.sum, self.squares = self.count * part, self.sum * part, self.squares * part

    def mean_and_error(self, scale: float) -> tuple[float, float]:
        """Return the mean, the prior counted in, and its standard error."""
        count, total = self.count * scale, self.sum * scale
        mean_ended = total / (count + _PRIOR)
        more = [each for each in self.outlived if each > mean_ended]
        weight = count + len(more) + _PRIOR
        mean = (total + sum(more)) / weight
        squares = self.squares * scale + sum(each * each for each in more) + _PRIOR * _PRIOR_SD**2
        return mean, math.sqrt(max(0.0, squares / weight - mean * mean) / weight)


class Speeds:
    """A machine: ended tasks in, ratios out, computed once a round; as much memory as nodes are known.

    Tasks fade alike, so none is touched as time goes by: what comes later counts for more, and all is scaled when read.
    They fade in steps; between two of them only nodes are looked at of which something is new.
    """

    def __init__(self) -> None:
        self._paces: dict[str, _Pace] = {}
        self._ratios: dict[str, float] = {}
        """Ratios of the nodes that differ from the others."""
        self._base_s = 0.0
        """A task of then counts as 1."""
        self._step = -1
        self._measured: dict[str, tuple[float, float]] = {}
        """Mean and error of each node in this step."""
        self._means: list[tuple[float, str]] = []
        """Sorted."""
        self._news: dict[str, None] = {}

    def observe(self, node_id: str, took_s: float, expected_s: float, limit: int, now_s: float) -> None:
        """Handle the duration of a task and the estimate of its kind; seconds, both > 0.

        limit: how many of a node's tasks count.
        """
        pace = self._paces.setdefault(node_id, _Pace())
        if now_s - self._base_s > _REBASE * HALF_S:
            scale, self._base_s, self._step = self._scale(now_s), now_s, -1
            for known in self._paces.values():
                known.keep(scale)
        pace.add(_log(took_s / expected_s), limit, 1 / self._scale(now_s))
        self._news[node_id] = None

    def _scale(self, now_s: float) -> float:
        return float(0.5 ** (max(0.0, now_s - self._base_s) / HALF_S))

    def running(self, node_id: str, outlived: Sequence[float], now_s: float) -> None:
        """Handle the ages of running tasks that outlived their estimates, as parts of those (> 1)."""
        pace = self._paces.get(node_id)
        if pace is None and outlived:
            pace = self._paces[node_id] = _Pace()
        if pace is not None and (outlived or pace.outlived):
            pace.outlived = tuple(_log(ratio) for ratio in outlived)
            self._news[node_id] = None

    def forget(self, node_id: str) -> None:
        """Forget a node."""
        self._paces.pop(node_id, None)
        self._ratios.pop(node_id, None)
        self._news[node_id] = None

    def clear(self) -> set[str]:
        """Forget all: nodes count as equal; return those that did not."""
        before = set(self._ratios)
        for known in (self._paces, self._ratios, self._measured, self._means, self._news):
            known.clear()
        return before

    def round(self, now_s: float) -> set[str]:
        """Compute the ratios anew; return the nodes that are not, or were not, like the others."""
        before, self._ratios = self._ratios, {}
        self._look(now_s)
        if len(self._paces) < LEAST_NODES:
            return set(before)
        means, bound = self._means, math.log(MOST_TIMES)
        half = len(means) // 2
        middle = means[half][0] if len(means) % 2 else (means[half - 1][0] + means[half][0]) / 2
        slow, fast = bisect_right(means, (middle + DEAD_BAND, "")), bisect_left(means, (middle - DEAD_BAND, ""))
        for mean, node_id in (*means[:fast], *means[slow:]):
            sure = abs(mean - middle) - self._measured[node_id][1]
            if sure > DEAD_BAND:
                self._ratios[node_id] = math.exp(math.copysign(min(bound, sure), mean - middle))
        return before.keys() | self._ratios.keys()

    def _look(self, now_s: float) -> None:
        """Compute the means of those nodes that may have others."""
        step, news, paces = int(now_s // FADE_S), self._news, self._paces
        scale = self._scale(step * FADE_S)
        self._news = {}
        if step != self._step or len(news) > len(paces) // 4:
            self._step = step
            self._measured = {node_id: pace.mean_and_error(scale) for node_id, pace in paces.items()}
            self._means = sorted((mean, node_id) for node_id, (mean, _) in self._measured.items())
            return
        for node_id in news:
            known = self._measured.pop(node_id, None)
            if known is not None:
                del self._means[bisect_left(self._means, (known[0], node_id))]
            if node_id in paces:
                measured = self._measured[node_id] = paces[node_id].mean_and_error(scale)
                insort(self._means, (measured[0], node_id))

    def of(self, node_id: str) -> float:
        """Return how many times as long tasks take there as elsewhere; 1 for an ordinary node."""
        return self._ratios.get(node_id, 1.0)


def _log(ratio: float) -> float:
    bound = math.log(MOST_TIMES)
    return min(bound, max(-bound, math.log(ratio)))
