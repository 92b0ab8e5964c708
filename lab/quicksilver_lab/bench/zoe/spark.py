"""Four unmodified PySpark applications on a cluster where each gets too little to begin: stock YARN, then preset `zoe`.

The workload is the same for both systems. Two nodes have room for eight containers of 768 MB: four masters and four
executors. Four teams have a YARN queue of 25 % each, which may grow to 100 %, and submit one application each at the
same time, in cluster mode, with dynamic allocation: `minExecutors` is 3, so that two applications do not fit beside
each other, and `maxExecutors` is 4, the whole cluster. An application begins when it has 80 % of its first
executors, or after 30 s (Spark's own settings on YARN), and has 48 tasks of 10 s of sleep. An
earlier application holds the room of the executors until all four masters have registered, so that nothing depends on
whose Java starts first.

`python -m quicksilver_lab.bench.zoe.spark` prints the turnarounds (from submission to end, by YARN's clock) and
the ratio of their means as its last line; exit code 1 unless all ended well and the ratio is at most 0.7.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import click

from quicksilver_lab.bench.sleep_job import job
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import running
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.workloads import clients, spark
from quicksilver_lab.workloads.clients import Client, Clients, Progress
from quicksilver_lab.workloads.environment import Progresses, finish, interruptible, one_line_errors
from quicksilver_lab.workloads.errors import WorkloadError
from quicksilver_lab.workloads.rest import eventually, get_json
from quicksilver_lab.workloads.spark import DEFAULT_PYTHON, Installation

STOCK, ZOE = "stock", "zoe"
SYSTEMS: Final = (STOCK, ZOE)
TASKS, TASK_S = 48, 10.0
GOAL_RATIO: Final = 0.7
PROGRAM: Final = spark.PROGRAM.with_name("sleeping_tasks.py")
_QUEUES: Final = {"team1": 25, "team2": 25, "team3": 25, "team4": 25}
_NODES, _CONTAINERS_OF_A_NODE, _CONTAINER_MB = 2, 4, 768
_LEAST_EXECUTORS, _MOST_EXECUTORS = 3, 4
_VCORES: Final = 16
"""Of a node, for YARN and for its sidecar: memory alone limits."""
_SPARKS_OWN: Final = (
    "spark.scheduler.minRegisteredResourcesRatio",
    "spark.scheduler.maxRegisteredResourcesWaitingTime",
)
"""Left as Spark has them: 0.8 and 30 s."""
_YARN_SITE: Final = {"yarn.nodemanager.pmem-check-enabled": "false", "yarn.log-aggregation-enable": "false"}
_SCHEDULER: Final = {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"}
_POLL_S: Final = 1.0
_SETTLE_S: Final = 5.0
_HOLD_S: Final = 3600.0
_SUBMIT_S: Final = 180.0
_END_STATES: Final = frozenset({"FINISHED", "FAILED", "KILLED"})


@dataclass(frozen=True, slots=True)
class Work:
    """What each application has to do."""

    tasks: int = TASKS
    task_s: float = TASK_S

    @property
    def most_s(self) -> float:
        """After this time something is wrong: all applications one after the other on a quarter of the executors."""
        return 300 + len(_QUEUES) * self.tasks * self.task_s / (_MOST_EXECUTORS / 4)


@dataclass(slots=True)
class Ran:
    """One application; moments in seconds from the first one's submission, None where it did not come so far."""

    id: str
    queue: str
    state: str
    submitted_s: float
    turnaround_s: float
    after_room_s: float
    """From when the room of the executors was free to its end: without the starts of clients and masters."""
    ready_s: float | None = None
    """When its SparkContext was ready: it had its first executors, or waited no longer for them."""
    first_task_s: float | None = None
    last_task_s: float | None = None
    executors: int = 0
    """That ran a task."""
    at_first: int = 0
    """Executors that ran a task within its first five seconds."""
    core_held: int = 0
    elastic_held: int = 0
    """The most containers that it held as core and as elastic ones, by the proxy; 0 on stock YARN."""


@dataclass(slots=True)
class SparkRun:
    """One system's run."""

    system: str
    applications: list[Ran] = field(default_factory=list)
    reclaimed: int = 0
    """Elastic containers that the proxy took back for others."""

    @property
    def mean_s(self) -> float:
        """The mean turnaround."""
        return fmean(application.turnaround_s for application in self.applications)

    @property
    def after_room_s(self) -> float:
        """The mean time from when the room was free."""
        return fmean(application.after_room_s for application in self.applications)

    @property
    def makespan_s(self) -> float:
        """From the first submission to the last end."""
        return max(application.submitted_s + application.turnaround_s for application in self.applications)

    @property
    def succeeded(self) -> bool:
        """Whether all applications did all of their tasks."""
        return all(application.state == "SUCCEEDED" for application in self.applications)

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON knows it."""
        return {
            "system": self.system,
            "mean_turnaround_s": round(self.mean_s, 1),
            "mean_after_room_s": round(self.after_room_s, 1),
            "makespan_s": round(self.makespan_s, 1),
            "reclaimed": self.reclaimed,
            "applications": [asdict(application) for application in self.applications],
        }


def settings(cluster: Cluster, installation: Installation, queue: str) -> dict[str, str]:
    """Return an application's configuration: that of Spark on the local cluster, with dynamic allocation."""
    base = spark.settings(cluster, installation, _LEAST_EXECUTORS)
    del base["spark.executor.instances"]
    for name in _SPARKS_OWN:
        del base[name]
    return base | {
        "spark.yarn.queue": queue,
        "spark.yarn.stagingDir": f"file://{cluster.spec.files / 'staging'}",
        "spark.yarn.submit.waitAppCompletion": "false",
        "spark.driver.memoryOverhead": "256m",
        "spark.executor.memoryOverhead": "256m",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(_LEAST_EXECUTORS),
        "spark.dynamicAllocation.maxExecutors": str(_MOST_EXECUTORS),
    }


