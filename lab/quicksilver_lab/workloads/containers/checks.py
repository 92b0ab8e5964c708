"""What the running stack must show, besides the jobs' results: metrics scraped, rows stored, each container counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from quicksilver_lab.workloads.containers.compose import Compose
from quicksilver_lab.workloads.containers.jobs import JobRun
from quicksilver_lab.workloads.errors import OutputError
from quicksilver_lab.workloads.rest import get_json

T = TypeVar("T")
TARGETS: Final = frozenset(
    {
        *("resourcemanager:8390", "node1:8391", "node2:8391", "node3:8391"),
        *("resourcemanager:8088", "namenode:9870", "datanode:9864", "jobhistory:19888"),
    }
)
"""What Prometheus scrapes: proxy, sidecars, and Hadoop's daemons but the NodeManagers."""
_TABLES: Final = ("applications", "grants", "container_events", "completions", "nodes")
_WITHIN_S: Final = 60.0
_POLL_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What was found. rows: in PostgreSQL, by table; users: who runs each daemon; sizes in the proxy's own words."""

    summary: dict[str, Any]
    targets_up: frozenset[str]
    rows: dict[str, int]
    users: dict[str, str]
    resizers: dict[str, list[str]]
    """By node: the resizer in use, and why others are not."""


def facts(compose: Compose, jobs: Sequence[JobRun]) -> ClusterFacts:
    """Ask all daemons. Raises OutputError when one of them does not show the jobs."""
    proxy = compose.url("resourcemanager", 8390)
    targets = _eventually(lambda: _targets_up(compose), lambda answer: answer == TARGETS, "Prometheus: targets up")
    rows = _eventually(lambda: _rows(compose), lambda answer: all(answer.values()), "PostgreSQL: rows")
    summary = get_json(f"{proxy}/v1/summary")
    if summary["guaranteed"] + summary["queueable"] < sum(2 for _ in jobs):
        raise OutputError(f"it knows too few containers: {summary}", place=f"{proxy}/v1/summary")
    known = {app["id"] for app in get_json(f"{compose.url('resourcemanager', 8088)}/ws/v1/cluster/apps")["apps"]["app"]}
    lost = [job.application_id for job in jobs if job.application_id not in known]
    if lost:
        raise OutputError(f"the ResourceManager does not know {lost}", place="jobs")
    return ClusterFacts(summary, targets, rows, _users(compose), _resizers(proxy))


def _targets_up(compose: Compose) -> frozenset[str]:
    answer = get_json(f"{compose.url('prometheus', 9090)}/api/v1/query?query=up")
    return frozenset(row["metric"]["instance"] for row in answer["data"]["result"] if row["value"][1] == "1")


def _rows(compose: Compose) -> dict[str, int]:
    counts = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM {table}" for table in _TABLES)
    output = compose.execute("postgres", "psql", "-At", "-c", counts, timeout_s=60)
    return {table: int(count) for table, count in (line.split("|") for line in output.splitlines())}


def _users(compose: Compose) -> dict[str, str]:
    """Return the user id of each service's first process."""
    names = ("proxy", "sidecar1", "node1", "resourcemanager", "postgres", "prometheus")
    return {name: compose.execute(name, "id", "-u", timeout_s=60) for name in names}


def _resizers(proxy: str) -> dict[str, list[str]]:
    return {node["host"]: node["limits"] for node in get_json(f"{proxy}/v1/nodes")["items"]}


def _eventually(ask: Callable[[], T], right: Callable[[T], bool], place: str) -> T:
    until_s = time.monotonic() + _WITHIN_S
    while not right(answer := ask()):
        if time.monotonic() > until_s:
            raise OutputError(f"still {answer} after {_WITHIN_S:g} s", place=place)
        time.sleep(_POLL_S)
    return answer
