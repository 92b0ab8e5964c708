"""Samples decisions for the store: all while they are few, one of many when there are many; the last ones in memory.

Decisions are counted by slot and alternative, each kind by itself, so that a crowd of one kind hides no other.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from rm_proxy.domain.records import MAX_SCORES, DecisionRecord

MAX_KINDS: Final = 512


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many decisions are kept."""

    per_s: int = 200
    """Decisions of a kind within one second that are all kept."""
    one_of: int = 100
    """Of those beyond, one of this number is stored and stands for all of them."""
    recent: int = 2000
    """Kept in memory."""


@dataclass(slots=True)
class _Kind:
    second: int = -1
    count: int = 0
    place: int = 0
    """Place of the next decision in its group of `one_of`."""
    pick: int = 0
    """Place that is kept of this group."""


class Sampler:
    """Weights of decisions as they come; 0 leaves one out.

    Within a second the first `per_s` of a kind have weight 1. What comes beyond fills groups of `one_of`, over the
    seconds: of each group one, drawn at random, has weight `one_of`. So the weights add up to the number of decisions,
    but for `one_of` at most of each kind.
    """

    def __init__(self, sampling: Sampling, rng: Random) -> None:
        self._sampling, self._rng = sampling, rng
        self._kinds: OrderedDict[tuple[str, str], _Kind] = OrderedDict()

    def weight(self, slot: str, alternative: str, now_s: float) -> int:
        """Return for how many decisions this one stands; 0 when it is to be left out."""
        kind = self._kinds.get((slot, alternative))
        if kind is None:
            kind = self._kinds[slot, alternative] = _Kind()
            while len(self._kinds) > MAX_KINDS:
                self._kinds.popitem(last=False)
        second = int(now_s)
        if second != kind.second:
            kind.second, kind.count = second, 0
        kind.count += 1
        if kind.count <= self._sampling.per_s:
            return 1
        return self._of_group(kind)

    def _of_group(self, kind: _Kind) -> int:
        size = self._sampling.one_of
        if kind.place == 0:
            kind.pick = self._rng.randrange(size)
        hit = kind.place == kind.pick
        kind.place = (kind.place + 1) % size
        return size if hit else 0


class Decisions:
    """Gives decisions their ids and weights, and remembers the last ones.

    name: of this run of the proxy, unique for ever.
    """

    def __init__(self, name: str, sampling: Sampling, rng: Random) -> None:
        self._name, self._sampler = name, Sampler(sampling, rng)
        self._recent: deque[DecisionRecord] = deque(maxlen=sampling.recent)
        self._number = 0

    def take(self, record: DecisionRecord, now_s: float) -> DecisionRecord | None:
        """Return a decision as it is to be kept, or None when it is left out; `now_s` is Unix time."""
        weight = self._sampler.weight(record.slot, record.alternative, now_s)
        if weight == 0:
            return None
        self._number += 1
        name, scores = f"{self._name}-{self._number}", record.scores[:MAX_SCORES]
        sample = replace(record, id=name, weight=record.weight * weight, scores=scores)
        self._recent.append(sample)
        return sample

    def recent(self) -> list[DecisionRecord]:
        """Return the last ones that were kept, the newest first."""
        return list(reversed(self._recent))