def spec(system: str, workdir: Path, base_port: int) -> ClusterSpec:
    """Return the cluster of a system."""
    return ClusterSpec(
        workdir=workdir / system,
        base_port=base_port,
        nodes=_NODES,
        yarn_only=True,
        overlay=system == ZOE,
        node_vcores=_VCORES,
        node_memory_mb=_CONTAINERS_OF_A_NODE * _CONTAINER_MB,
        min_allocation_mb=256,
        queues=_QUEUES,
        extra_site={"yarn": _YARN_SITE, "capacity-scheduler": _SCHEDULER},
    )


@contextmanager
def system_up(system: str, workdir: Path, base_port: int, progress: Progress) -> Iterator[tuple[Cluster, str]]:
    """Run a system's cluster for the time of a with block; yields it and the URL of the proxy's REST, "" without one.

    Raises ClusterError, LocalDaemonsError; nothing is left running.
    """
    cluster = Cluster(spec(system, workdir, base_port))
    cluster.start(progress)
    try:
        if system == STOCK:
            yield cluster, ""
        else:
            with running(cluster, policies={"preset": ZOE}, sidecar={"vcores": _VCORES}) as stack:
                yield cluster, stack.url
    finally:
        cluster.stop(progress)


def measure(system: str, installation: Installation, work: Work, workdir: Path, progress: Progress) -> SparkRun:
    """Run the four applications on a system. Raises QuicksilverError, ClusterError, requests.RequestException."""
    base_port = free_base_port(_NODES)
    with system_up(system, workdir, base_port, progress) as (cluster, proxy_url), Clients() as started:
        results = {queue: cluster.spec.workdir / f"{queue}.json" for queue in _QUEUES}
        for result in results.values():
            result.unlink(missing_ok=True)
        watch = Progression(cluster, proxy_url, work, progress)

        def submit() -> dict[str, str]:
            progress(f"{system}: submitting {len(results)} applications")
            clients_of = {q: started.add(_submit(cluster, installation, q, work, r)) for q, r in results.items()}
            ids = {queue: clients.application_id(client.wait(_SUBMIT_S)) for queue, client in clients_of.items()}
            watch.until_registered(list(ids.values()))
            return ids

        ids = asyncio.run(_behind_another(cluster, submit))
        progress(f"{system}: the room of the executors is free")
        free_s = time.time()
        watch.until_over(list(ids.values()))
        return watch.run(system, ids, results, free_s)


