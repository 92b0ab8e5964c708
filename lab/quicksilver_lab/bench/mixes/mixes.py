"""The mixes: jobs by seed, and on what cluster they run.

Open mixes are so many jobs that arrive when they do and all run to their end; the same jobs come under every
competitor. Closed ones keep so many jobs under way for a time, as in Mercury's experiments: they show the throughput.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Final

import quicksilver
from quicksilver.common.errors import QuicksilverError
from quicksilver.simulator.traces.formats.registry import read_specs
from quicksilver.simulator.traces.generators import generate, generator
from quicksilver.simulator.traces.spec import spec_of
from quicksilver_lab.bench.emulator.jobs import PAPER_JOBS, Scaling, scaled, shape
from quicksilver_lab.bench.emulator.model import JobSpec, TaskSpec
from quicksilver_lab.bench.emulator.workloads import draw
from quicksilver_lab.bench.mixes import guarantees, same_name
from quicksilver_lab.bench.mixes.bound import Slots
from quicksilver_lab.papers.workloads.mercury import WORKLOADS

FACEBOOK: Final = Path(quicksilver.__file__).parents[1] / "tests/data/swim/fb2009-24x1h-0.tsv"
"""Of a checkout; the wheel has no traces."""
MOST_TASKS: Final = 300
MOST_S: Final = 40.0
"""Of a task of the Facebook trace; its durations are guessed from bytes."""
_WORK_PER_SLOT_S: Final = 155.0
"""Drawn heavy-tailed jobs are scaled to so much work for each slot."""
_BLOCK: Final = 10
"""Neighbours within which a seed changes the order of a trace's jobs."""
_PHASE_S: Final = 1.0
"""By up to so much it moves an arrival: the phase of heartbeats."""
_MEMORY_MB: Final = 1024

Draw = Callable[["Mix", int], Sequence[JobSpec]]


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
class Mix:
    """Jobs on a cluster."""

    name: str
    about: str
    size: ClusterSize
    draw: Draw | None = None
    """The jobs of an open mix by seed; None: `workload` in a closed loop."""
    workload: str = "micro"
    """Of Mercury; for an open mix only that all of its nodes are alike."""
    jobs: int = 0
    """Of an open mix."""
    load: float = 0.0
    """Of an open mix: work / slots until the last arrival; 0: as the jobs come."""
    queues: Mapping[str, int] = field(default_factory=lambda: {"default": 100})
    """Of the ResourceManager, with their share in percent."""
    scheduler_site: Mapping[str, str] = field(default_factory=dict)
    """Of capacity-scheduler.xml, beside the competitor's."""
    guaranteed: tuple[str, ...] = ()
    """Queues whose applications have guaranteed containers alone, under quicksilver as well."""
    changed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By competitor, what lies over its section `policies:`."""
    cdf: bool = False
    """Whether the result has the distributions of completion time and slowdown."""

    @property
    def open(self) -> bool:
        """Whether jobs come when they arrive."""
        return self.draw is not None

    @property
    def concurrent(self) -> int | None:
        """How many jobs are under way at a time; None for an open mix."""
        return None if self.open else shape(self.size.slots, PAPER_JOBS)[0]

    @property
    def slots(self) -> Slots:
        """The slots as the bound sees them."""
        workload, size = WORKLOADS[self.workload], self.size
        slow = int(size.nodes * workload.slow_nodes) * size.cores
        return Slots(size.slots, slow, workload.slow_times)

    def drawn(self, seed: int) -> Iterator[JobSpec]:
        """Yield the jobs of a seed; those of a closed mix are endless. Raises QuicksilverError, TraceError."""
        if self.draw is not None:
            return iter(self.draw(self, seed))
        return draw(WORKLOADS[self.workload], self.size.slots, seed)


def loaded(jobs: Sequence[JobSpec], slots: int, load: float) -> list[JobSpec]:
    """Return jobs from 0 s on, whose arrivals are stretched so that their work is that share of the slots' time."""
    first_s = min(job.arrives_s for job in jobs)
    span_s = max(job.arrives_s for job in jobs) - first_s
    work_s = sum(task.runs_s for job in jobs for task in job.tasks)
    times = work_s / slots / load / span_s if span_s else 0.0
    return [replace(job, arrives_s=(job.arrives_s - first_s) * times) for job in jobs]


