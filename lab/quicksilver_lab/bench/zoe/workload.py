"""The applications of Zoe's experiment ("Flexible Scheduling of Distributed Analytic Applications", §6).

Printed: 100 applications; gaps between their arrivals of 60 s, Gaussian with a deviation of 40 s; 80 % are elastic, a
random forest (3 core and 32 elastic components) or a recommender (3 and 24), each in two flavours of 16 or 8 GB for an
elastic component; 20 % are rigid, TensorFlow on one node (1 worker) or distributed (10 workers and 5 parameter
servers), of 16 GB each; ten servers of 32 cores and 128 GB; memory alone is partitioned.

Ours, for it is not printed: a negative gap is drawn again; the kinds and flavours of each class are equally frequent; a
core component of an elastic application is as large as its elastic ones; runtimes are lognormal with a deviation of 0.5
and such that memory is wanted at `load` from the first arrival to the last, as in
`quicksilver_lab.papers.zoe.mix.testbed`. "Each trace takes about 3 hours from the first submission to the last", but
100 gaps of 60 s are 1.7 hours: here they are 1.8, since negative gaps are drawn again. All times are divided by
`scale`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from quicksilver.simulator.model import ApplicationJob, ClusterModel
from quicksilver_lab.bench.emulator.masters.application import COORDINATORS, ApplicationSpec
from quicksilver_lab.bench.emulator.rm import NodeShape
from quicksilver_lab.papers.zoe.model import BATCH_ELASTIC, BATCH_RIGID

SERVERS: Final = 10
SHAPE: Final = NodeShape(vcores=32, memory_mb=128 * 1024)
"""Of each server."""
CLUSTER: Final = ClusterModel(nodes=SERVERS, slots=SHAPE.vcores, memory_mb=SHAPE.memory_mb)
"""The same for the simulator."""
_GB: Final = 1024
_GAP_S: Final = 60.0
_GAP_DEVIATION_S: Final = 40.0
_RUNTIME_SIGMA: Final = 0.5
_RIGID_RATIO: Final = 0.2
_RIGID: Final = (1, 15)
"""Core components."""
_ELASTIC: Final = (32, 24)
"""Elastic components of a random forest and of a recommender, beside 3 core ones."""
_ELASTIC_CORE: Final = 3
_FLAVOURS_MB: Final = (8 * _GB, 16 * _GB)
_RIGID_MB: Final = 16 * _GB


@dataclass(frozen=True, slots=True)
class ZoeWorkload:
    """Which applications are drawn; equal ones draw equal applications."""

    seed: int = 1
    applications: int = 100
    scale: float = 20.0
    """The paper's times by ours."""
    load: float = 1.0
    """What all applications ask for, by what the servers have from the first arrival to the last."""

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        if self.applications < 2 or not (self.scale > 0 and self.load > 0):
            raise ValueError(
                f"{self.applications} applications, scale {self.scale}, load {self.load}: "
                "give at least 2 applications, and a scale and load above 0"
            )


def applications(workload: ZoeWorkload) -> list[ApplicationSpec]:
    """Return the applications by arrival, the first at 0 s; times are whole milliseconds."""
    rng = Random(f"zoe {workload.seed}")
    drawn, now_s = [], 0.0
    for number in range(1, workload.applications + 1):
        now_s += _gap_s(rng) if number > 1 else 0.0
        elastic = 0 if rng.random() < _RIGID_RATIO else rng.choice(_ELASTIC)
        core = _ELASTIC_CORE if elastic else rng.choice(_RIGID)
        memory_mb = rng.choice(_FLAVOURS_MB) if elastic else _RIGID_MB
        drawn.append((number, now_s, core, elastic, memory_mb, rng.lognormvariate(0, _RUNTIME_SIGMA)))
    wanted_mb_s = sum((core + elastic) * memory_mb * length for _, _, core, elastic, memory_mb, length in drawn)
    length_s = workload.load * now_s * SERVERS * SHAPE.memory_mb / wanted_mb_s
    return [
        ApplicationSpec(
            number,
            round(at_s / workload.scale, 3),
            BATCH_ELASTIC if elastic else BATCH_RIGID,
            core,
            elastic,
            memory_mb,
            memory_mb,
            round(length * length_s / workload.scale, 3),
            COORDINATORS if elastic else 0,
        )
        for number, at_s, core, elastic, memory_mb, length in drawn
    ]


def _gap_s(rng: Random) -> float:
    while True:
        gap_s = rng.gauss(_GAP_S, _GAP_DEVIATION_S)
        if gap_s >= 0:
            return gap_s


def simulated(specs: Sequence[ApplicationSpec]) -> list[ApplicationJob]:
    """Return applications for the simulator, where memory alone counts too.

    Raises ValueError for one whose core and elastic components differ in size.
    """
    return [_simulated(spec) for spec in specs]


def _simulated(spec: ApplicationSpec) -> ApplicationJob:
    if spec.elastic and spec.core_mb != spec.elastic_mb:
        raise ValueError(f"application {spec.number}: the simulator has components of one size alone")
    return ApplicationJob(
        spec.number,
        spec.arrives_s,
        (spec.runtime_s,) * (spec.core + spec.elastic),
        spec.runtime_s,
        name=spec.klass,
        cores=0.001,
        memory_mb=spec.core_mb,
        core=spec.core,
        klass=spec.klass,
    )