async def _behind_another(cluster: Cluster, submit: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Submit applications while an earlier one holds the room of the executors; return their ids when it is gone."""
    async with job(cluster, "earlier", queue=next(iter(_QUEUES))) as earlier:
        await earlier.until_granted(earlier.ask(_MOST_EXECUTORS, _HOLD_S, memory_mb=_CONTAINER_MB), within_s=60.0)
        ids = await asyncio.to_thread(submit)
        await asyncio.sleep(_SETTLE_S)
        return ids


def _submit(cluster: Cluster, installation: Installation, queue: str, work: Work, result: Path) -> Client:
    arguments = [str(result), str(work.tasks), str(work.task_s)]
    conf = settings(cluster, installation, queue)
    return spark.submit(cluster, installation, f"sleeping-{queue}", arguments, conf, "cluster", PROGRAM)


class Progression:
    """Follows the applications of one run."""

    def __init__(self, cluster: Cluster, proxy_url: str, work: Work, progress: Progress) -> None:
        self._cluster, self._proxy_url, self._work, self._progress = cluster, proxy_url, work, progress
        self._peaks: dict[str, tuple[int, int]] = {}
        self._reclaimed = 0
        self._shown: dict[str, str] = {}

    def until_registered(self, ids: Sequence[str]) -> None:
        """Wait until the masters of all of these have registered. Raises OutputError if they do not in time."""

        def registered() -> bool | None:
            apps = self._apps()
            return all(apps.get(app_id, {}).get("state") == "RUNNING" for app_id in ids) or None

        eventually("masters", registered, _SUBMIT_S)

    def until_over(self, ids: Sequence[str]) -> None:
        """Wait until all of these have ended. Raises WorkloadError if they do not in time."""
        end_s = time.monotonic() + self._work.most_s
        while True:
            apps = self._apps()
            self._look()
            states = {app_id: self._state(apps.get(app_id, {})) for app_id in ids}
            for app_id, state in states.items():
                if self._shown.get(app_id) != state:
                    self._progress(f"{app_id}: {state}")
            self._shown = states
            if all(apps.get(app_id, {}).get("state") in _END_STATES for app_id in ids):
                return
            if time.monotonic() > end_s:
                raise WorkloadError(f"not over: {states}", place="applications", remedy="read their containers' logs")
            time.sleep(_POLL_S)

    def _apps(self) -> dict[str, dict[str, Any]]:
        url = f"{self._cluster.rm_rest}/ws/v1/cluster/apps"
        reply = eventually("applications", lambda: get_json(url))
        return {app["id"]: app for app in (reply.get("apps") or {}).get("app", [])}

    def _state(self, app: Mapping[str, Any]) -> str:
        core, elastic = self._peaks.get(app.get("id", ""), (0, 0))
        seen = f", {core} core and {elastic} elastic containers at most" if core or elastic else ""
        return f"{app.get('state')}{seen}"

    def _look(self) -> None:
        if not self._proxy_url:
            return
        admission = eventually("admission", lambda: get_json(f"{self._proxy_url}/v1/admission"))
        self._reclaimed = admission["reclaimed"]
        for application in admission["applications"]:
            core, elastic = self._peaks.get(application["id"], (0, 0))
            self._peaks[application["id"]] = (
                max(core, application["core_held"]),
                max(elastic, application["elastic_held"]),
            )

    def run(self, system: str, ids: Mapping[str, str], results: Mapping[str, Path], free_s: float) -> SparkRun:
        """Return the run, by the ResourceManager's clock and the applications' own records.

        free_s: when the room of the executors was free, in Unix seconds.
        """
        apps = self._apps()
        began_s = min(apps[app_id]["startedTime"] for app_id in ids.values()) / 1000
        run = SparkRun(system, reclaimed=self._reclaimed)
        for queue, app_id in ids.items():
            app = apps[app_id]
            peak = self._peaks.get(app_id, (0, 0))
            ran = Ran(
                id=app_id,
                queue=queue,
                state=app["finalStatus"],
                submitted_s=round(app["startedTime"] / 1000 - began_s, 1),
                turnaround_s=round((app["finishedTime"] - app["startedTime"]) / 1000, 1),
                after_room_s=round(app["finishedTime"] / 1000 - free_s, 1),
                core_held=peak[0],
                elastic_held=peak[1],
            )
            if results[queue].exists():
                _add_tasks(ran, json.loads(results[queue].read_text()), began_s)
            run.applications.append(ran)
        return run


def _add_tasks(ran: Ran, result: Mapping[str, Any], began_s: float) -> None:
    """Note what an application wrote of its tasks."""
    tasks = result["tasks"]
    first_s = min(begin_s for begin_s, _, _ in tasks)
    ran.ready_s = round(result["ready_s"] - began_s, 1)
    ran.first_task_s = round(first_s - began_s, 1)
    ran.last_task_s = round(max(end_s for _, end_s, _ in tasks) - began_s, 1)
    ran.executors = len({container for _, _, container in tasks})
    ran.at_first = len({container for begin_s, _, container in tasks if begin_s < first_s + 5})


@click.command()
@click.option("--workdir", type=click.Path(file_okay=False, path_type=Path), default=Path("run/zoe-spark"))
@click.option(
    "--python", type=click.Path(path_type=Path), default=DEFAULT_PYTHON, show_default=True, help="With pyspark."
)
@click.option("--system", "systems", type=click.Choice(SYSTEMS), multiple=True, default=SYSTEMS, show_default=True)
@click.option("--tasks", type=click.IntRange(1), default=TASKS, show_default=True, help="Of each application.")
@click.option("--task-s", type=float, default=TASK_S, show_default=True, help="How long a task sleeps, in seconds.")
@one_line_errors
def main(workdir: Path, python: Path, systems: tuple[str, ...], tasks: int, task_s: float) -> None:
    """Compare the mean turnaround of four PySpark applications on stock YARN and with preset `zoe`."""
    progress, work, installation = Progresses(), Work(tasks, task_s), spark.find_spark(python)
    runs = {}
    with interruptible():
        for system in systems:
            runs[system] = measure(system, installation, work, workdir.absolute(), progress)
            progress(json.dumps(runs[system].as_dict()))
    both = len(runs) == len(SYSTEMS)
    ratio = runs[ZOE].mean_s / runs[STOCK].mean_s if both else None
    after_room = runs[ZOE].after_room_s / runs[STOCK].after_room_s if both else None
    result = {
        "benchmark": "zoe-spark",
        "spark": installation.version,
        "work": asdict(work),
        "runs": [run.as_dict() for run in runs.values()],
        "ratio": None if ratio is None else round(ratio, 3),
        "ratio_after_room": None if after_room is None else round(after_room, 3),
    }
    finish(result, all(run.succeeded for run in runs.values()) and (ratio is None or ratio <= GOAL_RATIO))


if __name__ == "__main__":
    main()