def shuffled(jobs: Sequence[JobSpec], seed: int) -> list[JobSpec]:
    """Return jobs in another order and phase for each seed but 1, which is as traced: neighbours change places."""
    if seed == 1:
        return list(jobs)
    rng = Random(f"order {seed}")
    order: list[JobSpec] = []
    for start in range(0, len(jobs), _BLOCK):
        block = list(jobs[start : start + _BLOCK])
        rng.shuffle(block)
        order += block
    moved = [
        replace(job, arrives_s=place.arrives_s + rng.uniform(0.0, _PHASE_S))
        for job, place in zip(order, jobs, strict=True)
    ]
    return sorted(moved, key=lambda job: job.arrives_s)


def _facebook(mix: Mix, seed: int) -> list[JobSpec]:
    if not FACEBOOK.exists():
        raise QuicksilverError("the Facebook trace is not there", place=str(FACEBOOK), remedy="run it in a checkout")
    fit = Scaling(first=mix.jobs, most_tasks=MOST_TASKS, most_s=MOST_S, memory_mb=_MEMORY_MB, queue="default")
    jobs = list(scaled(read_specs(FACEBOOK), fit))
    return shuffled(loaded(jobs, mix.size.slots, mix.load), seed)


def _heavy_tailed(name: str) -> Draw:
    """Return jobs of a generator, narrowed to MOST_TASKS, with durations for a run of minutes."""

    def drawn(mix: Mix, seed: int) -> list[JobSpec]:
        specs = [_unnamed(spec_of(job)) for job in generate(name, mix.jobs, seed)]
        narrow = list(scaled(specs, Scaling(most_tasks=MOST_TASKS, memory_mb=_MEMORY_MB, queue="default")))
        work_s = sum(task.runs_s for job in narrow for task in job.tasks)
        times = mix.size.slots * _WORK_PER_SLOT_S * mix.jobs / _HEAVY_JOBS / work_s
        return loaded(list(scaled(narrow, Scaling(times=times))), mix.size.slots, mix.load)

    return drawn


def _telling_draw(name: str, cutoff_s: float) -> Draw:
    """Return the jobs of another mix, each of which tells how long its tasks take on average; its class says whether it
    is short or long.
    """

    def drawn(mix: Mix, seed: int) -> list[JobSpec]:
        source = replace(BY_NAME[name], jobs=mix.jobs, size=mix.size)
        return [_telling(job, cutoff_s) for job in source.drawn(seed)]

    return drawn


def _telling(job: JobSpec, cutoff_s: float) -> JobSpec:
    task_s = fmean(task.runs_s for task in job.tasks)
    return replace(job, klass="long" if task_s > cutoff_s else "short", told_s=task_s)


def _papers_mix(name: str, cutoff_s: float, kept_ratio: float) -> Mix:
    """Return a mix whose jobs tell their durations, with the cut-off and the kept nodes of Hawk's table 2.1."""
    classes = {
        "classify": {"policy": "task_time", "settings": {"cutoff_s": cutoff_s}},
        "partition": {"policy": "short_only", "settings": {"ratio": kept_ratio}},
    }
    about = f"the jobs of {name}, which tell how long their tasks take; above {cutoff_s:g} s a job is long"
    source = next(mix for mix in ALL if mix.name == name)
    return replace(
        source,
        name=f"{name}_told",
        about=about,
        draw=_telling_draw(name, cutoff_s),
        changed={
            f"{name}{suffix}": classes for name in ("quicksilver_hawk", "quicksilver_eagle") for suffix in ("", "_held")
        },
    )


