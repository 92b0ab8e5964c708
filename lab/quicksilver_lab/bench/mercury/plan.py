"""The runs and their order: the goals' comparisons are repeated, all others run once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from quicksilver_lab.bench.mercury.compare import FIXED, HYBRID, STRAGGLERS
from quicksilver_lab.bench.mercury.competitors import OWN_OPPORTUNISTIC


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """A cluster and how long it is observed. Times in seconds. The jobs' number and width follow (`jobs.shape`)."""

    nodes: int = 64
    cores: int = 4
    """Slots of a node."""
    warm_s: float = 12.0
    """Before the window: the masters arrive, the JVM warms up."""
    window_s: float = 25.0
    drain_s: float = 60.0
    """Time after the window within which all jobs have to end."""
    longest_s: float = 10.0
    """About how long the drain takes, for the estimate of the whole."""
    heartbeat_s: float = 1.0
    """Of nodes and masters."""

    @property
    def slots(self) -> int:
        """Slots of all nodes."""
        return self.nodes * self.cores


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A workload and who runs it."""

    workload: str
    repeated: tuple[str, ...]
    """In each round."""
    once: tuple[str, ...] = ()
    """In the first round only."""
    rounds: int = 3
    size: ClusterSize = ClusterSize()


@dataclass(frozen=True, slots=True)
class Step:
    """One run."""

    workload: str
    competitor: str
    seed: int
    size: ClusterSize


BEST: Final = "opportunistic of the best comparator"
"""In a part: all of Hadoop's own in the first round, the best of them later."""
_Q, _PLAIN, _HYBRID = "quicksilver_only_q", "quicksilver_only_q_plain", "quicksilver_hybrid"
_MIXED: Final = ClusterSize(warm_s=15.0, window_s=60.0, drain_s=300.0, longest_s=65.0)

DEFAULT: Final = (
    PlanPart(
        FIXED,
        ("only_g_tuned", BEST, _Q),
        ("only_g_shipped", "only_g_fair", "quicksilver_only_g", _PLAIN, _HYBRID, "quicksilver_las"),
    ),
    PlanPart(HYBRID, ("only_g_tuned", _HYBRID, _Q), rounds=2, size=_MIXED),
    PlanPart(STRAGGLERS, ("only_g_tuned", _PLAIN, _Q), rounds=2, size=ClusterSize(drain_s=120.0, longest_s=25.0)),
    PlanPart("fixed_10s", ("only_g_tuned", _Q), rounds=1, size=ClusterSize(warm_s=15.0, window_s=40.0, longest_s=20.0)),
    PlanPart(
        "fixed_20s",
        ("only_g_tuned", _Q),
        rounds=1,
        size=ClusterSize(warm_s=25.0, window_s=50.0, drain_s=120.0, longest_s=30.0),
    ),
    PlanPart("microsoft", ("only_g_tuned", _HYBRID, _Q), rounds=1, size=_MIXED),
)
QUICK: Final = (
    PlanPart(
        FIXED,
        ("only_g_tuned", "opportunistic", _Q),
        rounds=1,
    ),
)


def selection(
    parts: Sequence[PlanPart], workloads: Sequence[str], competitors: Sequence[str], rounds: int | None = None
) -> tuple[PlanPart, ...]:
    """Return the parts with these workloads and competitors alone; empty for all. Raises ValueError of none.

    rounds: repetitions of what is repeated, None for those of the plan.
    """
    result = []
    for part in parts:
        remainder = replace(
            part,
            repeated=_matches(part.repeated, competitors),
            once=_matches(part.once, competitors),
            rounds=rounds or part.rounds,
        )
        if (not workloads or part.workload in workloads) and remainder.repeated + remainder.once:
            result.append(remainder)
    if not result:
        raise ValueError(f"no part of the plan has {', '.join([*workloads, *competitors])}; see lab/docs/benchmarks.md")
    return tuple(result)


def _matches(names: Sequence[str], competitors: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        name
        for name in names
        if not competitors or name in competitors or (name == BEST and "opportunistic" in competitors)
    )


def steps(part: PlanPart, number: int, best: str | None) -> list[Step]:
    """Return a part's runs of round `number`, from 1 up; the order rotates from round to round.

    best: the best of Hadoop's own opportunistic competitors, known after the first round. All runs of a round have the
    same seed, and so the same jobs.
    """
    if number > part.rounds:
        return []
    names: list[str] = []
    for name in part.repeated + (part.once if number == 1 else ()):
        names += [name] if name != BEST else OWN_OPPORTUNISTIC if number == 1 else [best] if best else []
    turn = (number - 1) % len(names)
    return [Step(part.workload, name, number, part.size) for name in names[turn:] + names[:turn]]


def expected_s(parts: Sequence[PlanPart], beside_s: float = 12.0) -> float:
    """Return about how long the runs take one after the other; `beside_s`: starting and stopping one."""
    runs = [step for part in parts for number in range(1, part.rounds + 1) for step in steps(part, number, "one")]
    return sum(step.size.warm_s + step.size.window_s + step.size.longest_s + beside_s for step in runs)
