"""From a step of the plan to a run, on the emulated cluster or of the bound."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import uvloop

from quicksilver.common.process.logs import configure_logs
from quicksilver_lab.bench.emulator.jobs import warmed
from quicksilver_lab.bench.emulator.model import JobSpec, RunResult
from quicksilver_lab.bench.emulator.run import RunSpec, run
from quicksilver_lab.bench.mercury import step as mercury
from quicksilver_lab.bench.mercury.plan import Step
from quicksilver_lab.bench.mixes import guarantees
from quicksilver_lab.bench.mixes.bound import Omniscient, Slots
from quicksilver_lab.bench.mixes.mixes import BY_NAME, Mix, shorter, smaller
from quicksilver_lab.bench.trace import planned

BOUNDS: Final = ("bound", "bound_preemptive", "bound_endless")
"""Omniscient schedulers: shortest remaining work first; with pauses that lose nothing; with endless slots."""


@dataclass(frozen=True, slots=True)
class MixStep:
    """One run."""

    workload: str
    """The mix, by name."""
    competitor: str
    seed: int
    nodes: int | None = None
    """None: as many as the mix has."""
    cores: int | None = None
    quick: bool = False

    @property
    def mix(self) -> Mix:
        """What is run. Raises KeyError."""
        mix = BY_NAME[self.workload]
        nodes, cores = self.nodes or mix.size.nodes, self.cores or mix.size.cores
        if (nodes, cores) != (mix.size.nodes, mix.size.cores):
            mix = smaller(mix, nodes, cores)
        return shorter(mix) if self.quick else mix


def offered(step: MixStep) -> Sequence[JobSpec] | Iterator[JobSpec]:
    """Return the jobs as they are submitted: those of an open mix are warmed, those of a closed one endless."""
    drawn = step.mix.drawn(step.seed)
    return warmed(list(drawn)) if step.mix.open else drawn


def spec(step: MixStep, jobs: Sequence[JobSpec] | Iterator[JobSpec], base_port: int) -> RunSpec:
    """Return what a step comes to. Raises KeyError for an unknown competitor."""
    mix = step.mix
    if isinstance(jobs, Sequence):
        base = planned(mix.name, step.competitor, jobs, mix.size, base_port)
    else:
        base = mercury.spec(Step(mix.workload, step.competitor, step.seed, mix.size), base_port)
    rm = replace(
        base.rm,
        queues=mix.queues,
        capacity_scheduler={**base.rm.capacity_scheduler, **mix.scheduler_site},
    )
    policies = base.policies
    if policies is not None:
        policies = guarantees.routed(dict(policies) | dict(mix.changed.get(step.competitor, {})), mix.guaranteed)
    return replace(base, workload=mix.name, seed=step.seed, rm=rm, policies=policies)


def bound(step: MixStep) -> RunResult:
    """Return what the omniscient scheduler of that name makes of a step's jobs."""
    mix, jobs = step.mix, offered(step)
    slots = Slots(None) if step.competitor == "bound_endless" else mix.slots
    scheduler = Omniscient(slots, preemptive=step.competitor == "bound_preemptive")
    window_s = jobs[-1].arrives_s if isinstance(jobs, Sequence) else mix.size.window_s
    submit_for_s = None if mix.open else mix.size.warm_s + mix.size.window_s
    records = scheduler.run(jobs, mix.concurrent, submit_for_s)
    size = mix.size
    return RunResult(step.competitor, mix.name, step.seed, size.nodes, size.slots, size.warm_s, window_s, jobs=records)


def carry_out(step: MixStep, workdir: Path, base_port: int) -> RunResult:
    """Run a step, in a process of its own; its folder is empty at the begin and gone at the end, unless it fails.

    Raises QuicksilverError, ClusterError, OSError, RuntimeError.
    """
    configure_logs(level="warning")
    shutil.rmtree(workdir, ignore_errors=True)
    jobs = offered(step)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run(spec(step, jobs, base_port), jobs, workdir))
    shutil.rmtree(workdir, ignore_errors=True)
    return result
