"""The two places: a real local cluster with real NodeManagers and sidecars, and the emulated one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from quicksilver_lab.bench.emulator.emulated_quicksilver import quicksilver
from quicksilver_lab.bench.emulator.masters.masters import Masters
from quicksilver_lab.bench.emulator.model import JobRecord
from quicksilver_lab.bench.emulator.nodes.node import NodeDelays
from quicksilver_lab.bench.emulator.nodes.nodes import EmulatedNodes, NodeSettings
from quicksilver_lab.bench.emulator.rm import Running, resource_manager
from quicksilver_lab.bench.emulator_validation import plan as plans
from quicksilver_lab.bench.emulator_validation.plan import MASTERS, POLICIES, ValidationPlan
from quicksilver_lab.bench.emulator_validation.probe import ProbeDelays as Probed
from quicksilver_lab.bench.emulator_validation.probe import measure
from quicksilver_lab.bench.las.umbilical import Note, opened
from quicksilver_lab.bench.policies.real import sleeping
from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import running

Progress = Callable[[str], None]

_SETTLE_S: Final = 1.5
"""From the last registration to the first job."""
_QUEUE_LENGTH: Final = 100_000
"""yarn.nodemanager.opportunistic-containers-max-queue-length of the overlay."""


@dataclass(slots=True)
class PlacesRun:
    """One run. Times of the records are on the run's clock, in seconds."""

    place: Literal["real", "emulated"]
    quicksilver: bool
    seed: int
    jobs: list[JobRecord]
    counts: dict[str, int] = field(default_factory=dict)


def on_real(
    plan: ValidationPlan, seeds: Sequence[int], through: bool, workdir: Path, base_port: int, progress: Progress
) -> tuple[list[PlacesRun], Probed]:
    """Run the workload with each seed on a real cluster, after a probe that warms it up; return its delays too.

    Raises ClusterError, LocalDaemonsError, and what masters and the probe raise.
    """
    cluster = Cluster(plans.spec(plan, workdir, base_port, through))
    cluster.start(progress=progress)
    try:
        with running(cluster, policies=POLICIES) if through else nullcontext():
            at = cluster.spec
            probed = asyncio.run(measure(at.rm_client, at.scheduler, plan.slots, plan.apart_s, workdir / "probe.pipe"))
            return [asyncio.run(_real(cluster, plan, seed, through)) for seed in seeds], probed
    finally:
        cluster.stop()


async def _real(cluster: Cluster, plan: ValidationPlan, seed: int, through: bool) -> PlacesRun:
    spec, clock = cluster.spec, _clock()
    with opened(spec.workdir / "tasks.pipe", sleeping) as pipe:

        def command(container_id: str, runs_s: float) -> str:
            def listener(note: Note) -> None:
                masters.umbilical(container_id, "began" if note.begin else "done", note.at_s)
                if not note.begin:
                    pipe.forget(container_id)

            pipe.listen(container_id, listener)
            return pipe.command(container_id, runs_s)

        masters = Masters(spec.rm_client, spec.scheduler, MASTERS, clock=clock, command=command)
        jobs = await masters.run(plans.draw(plan, seed), stop_after_s=plan.limit_s)
    return PlacesRun("real", through, seed, jobs, dict(masters.counts))


async def on_emulated(
    plan: ValidationPlan,
    seeds: Sequence[int],
    through: bool,
    delays: NodeDelays,
    workdir: Path,
    base_port: int,
    progress: Progress,
) -> list[PlacesRun]:
    """Run the workload with each seed on an emulated cluster. Raises what its parts raise."""
    shape, options = plans.emulated(plan, base_port, through)
    async with resource_manager(workdir, shape, options, progress) as rm:
        length = _QUEUE_LENGTH if through else 0
        nodes = EmulatedNodes(
            NodeSettings(plan.vcores, plan.node_mb, max_queue_length=length, port=base_port + 95, delays=delays)
        )
        async with quicksilver(rm.cluster, POLICIES, {}, shape) if through else nullcontext() as proxy:
            await nodes.start(plan.nodes, rm.addresses.tracker, proxy.accept if proxy is not None else None)
            try:
                if proxy is not None:
                    await proxy.start(plan.nodes)
                await asyncio.sleep(_SETTLE_S)
                return [await _emulated(plan, seed, rm, nodes, through) for seed in seeds]
            finally:
                await nodes.stop()


async def _emulated(plan: ValidationPlan, seed: int, rm: Running, nodes: EmulatedNodes, through: bool) -> PlacesRun:
    masters = Masters(rm.addresses.client, rm.addresses.scheduler, MASTERS, clock=_clock())
    nodes.umbilical = masters.umbilical
    jobs = await masters.run(plans.draw(plan, seed), stop_after_s=plan.limit_s)
    nodes.check()
    return PlacesRun("emulated", through, seed, jobs, dict(masters.counts))


def _clock() -> Callable[[], float]:
    """Return a clock that begins now."""
    origin_s = time.monotonic()
    return lambda: time.monotonic() - origin_s
