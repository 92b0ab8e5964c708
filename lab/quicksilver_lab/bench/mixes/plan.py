"""Who runs which mix, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quicksilver_lab.bench.mercury.competitors import BY_NAME as COMPETITORS
from quicksilver_lab.bench.mixes.goals import TUNED
from quicksilver_lab.bench.mixes.mixes import ALL, GUARANTEES, TOLD
from quicksilver_lab.bench.mixes.mixes import BY_NAME as MIXES
from quicksilver_lab.bench.mixes.step import BOUNDS, MixStep

STOCK: Final = (
    TUNED,
    "only_g_fair",
    "only_g_fair_preempt",
    "opportunistic_deep",
    "opportunistic_half",
    "opportunistic_half_deep",
)
"""What a careful user of stock YARN has: of these the best by each metric is what the default is measured against."""
BESIDE: Final = ("only_g_tuned_fast", "only_g_fair_fast")
"""Shown beside them with what they cost the ResourceManager: they load it with five times the heartbeats."""
OURS: Final = "quicksilver" if "quicksilver" in COMPETITORS else "quicksilver_late"
"""The one that has to reach the goals."""
QUICK_MIX: Final = "facebook_77"
QUICK: Final = (TUNED, "only_g_fair", OURS)
_BESIDE_S: Final = 15.0
"""Starting and stopping a run."""


@dataclass(frozen=True, slots=True)
class MixesPlan:
    """What is run, one after the other."""

    mixes: tuple[str, ...] = tuple(name for name, mix in MIXES.items() if mix not in TOLD)
    competitors: tuple[str, ...] = (*STOCK, *BESIDE, OURS)
    seeds: int = 3
    nodes: int | None = None
    """None: as many as each mix has."""
    cores: int | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a name that is none."""
        for kind, names, known in (
            ("mix", self.mixes, MIXES),
            ("competitor", self.competitors, COMPETITORS),
        ):
            unknown = [name for name in names if name not in known]
            if unknown or not names:
                raise ValueError(f"no {kind} is named {', '.join(unknown) or '(none)'}: choose from {', '.join(known)}")

    @property
    def stock(self) -> tuple[str, ...]:
        """The competitors among which the best is taken."""
        return tuple(name for name in self.competitors if not COMPETITORS[name].quicksilver and name not in BESIDE)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Those of quicksilver; the first of them has to reach the goals."""
        mine = [name for name in self.competitors if COMPETITORS[name].quicksilver]
        return tuple(sorted(mine, key=lambda name: name != OURS))

    def steps(self, seed: int) -> list[MixStep]:
        """Return the runs of a seed; the order of the competitors rotates from seed to seed."""
        turn = (seed - 1) % len(self.competitors)
        order = self.competitors[turn:] + self.competitors[:turn]
        return [
            self._step(mix, competitor, seed)
            for mix in self.mixes
            for competitor in order
            if mix != GUARANTEES.name or competitor == TUNED or competitor in self.candidates
        ]

    def bounds(self, mix: str) -> list[MixStep]:
        """Return the bounds of a mix for all seeds; none where guarantees are looked at, not latencies."""
        if mix == GUARANTEES.name:
            return []
        return [self._step(mix, name, seed) for seed in range(1, self.seeds + 1) for name in BOUNDS]

    def _step(self, mix: str, competitor: str, seed: int) -> MixStep:
        return MixStep(mix, competitor, seed, self.nodes, self.cores, self.quick)

    def slots(self, mix: str) -> int:
        """Return the slots on which a mix runs."""
        return self._step(mix, OURS, 1).mix.size.slots

    def expected_s(self) -> float:
        """Return about how long the runs take."""
        return sum(_expected_s(step) for step in self.steps(1)) * self.seeds


def _expected_s(step: MixStep) -> float:
    mix = step.mix
    size = mix.size
    window_s = _arriving_s(mix.load, step) if mix.open else size.warm_s + size.window_s
    return window_s + size.longest_s + _BESIDE_S


def _arriving_s(load: float, step: MixStep) -> float:
    """Return about how long the jobs of an open mix arrive: 150 s of work for each slot, or for minutes."""
    return 10.0 + (150.0 / load if load else 300.0) / (2.0 if step.quick else 1.0)


def plan(
    quick: bool,
    mixes: Sequence[str],
    competitors: Sequence[str],
    seeds: int | None,
    nodes: int | None = None,
    cores: int | None = None,
) -> MixesPlan:
    """Return what is run; empty: as planned. Raises ValueError for a name that is none."""
    return MixesPlan(
        mixes=tuple(mixes) or ((QUICK_MIX,) if quick else tuple(mix.name for mix in (*ALL, GUARANTEES))),
        competitors=tuple(competitors) or (QUICK if quick else (*STOCK, *BESIDE, OURS)),
        seeds=seeds or (1 if quick else 3),
        nodes=nodes,
        cores=cores,
        quick=quick,
    )