def _saturated(mix: Mix, seed: int) -> list[JobSpec]:
    """Return long jobs with more work than the cluster has slots for, and short ones of two tasks between them."""
    rng = Random(f"saturated {seed}")
    long_tasks = mix.size.slots // 8
    long = (_LONG_S, long_tasks, mix.jobs // 3)
    span_s = _LONG_S * long_tasks * long[2] / mix.size.slots / mix.load
    kinds = {"long": long, "short": (_SHORT_S, 2, mix.jobs - long[2])}
    jobs = [
        JobSpec(0, rng.uniform(0.0, span_s), kind, (TaskSpec(task_s),) * tasks, told_s=task_s, memory_mb=_MEMORY_MB)
        for kind, (task_s, tasks, count) in kinds.items()
        for _ in range(count)
    ]
    ordered = sorted(jobs, key=lambda job: job.arrives_s)
    return [replace(job, number=number) for number, job in enumerate(ordered, 1)]


def _unnamed(job: JobSpec) -> JobSpec:
    """Return a job whose name and tags tell nothing of how long it takes; what kind it is, is its class."""
    return replace(job, klass=job.name, name="", told_s=None)


def _kairos(mix: Mix, seed: int) -> list[JobSpec]:
    """Return Kairos' jobs, all times shorter by the same factor; arrivals have exactly their mean distance."""
    specs = [_unnamed(spec_of(job)) for job in generate(_KAIROS_GENERATORS[mix.name], mix.jobs, seed)]
    fit = Scaling(speed=_KAIROS_SPEED, times=1 / _KAIROS_SPEED, memory_mb=_MEMORY_MB, queue="default")
    return loaded(list(scaled(specs, fit)), mix.size.slots, mix.load)


def _kairos_mix(name: str, about: str) -> Mix:
    """Return a mix with the load of the table: the work of a mean job / slots / mean time between arrivals."""
    table = generator(_KAIROS_GENERATORS[name])
    load = table.mean_work_s / _KAIROS.slots / table.interarrival_s
    quantum = {"preempt": {"settings": {"quantum_s": _KAIROS_QUANTUM_S / _KAIROS_SPEED}}}
    return Mix(
        name, about, _KAIROS, _kairos, jobs=_KAIROS_JOBS, load=load, changed={"quicksilver_kairos": quantum}, cdf=True
    )


_KAIROS_GENERATORS: Final = {"kairos": "kairos_table", "kairos_uniform": "kairos_uniform_table"}
_KAIROS_QUANTUM_S: Final = 50.0
"""W of the test bed (thesis §4.5.2), which is shorter by the same factor as the tasks."""
_KAIROS_SPEED: Final = 20.0
_KAIROS: Final = ClusterSize(nodes=30, drain_s=900.0, longest_s=120.0)
_KAIROS_JOBS: Final = 100
_HEAVY_JOBS: Final = 150
_FACEBOOK_JOBS: Final = 300
_OPEN: Final = ClusterSize(drain_s=600.0, longest_s=60.0)
_CLOSED: Final = ClusterSize(warm_s=15.0, window_s=60.0, drain_s=300.0, longest_s=65.0)


def _open_mix(name: str, about: str, drawn: Draw, jobs: int, load: float) -> Mix:
    return Mix(name, about, _OPEN, drawn, jobs=jobs, load=load)


def _closed_mix(workload: str, about: str, size: ClusterSize = _CLOSED) -> Mix:
    return Mix(workload, about, size, workload=workload)


ALL: Final = (
    _open_mix("facebook_50", "a Facebook trace of 2009 at load 0.5", _facebook, _FACEBOOK_JOBS, 0.5),
    _open_mix("facebook_77", "the same at load 0.77", _facebook, _FACEBOOK_JOBS, 0.77),
    _open_mix("facebook_95", "the same at load 0.95", _facebook, _FACEBOOK_JOBS, 0.95),
    _open_mix("yahoo", "Yahoo-like, heavy-tailed, at load 0.9", _heavy_tailed("yahoo"), _HEAVY_JOBS, 0.9),
    _open_mix("google", "Google-like, heavy-tailed, at load 0.9", _heavy_tailed("google"), _HEAVY_JOBS, 0.9),
    _closed_mix("microsoft", "tasks of 1 to 60 s, a closed loop"),
    _closed_mix("hybrid", "four jobs of 2 s tasks for one of 50 s, a closed loop"),
    _closed_mix("fixed_2s", "tasks of 2 s, a closed loop", ClusterSize(window_s=40.0)),
    _closed_mix("fixed_10s", "tasks of 10 s, a closed loop", ClusterSize(warm_s=15.0, window_s=50.0, drain_s=120.0)),
    _closed_mix("fixed_20s", "tasks of 20 s, a closed loop", ClusterSize(warm_s=25.0, window_s=60.0, drain_s=180.0)),
    _closed_mix(
        "stragglers", "tasks of 2 s, one node of 16 three times as slow", ClusterSize(window_s=40.0, drain_s=120.0)
    ),
)
GUARANTEES: Final = Mix(
    "guarantees",
    "one user floods a queue that another shares, then guaranteed work comes in a second queue",
    ClusterSize(drain_s=300.0, longest_s=60.0),
    lambda mix, seed: guarantees.jobs(mix.size.slots, seed),
    queues=guarantees.QUEUES,
    scheduler_site=guarantees.SITE,
    guaranteed=(guarantees.GUARANTEED,),
)
SAME_NAME: Final = Mix(
    "same_name",
    "jobs of one name whose tasks take 2.5 or 70 s, small ones while a long one fills three nodes of two cores",
    ClusterSize(nodes=3, cores=2, drain_s=600.0, longest_s=80.0),
    lambda mix, seed: same_name.jobs(mix.size.slots, mix.size.cores, seed, mix.jobs),
    jobs=same_name.LATER,
    queues=same_name.QUEUES,
    guaranteed=(same_name.MASTERS,),
)
KAIROS: Final = (
    _kairos_mix("kairos", "Kairos' 100 jobs of Table 4.1 on 30 nodes"),
    _kairos_mix("kairos_uniform", "100 jobs of its first three classes on 30 nodes, as in Figure 4.5"),
)
_LONG_S: Final = 20.0
_SHORT_S: Final = 1.0
_KEPT: Final = {
    "classify": {"policy": "task_time", "settings": {"cutoff_s": 5.0}},
    "partition": {"policy": "short_only", "settings": {"ratio": 0.05}},
}
TOLD: Final = (
    Mix(
        "saturated_told",
        "long jobs with 1.3 times the work that fits, short ones between them; 0.05 of the nodes kept",
        _OPEN,
        _saturated,
        jobs=120,
        load=1.3,
        changed={
            f"{name}{suffix}": _KEPT for name in ("quicksilver_hawk", "quicksilver_eagle") for suffix in ("", "_held")
        }
        | {f"{name}_shared": {"classify": _KEPT["classify"]} for name in ("quicksilver_hawk", "quicksilver_eagle")},
    ),
    _papers_mix("google", cutoff_s=15.0, kept_ratio=0.17),
    _papers_mix("yahoo", cutoff_s=5.0, kept_ratio=0.02),
    _papers_mix("facebook_95", cutoff_s=5.0, kept_ratio=0.02),
)
"""For systems that know durations. The ratios are the short jobs' part of the work in the traces (Hawk, table 2.1)."""
BY_NAME: Final = {mix.name: mix for mix in (*ALL, GUARANTEES, SAME_NAME, *KAIROS, *TOLD)}


def mix_named(name: str) -> Mix:
    """Return a mix, or a workload of Mercury as one. Raises KeyError."""
    return BY_NAME.get(name) or _closed_mix(WORKLOADS[name].name, f"Mercury's workload {name}, a closed loop")


def resized(mix: Mix, **changed: float) -> Mix:
    """Return a mix on another cluster. changed: fields of its size; jobs follow the slots, ten at least."""
    size = replace(mix.size, **changed)  # type: ignore[arg-type]  # nodes and cores are whole numbers
    jobs = mix.jobs if size.slots == mix.size.slots else max(10, round(mix.jobs * size.slots / mix.size.slots))
    return replace(mix, size=size, jobs=jobs if mix.jobs else 0)


def halved(mix: Mix) -> Mix:
    """Return a mix of half of the jobs, or of half of the time, for a first look."""
    return replace(mix, jobs=mix.jobs // 2, size=replace(mix.size, window_s=mix.size.window_s / 2))
