"""Mercury's workloads (ATC '15, §7): what is offered; as open arrivals here, as a closed loop in
`quicksilver_lab.bench.emulator`.

Jobs are of classes, and of every BLOCK jobs each class has exactly its share, so that seeds differ in order and not in
work. What differs from the paper is said at each workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from quicksilver_lab.papers.workloads.draws import Draw, empirical, fixed, lognormal

BLOCK: Final = 20
"""Jobs within which shares are exact; these are multiples of 1 / BLOCK."""
TASKS: Final = 200
"""Of each job (§7.2)."""
SLOTS: Final = 256 * 32
"""Machines and their virtual cores (§7.1)."""


@dataclass(frozen=True, slots=True)
class JobKind:
    """A class of jobs. share: of the jobs, a multiple of 1 / BLOCK; mean_s: of a task."""

    name: str
    share: float
    mean_s: float
    sigma: float = 0.0
    """Of the logarithm of task durations; 0: all take mean_s."""
    durations_s: tuple[float, ...] = ()
    """What a task takes is drawn from these, whose mean is mean_s."""

    @property
    def draw(self) -> Draw:
        """How long a task takes."""
        if self.durations_s:
            return empirical(self.durations_s)
        return lognormal(self.mean_s, self.sigma) if self.sigma else fixed(self.mean_s)


@dataclass(frozen=True, slots=True)
class Workload:
    """What is offered, apart from its size."""

    name: str
    kinds: tuple[JobKind, ...]
    straggler_share: float = 0.0
    """Of the tasks; these take `straggler_times` as long as they are said to."""
    straggler_times: float = 1.0
    slow_nodes: float = 0.0
    """Share of the nodes where every task takes `slow_times` as long as it is said to (`NodeSettings.slow_share`)."""
    slow_times: float = 1.0
    error: float = 0.0
    """What is told of a job's mean task duration is off by up to this share (Eagle's experiments: 0.3, 0.6, 0.9)."""
    hints: bool = True
    """Whether masters tell durations at all."""
    local_share: float = 0.0
    """Of the jobs, whose tasks name the hosts of their input."""

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        counts = [kind.share * BLOCK for kind in self.kinds]
        if any(abs(count - round(count)) > 1e-6 for count in counts) or round(sum(counts)) != BLOCK:
            raise ValueError(f"{self.name}: shares must be multiples of 1/{BLOCK} and 1 together")
        for name in ("straggler_share", "slow_nodes", "local_share"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{self.name}: {name}={value} is no share, 0 to 1")
        if not 0 <= self.error < 1 or not self.straggler_times > 0:
            raise ValueError(f"{self.name}: error must be within 0 and 1, straggler_times above 0")

    @property
    def mean_s(self) -> float:
        """How long a task runs on average, stragglers included."""
        mean_s = sum(kind.share * kind.mean_s for kind in self.kinds)
        return mean_s * (1 + self.straggler_share * (self.straggler_times - 1))


def _fixed(seconds: int) -> Workload:
    return Workload(f"fixed_{seconds}s", (JobKind(f"{seconds}s", 1.0, float(seconds)),))


MICRO: Final = Workload("micro", (JobKind("1.2s", 1.0, 1.2, 0.5),))
"""§7.2: tasks of 1.2 s on average. How they vary the paper does not say; lognormal here."""
HYBRID: Final = Workload("hybrid", (JobKind("2s", 0.8, 2.0), JobKind("50s", 0.2, 50.0)))
"""§7.4.1: of the jobs 80 % have tasks of 2 s, 20 % of 50 s."""
MICROSOFT: Final = Workload(
    "microsoft",
    (
        JobKind("1s", 0.15, 1.0, 0.5),
        JobKind("3s", 0.25, 3.0, 0.5),
        JobKind("6s", 0.2, 6.0, 0.3),
        JobKind("11s", 0.2, 11.0, 0.1),
        JobKind("30s", 0.1, 30.0, 0.3),
        JobKind("60s", 0.1, 60.0, 0.3),
    ),
)
"""§7.4.2: like Figure 1. The text gives no curve: almost 60 % of the tasks end within 10 s, there are jobs of 3 s and
of 11 s tasks, and some far longer; the classes keep that, and the longest ones fit a run of minutes."""
STRAGGLERS: Final = Workload("stragglers", (JobKind("2s", 1.0, 2.0),), slow_nodes=1 / 16, slow_times=3.0)
"""§7.2.3: a few straggler nodes underestimate queuing delay. Here one node of 16, where tasks take three times what
their job says; how many and how far off the paper does not say."""
STRAGGLER_TASKS: Final = Workload(
    "straggler_tasks", (JobKind("2s", 1.0, 2.0),), straggler_share=0.05, straggler_times=10.0
)
"""Not the paper's: one task of 20, drawn by chance, takes ten times what its job says. Jobs wait for these, not for
slots."""
ERRORS: Final = tuple(replace(HYBRID, name=f"hybrid_error_{error:.0%}"[:-1], error=error) for error in (0.3, 0.6, 0.9))
"""What is told of durations is off by up to 30, 60 or 90 %, as in Eagle's experiments: 2 s stays short, 50 s long."""
WORKLOADS: Final = {
    workload.name: workload
    for workload in (MICRO, _fixed(2), _fixed(10), _fixed(20), HYBRID, MICROSOFT, STRAGGLERS, STRAGGLER_TASKS, *ERRORS)
}


def kinds(workload: Workload, rng: Random) -> Iterator[JobKind]:
    """Yield classes of jobs without end; of every BLOCK each has its share."""
    while True:
        block = [kind for kind in workload.kinds for _ in range(round(kind.share * BLOCK))]
        rng.shuffle(block)
        yield from block
