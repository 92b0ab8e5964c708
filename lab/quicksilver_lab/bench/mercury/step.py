"""From a step of the plan to a run on the emulated cluster."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

import uvloop

from quicksilver.common.process.logs import configure_logs
from quicksilver.simulator.traces.generators.mercury import WORKLOADS
from quicksilver_lab.bench.emulator.jobs import PAPER_JOBS, shape
from quicksilver_lab.bench.emulator.masters.am import AmSettings
from quicksilver_lab.bench.emulator.masters.masters import MastersSettings
from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.emulator.nodes.nm_events import NmSize as Nm
from quicksilver_lab.bench.emulator.nodes.nodes import NodeSettings
from quicksilver_lab.bench.emulator.nodes.tracker import ReportRelay
from quicksilver_lab.bench.emulator.rm import NodeShape, RmOptions
from quicksilver_lab.bench.emulator.run import RunSpec, run
from quicksilver_lab.bench.emulator.workloads import draw
from quicksilver_lab.bench.mercury.competitors import BY_NAME
from quicksilver_lab.bench.mercury.plan import Step

TASK_MB: Final = 1024
_NODE_PORT: Final = 300
"""Of the nodes, above a lane's first port."""


def spec(step: Step, base_port: int) -> RunSpec:
    """Return what a step comes to. Raises KeyError for an unknown competitor or workload."""
    competitor, workload, size = BY_NAME[step.competitor], WORKLOADS[step.workload], step.size
    node = NodeShape(size.cores, size.cores * TASK_MB)
    return RunSpec(
        competitor=step.competitor,
        workload=step.workload,
        seed=step.seed,
        count=size.nodes,
        shape=node,
        rm=RmOptions(
            base_port=base_port,
            scheduler=competitor.scheduler,
            heartbeat_s=size.heartbeat_s,
            behind_proxy=competitor.quicksilver,
            yarn=competitor.yarn_site,
            capacity_scheduler=competitor.scheduler_site,
            fair_scheduler=competitor.fair_site,
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
        concurrent=shape(size.slots, PAPER_JOBS)[0],
        warm_s=size.warm_s,
        window_s=size.window_s,
        drain_s=size.drain_s,
        policies=competitor.policies,
    )


def carry_out(step: Step, workdir: Path, base_port: int) -> RunResult:
    """Run a step, in a process of its own; its folder is empty at the begin and gone at the end, unless it fails.

    Raises QuicksilverError, ClusterError, OSError, RuntimeError.
    """
    configure_logs(level="warning")  # a sidecar tells of each container
    shutil.rmtree(workdir, ignore_errors=True)
    jobs = draw(WORKLOADS[step.workload], step.size.slots, step.seed)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(run(spec(step, base_port), jobs, workdir))
    shutil.rmtree(workdir, ignore_errors=True)
    return result
