"""From a step of a plan to a run, on the emulated cluster or of the bound."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from quicksilver.common.process.logs import configure_logs
from quicksilver_lab.bench.emulator.jobs import WARM_S, warmed
from quicksilver_lab.bench.emulator.masters.am import AmSettings
from quicksilver_lab.bench.emulator.masters.masters import MastersSettings
from quicksilver_lab.bench.emulator.model import JobSpec, RunResult
from quicksilver_lab.bench.emulator.nodes.nm_events import NmSize as Nm
from quicksilver_lab.bench.emulator.nodes.nodes import NodeSettings
from quicksilver_lab.bench.emulator.nodes.tracker import ReportRelay
from quicksilver_lab.bench.emulator.rm import NodeShape, RmOptions
from quicksilver_lab.bench.emulator.run import RunSpec, run
from quicksilver_lab.bench.mercury.competitors import BY_NAME
from quicksilver_lab.bench.mixes import guarantees
from quicksilver_lab.bench.mixes.bound import Omniscient, Slots
from quicksilver_lab.bench.mixes.mixes import Mix
from quicksilver_lab.cluster.runtime.releases import DEFAULT
from quicksilver_lab.papers.workloads.mercury import WORKLOADS

BOUNDS: Final = ("bound", "bound_preemptive", "bound_endless")
"""Omniscient schedulers: shortest remaining work first; with pauses that lose nothing; with endless slots."""
TASK_MB: Final = 1024
_NODE_PORT: Final = 300
"""Of the nodes, above a lane's first port."""
_BESIDE_S: Final = 15.0
"""Starting and stopping a run."""

Offered = Sequence[JobSpec] | Iterator[JobSpec]


def offered(mix: Mix, seed: int) -> Offered:
    """Return the jobs as they are submitted: those of an open mix are warmed, those of a closed one endless."""
    drawn = mix.drawn(seed)
    return warmed(list(drawn)) if mix.open else drawn


@dataclass(frozen=True, slots=True)
class Step:
    """One run; it can be pickled."""

    workload: str
    """The name of the mix."""
    competitor: str
    seed: int
    """Of the jobs."""
    source: Callable[[], Mix]
    """Returns what is run."""
    hadoop: str = DEFAULT
    """The ResourceManager's version."""

    @property
    def mix(self) -> Mix:
        """What is run. Raises QuicksilverError."""
        return self.source()

    def expected_s(self) -> float:
        """Return about how long it takes. Raises QuicksilverError."""
        mix = self.mix
        jobs = offered(mix, self.seed)
        window_s = jobs[-1].arrives_s if isinstance(jobs, Sequence) else mix.size.warm_s + mix.size.window_s
        return window_s + mix.size.longest_s + _BESIDE_S


def spec(step: Step, jobs: Offered, base_port: int) -> RunSpec:
    """Return what a step comes to, with these jobs. Raises KeyError for an unknown competitor."""
    mix, competitor = step.mix, BY_NAME[step.competitor]
    workload, size = WORKLOADS[mix.workload], mix.size
    node = NodeShape(size.cores, size.cores * TASK_MB)
    policies = competitor.policies
    if policies is not None:
        policies = guarantees.routed(dict(policies) | dict(mix.changed.get(step.competitor, {})), mix.guaranteed)
    return RunSpec(
        competitor=step.competitor,
        workload=mix.name,
        seed=step.seed,
        count=size.nodes,
        shape=node,
        rm=RmOptions(
            base_port=base_port,
            hadoop=step.hadoop,
            own_grants=bool(competitor.own_grants),
            scheduler=competitor.scheduler,
            heartbeat_s=size.heartbeat_s,
            behind_proxy=competitor.quicksilver,
            yarn=competitor.yarn_site,
            capacity_scheduler={**competitor.scheduler_site, **mix.scheduler_site},
            fair_scheduler=competitor.fair_site,
            queues=mix.queues,
        ),
        masters=MastersSettings(
            am=AmSettings(opportunistic_percent=competitor.opportunistic_percent),
            heartbeat_s=competitor.masters_s or size.heartbeat_s,
        ),
        nodes=NodeSettings(
            vcores=node.vcores,
            memory_mb=node.memory_mb,
            relay=ReportRelay(Nm(competitor.extra * TASK_MB, competitor.extra), competitor.quicksilver),
            max_queue_length=competitor.nm_queue_length,
            slow_share=workload.slow_nodes,
            slow_times=workload.slow_times,
            port=base_port + _NODE_PORT,
        ),
        concurrent=mix.concurrent,
        warm_s=WARM_S if mix.open else size.warm_s,
        window_s=jobs[-1].arrives_s - WARM_S + 1.0 if isinstance(jobs, Sequence) else size.window_s,
        drain_s=size.drain_s,
        policies=policies,
        proxy={"own_grants": competitor.own_grants} if competitor.own_grants else {},
    )


def bound(step: Step) -> RunResult:
    """Return what the omniscient scheduler of that name makes of a step's jobs."""
    mix = step.mix
    jobs, size = offered(mix, step.seed), mix.size
    slots = Slots(None) if step.competitor == "bound_endless" else mix.slots
    scheduler = Omniscient(slots, preemptive=step.competitor == "bound_preemptive")
    window_s = jobs[-1].arrives_s if isinstance(jobs, Sequence) else size.window_s
    records = scheduler.run(jobs, mix.concurrent, None if mix.open else size.warm_s + size.window_s)
    return RunResult(step.competitor, mix.name, step.seed, size.nodes, size.slots, size.warm_s, window_s, jobs=records)


def carry_out(step: Step, workdir: Path, base_port: int) -> RunResult:
    """Run a step, in a process of its own; its folder is empty at the begin and gone at the end, unless it fails.

    Raises QuicksilverError, ClusterError, OSError, RuntimeError.
    """
    configure_logs(level="warning")  # a sidecar tells of each container
    shutil.rmtree(workdir, ignore_errors=True)
    jobs = offered(step.mix, step.seed)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run(spec(step, jobs, base_port), jobs, workdir))
    shutil.rmtree(workdir, ignore_errors=True)
    return result
