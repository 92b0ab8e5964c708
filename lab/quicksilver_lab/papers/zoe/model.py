"""Applications of Zoe as its admission sees them: requests for core and elastic components (§2)."""

from __future__ import annotations

from typing import Final, Literal

from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ApplicationJob, ClusterModel, SimulatedJob
from quicksilver_lab.papers.algorithms.admission import ResearchRoom
from quicksilver_lab.papers.algorithms.requests import Components, ResearchRequest

BATCH_ELASTIC: Final = "batch-elastic"
BATCH_RIGID: Final = "batch-rigid"
INTERACTIVE: Final = "interactive"
Work = Literal["two_coordinate", "all_work"]


def of_job(job: SimulatedJob, core: int, room: ResearchRoom) -> ApplicationJob:
    """Return a job as an application: the longest task is its runtime, `core` of its tasks are core components.

    Components that the cluster does not hold at once are left out, and the runtime grows so that the work stays.
    Raises SimulatorError for a job without tasks, or of which not even one task fits.
    """
    if not job.durations_s or max(job.durations_s) <= 0:
        raise SimulatorError(f"job {job.number} has no tasks that take time: nothing to admit; leave it out")
    components = Components(len(job.durations_s), *_size(job))
    fitting = components.fitting(room.millicores, room.memory_mb or 1 << 62)
    if not fitting:
        raise SimulatorError(
            f"job {job.number}: a task of {job.cores:g} cores and {job.memory_mb} MB is larger than the cluster; "
            "give it more slots or memory"
        )
    longest_s, many = max(job.durations_s), components.count
    runtime_s = longest_s if many <= fitting else max(longest_s, longest_s * many / fitting)
    return ApplicationJob(
        **{name: getattr(job, name) for name in ("number", "arrives_s", "name", "user", "queue", "cores", "memory_mb")},
        durations_s=(runtime_s,) * min(many, fitting),
        estimate_s=job.estimate_s * runtime_s / longest_s,
        core=min(core, many, fitting),
    )


def room_of(cluster: ClusterModel) -> ResearchRoom:
    """Return all nodes as one room: slots are cores. Components lie whole on a node in reality; that is left out."""
    return ResearchRoom(cluster.total_slots * 1000, cluster.nodes * cluster.memory_mb)


def request_of(app: ApplicationJob, interactive_priority: int = 0) -> ResearchRequest:
    """Return what the application asks for. Raises SimulatorError when it has less than one core component."""
    components = len(app.durations_s)
    if not 1 <= app.core <= components:
        raise SimulatorError(f"application {app.number}: {app.core} of {components} components are core; 1 at least")
    core, elastic = (Components(n, *_size(app)) for n in (app.core, components - app.core))
    priority = app.priority + (interactive_priority if app.klass == INTERACTIVE else 0)
    return ResearchRequest(app.number, app.arrives_s, app.estimate_s, core, elastic, priority)


def workers(core: int, elastic: int, work: Work) -> int:
    """Return how many of the components do work: T = W / (C - 2 + x) (§2.2), or all of them.

    Two core components coordinate, as Spark's client and master; at least one works, so that a core alone gets on.
    """
    return core + elastic - (min(2, core - 1) if work == "two_coordinate" else 0)


def _size(job: SimulatedJob) -> tuple[int, int]:
    return max(1, round(job.cores * 1000)), job.memory_mb
