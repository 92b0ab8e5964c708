"""Figures of one run of a job, from the records of YARN, of its application master, and of quicksilver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from quicksilver.report.stats import nearest_rank
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.errors import OutputError
from quicksilver_lab.workloads.history import rows_of
from quicksilver_lab.workloads.mapreduce import JobResult
from quicksilver_lab.workloads.records import OPPORTUNISTIC, RecordsWatch, application_of, is_master
from quicksilver_lab.workloads.rest import eventually, get_json, get_text

_STAMP: Final = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})"
_WANTED: Final = re.compile(_STAMP + r".*?(attempt_\w+) TaskAttempt Transitioned from NEW to UNASSIGNED")
_ASSIGNED: Final = re.compile(_STAMP + r".*?Assigned container (container_\w+) to (attempt_\w+)")
_START: Final = re.compile(_STAMP + r".*?Start request for (container_\w+) by user")
AGREE_S: Final = 1.0
"""How far the NodeManager's log and the sidecar's record of a start may be apart."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Nearest-rank percentiles in seconds; None without values."""

    count: int
    p50_s: float | None
    p95_s: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """Return those of `values`."""
        if not values:
            return cls(0, None, None)
        return cls(len(values), nearest_rank(values, 50), nearest_rank(values, 95))


@dataclass(frozen=True, slots=True)
class RunWay:
    """One run of the job."""

    name: str
    job_id: str
    job_s: float
    output: str
    nodes: dict[str, dict[str, int]]
    """Containers that ran by NodeId and execution type, according to the NodeManagers' REST."""
    rm_opportunistic: int
    """Grants that the ResourceManager's log calls opportunistic."""
    nm_opportunistic: int
    disagreeing: tuple[str, ...]
    """Containers that ResourceManager and NodeManager give different execution types."""
    delay_g: Percentiles
    """From a task that wants a container to its assignment, by the application master's own log; maps only."""
    delay_q: Percentiles
    failed_attempts: int
    killed_attempts: int

    @property
    def application_id(self) -> str:
        """The application of the job."""
        return self.job_id.replace("job_", "application_")


@dataclass(frozen=True, slots=True)
class HeldStartRecords:
    """Starts that sidecars held, checked against the NodeManagers' logs."""

    count: int
    """Containers whose start waited at all."""
    confirmed: int
    """Those whose start the NodeManager logged at the time at which the sidecar sent it."""
    waited: Percentiles
    proxy_delay_g: dict[str, Any]
    """As the proxy measured: from ask to delivery."""
    proxy_delay_q: dict[str, Any]


def measure(cluster: Cluster, name: str, job: JobResult, watch: RecordsWatch, output: str) -> RunWay:
    """Return what YARN and the application master recorded of a finished job."""
    tally = watch.tally(job.application_id)
    mine = [c for c in watch.seen.values() if application_of(c.id) == job.application_id and not is_master(c.id)]
    nodes: dict[str, dict[str, int]] = {str(n.rpc): {} for n in cluster.spec.node_addresses}
    for container in mine:
        kinds = nodes.setdefault(container.node, {})
        kinds[container.execution_type] = kinds.get(container.execution_type, 0) + 1
    opportunistic = watch.granted().opportunistic
    delays = assignment_delays(master_log(cluster, job.job_id))
    return RunWay(
        name=name,
        job_id=job.job_id,
        job_s=job.job_s,
        output=output,
        nodes=nodes,
        rm_opportunistic=tally.rm_opportunistic,
        nm_opportunistic=sum(kinds.get(OPPORTUNISTIC, 0) for kinds in nodes.values()),
        disagreeing=tally.disagreeing,
        delay_g=Percentiles.of([d for c, d in delays.items() if c not in opportunistic]),
        delay_q=Percentiles.of([d for c, d in delays.items() if c in opportunistic]),
        failed_attempts=job.failed_attempts,
        killed_attempts=job.killed_attempts,
    )


def master_log(cluster: Cluster, job_id: str) -> str:
    """Return the log of a finished job's application master, once it is collected. Raises OutputError."""
    web = cluster.spec.jobhistory_web.url
    url = f"{web}/ws/v1/history/mapreduce/jobs/{job_id}/jobattempts"
    attempts = rows_of(get_json(url, cluster.web_auth)["jobAttempts"]["jobAttempt"])
    container = attempts[-1]["containerId"]
    link = f"{web}/ws/v1/history/containerlogs/{container}/syslog"

    def collected() -> str | None:
        text = get_text(link, cluster.web_auth)
        return text if _ASSIGNED.search(text) else None

    return eventually(f"log of {container}", collected)


def assignment_delays(log: str) -> dict[str, float]:
    """Return, by container, the seconds from a map's wish for a container to its assignment."""
    wishes = {attempt: _seconds(stamp) for stamp, attempt in _WANTED.findall(log)}
    return {
        container: _seconds(stamp) - wishes[attempt]
        for stamp, container, attempt in _ASSIGNED.findall(log)
        if attempt in wishes and "_m_" in attempt
    }


def _seconds(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").timestamp()


def start_times(log: Path) -> dict[str, float]:
    """Return when a NodeManager got the request to start each container, in Unix seconds."""
    return {container: _seconds(stamp) for stamp, container in _START.findall(log.read_text(errors="replace"))}


def held_starts(stack: LocalDaemons, way: RunWay) -> HeldStartRecords:
    """Return the job's held starts as the proxy recorded them, and how many the NodeManagers' logs confirm.

    Raises OutputError when the proxy knows of no container of the job.
    """
    decisions = stack.get(f"/v1/decisions?app={way.application_id}&limit=1000")["items"]
    if not decisions:
        raise OutputError("the proxy has no decisions of it", place=way.job_id, remedy="read the proxy's log")
    logged: dict[str, float] = {}
    for node in stack.cluster.spec.node_addresses:
        logged |= start_times(stack.cluster.log(f"nodemanager-{node.name}"))
    waited, confirmed = [], 0
    for decision in (d for d in decisions if d["kind"] == "Q"):
        container = decision["container_id"]
        events = {e["kind"]: e for e in stack.get(f"/v1/containers/{container}")["events"]}
        hold, start = events.get("held"), events.get("started")
        if hold is None or start is None:
            continue
        waited.append(start["at_s"] - hold["at_s"])
        at_s = logged.get(container)
        confirmed += at_s is not None and hold["at_s"] - 0.01 <= at_s <= start["at_s"] + AGREE_S
    summary = stack.get(f"/v1/summary?app={way.application_id}")
    return HeldStartRecords(
        len(waited), confirmed, Percentiles.of(waited), summary["allocation_g"], summary["allocation_q"]
    )
