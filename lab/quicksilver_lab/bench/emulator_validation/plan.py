"""The cluster and the workload that are run twice over, on real and on emulated NodeManagers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from quicksilver_lab.bench.emulator.masters.masters import MastersSettings
from quicksilver_lab.bench.emulator.model import JobSpec, TaskSpec
from quicksilver_lab.bench.emulator.rm import RM_OPTIONS, NodeShape, RmOptions
from quicksilver_lab.cluster import ClusterSpec

POLICIES: Final[dict[str, Any]] = {"queues": "*", "routes": [{"policy": "only_q"}], "estimate": {"default_s": 3.0}}
"""Of the runs through quicksilver."""
MASTERS: Final = MastersSettings(linger_beats=20)
"""They linger: else stock YARN takes running opportunistic containers for lost now and then (findLostContainers), and
by chance not equally often in both places."""


@dataclass(frozen=True, slots=True)
class ValidationPlan:
    """What is offered to how many nodes. Times in seconds."""

    nodes: int = 3
    vcores: int = 3
    """Of each node; a task takes one."""
    memory_mb: int = 512
    """Of a task; a node holds as many as it has vcores."""
    jobs: int = 8
    arrivals_s: float = 8.0
    tasks: int = 12
    """Of each job."""
    task_s: tuple[float, float] = (2.0, 4.0)
    """Shortest and longest."""
    limit_s: float = 180.0
    """Time limit of a run, seconds."""

    @property
    def apart_s(self) -> float:
        """Between two starts on the full cluster, in the mean."""
        return sum(self.task_s) / 2 / self.slots

    @property
    def node_mb(self) -> int:
        """Of a node."""
        return self.memory_mb * self.vcores

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        return self.nodes * self.vcores


def draw(plan: ValidationPlan, seed: int) -> list[JobSpec]:
    """Return the jobs; equal arguments give equal jobs. What is told of a job's tasks is their mean."""
    rng = Random(f"honest {seed}")
    jobs = []
    for number, arrives_s in enumerate(sorted(rng.uniform(0, plan.arrivals_s) for _ in range(plan.jobs))):
        tasks = tuple(TaskSpec(round(rng.uniform(*plan.task_s), 3)) for _ in range(plan.tasks))
        told_s = sum(task.duration_s for task in tasks) / len(tasks)
        jobs.append(JobSpec(number, arrives_s, "small", tasks, told_s=told_s, memory_mb=plan.memory_mb))
    return jobs


def spec(plan: ValidationPlan, workdir: Path, base_port: int, quicksilver: bool) -> ClusterSpec:
    """Return the real cluster, with the overlay for proxy and sidecars or plain."""
    return ClusterSpec(
        workdir=workdir,
        base_port=base_port,
        nodes=plan.nodes,
        yarn_only=True,
        overlay=quicksilver,
        node_vcores=plan.vcores,
        node_memory_mb=plan.node_mb,
        min_allocation_mb=plan.memory_mb,
        queues={"default": 100},
        extra_site={
            "yarn": {"yarn.log-aggregation-enable": "false"},
            "capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1.0"},
        },
        rm_java_opts=RM_OPTIONS,
    )


def emulated(plan: ValidationPlan, base_port: int, quicksilver: bool) -> tuple[NodeShape, RmOptions]:
    """Return the same for emulated nodes."""
    options = RmOptions(base_port=base_port, behind_proxy=quicksilver, min_allocation_mb=plan.memory_mb)
    return NodeShape(plan.vcores, plan.node_mb), options
