"""Finished MapReduce jobs by the JobHistoryServer: outcome, counters, attempts, their logs, their files."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any, Final

import requests

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.workloads.errors import OutputError
from quicksilver_lab.workloads.hdfs import Hdfs
from quicksilver_lab.workloads.rest import eventually, get_json, get_text

DONE: Final = "/tmp/hadoop-yarn/staging/history/done"
Counters = dict[str, dict[str, int]]
"""Totals by counter group (such as JOB_COUNTERS) and name (such as TOTAL_LAUNCHED_MAPS)."""
JOB_COUNTERS: Final = "org.apache.hadoop.mapreduce.JobCounter"
_LOG_LINK: Final = re.compile(r"class='logslink' href='(/jobhistory/logs/[^'/]+/container_\w+/(attempt_\w+)/[^']*)'")
_SPACES: Final = re.compile(r"[ \t]*\n\s*")
_TAG: Final = re.compile(r"<[^>]+>")


@dataclass(frozen=True, slots=True)
class HistoryAttempt:
    """One finished attempt of a task, and where it ran."""

    id: str
    type: str
    """MAP or REDUCE."""
    state: str
    container: str
    node_http: str
    """Web address of the node, as `host:port`."""


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A finished job; times in ms since 1970, and `started_ms` includes waiting for containers."""

    id: str
    name: str
    user: str
    queue: str
    state: str
    maps: int
    reduces: int
    submitted_ms: int
    started_ms: int
    finished_ms: int
    failed_attempts: int
    killed_attempts: int


class JobHistory:
    """The JobHistoryServer of one local cluster; methods raise requests.RequestException unless they say otherwise."""

    def __init__(self, cluster: Cluster) -> None:
        """Ask nothing yet."""
        self._cluster = cluster
        self._web = cluster.spec.jobhistory_web.url
        self._jobs = f"{self._web}/ws/v1/history/mapreduce/jobs"

    def job(self, job: str, timeout_s: float = 60.0) -> FinishedJob:
        """Return a job once its history is there. Raises OutputError when that is not the case in time."""
        return eventually(
            f"history of {job}",
            lambda: parse_job(get_json(f"{self._jobs}/{job}", self._cluster.web_auth).get("job")),
            timeout_s,
        )

    def counters(self, job: str) -> Counters:
        """Return all counters of a finished job."""
        return parse_counters(get_json(f"{self._jobs}/{job}/counters", self._cluster.web_auth))

    def attempts(self, job: str) -> list[HistoryAttempt]:
        """Return all attempts of a finished job's tasks."""
        attempts: list[HistoryAttempt] = []
        for task in (get_json(f"{self._jobs}/{job}/tasks", self._cluster.web_auth).get("tasks") or {}).get("task", []):
            answer = get_json(f"{self._jobs}/{job}/tasks/{task['id']}/attempts", self._cluster.web_auth)
            attempts += parse_attempts(answer)
        return attempts

    def log_links(self, job: str) -> dict[str, str]:
        """Return the links to logs of a finished job's successful attempts, as its pages have them, by attempt."""
        links: dict[str, str] = {}
        for task_type in ("m", "r"):
            page = get_text(f"{self._web}/jobhistory/attempts/{job}/{task_type}/SUCCESSFUL", self._cluster.web_auth)
            links |= {attempt: self._web + path for attempt, path in parse_log_links(page).items()}
        return links

    def log_text(self, link: str, timeout_s: float = 60.0) -> str:
        """Return the text of a log page once the logs are there (they are collected after the application's end).

        Raises OutputError when the page still has none after `timeout_s`.
        """

        def page() -> str | None:
            text = page_text(get_text(link, self._cluster.web_auth))
            return text if "Log Type:" in text else None

        return eventually(link, page, timeout_s)

    def files(self, jobs: list[str], timeout_s: float = 60.0) -> list[str]:
        """Return the HDFS paths of the jobs' histories and configurations, once the server has moved them to DONE.

        Raises OutputError when they are not there in time.
        """
        hdfs = Hdfs(self._cluster)

        def moved() -> list[str] | None:
            paths = [path for path in _files_or_none(hdfs) if any(f"/{job}" in path for job in jobs)]
            return sorted(paths) if len(paths) == 2 * len(jobs) else None

        return eventually(f"history files of {len(jobs)} jobs in {DONE}", moved, timeout_s)


def _files_or_none(hdfs: Hdfs) -> list[str]:
    try:
        return hdfs.files(DONE)
    except requests.HTTPError as error:
        if error.response.status_code == requests.codes.not_found:
            return []  # the folder of the day comes with the first job
        raise


def parse_job(answer: dict[str, Any] | None) -> FinishedJob | None:
    """Return a job of the server's REST; None as long as it is not there or not ended."""
    if not answer or answer.get("state") not in ("SUCCEEDED", "FAILED", "KILLED", "ERROR"):
        return None
    return FinishedJob(
        id=answer["id"],
        name=answer["name"],
        user=answer["user"],
        queue=answer["queue"],
        state=answer["state"],
        maps=answer["mapsTotal"],
        reduces=answer["reducesTotal"],
        submitted_ms=answer["submitTime"],
        started_ms=answer["startTime"],
        finished_ms=answer["finishTime"],
        failed_attempts=answer.get("failedMapAttempts", 0) + answer.get("failedReduceAttempts", 0),
        killed_attempts=answer.get("killedMapAttempts", 0) + answer.get("killedReduceAttempts", 0),
    )


def parse_counters(answer: dict[str, Any]) -> Counters:
    """Return the counters of the server's REST. Raises OutputError when the answer has none."""
    groups = (answer.get("jobCounters") or {}).get("counterGroup")
    if not groups:
        raise OutputError("no counters in the answer", place="JobHistoryServer")
    return {
        group["counterGroupName"]: {
            counter["name"]: int(counter["totalCounterValue"]) for counter in rows_of(group["counter"])
        }
        for group in rows_of(groups)
    }


def rows_of(value: Any) -> list[dict[str, Any]]:
    """Return the rows of a list; of one with a single row the JobHistoryServer of 3.5 answers the row alone."""
    return value if isinstance(value, list) else [value]


def parse_attempts(answer: dict[str, Any]) -> list[HistoryAttempt]:
    """Return the attempts of the server's REST."""
    return [
        HistoryAttempt(
            id=attempt["id"],
            type=attempt["type"],
            state=attempt["state"],
            container=attempt["assignedContainerId"],
            node_http=attempt["nodeHttpAddress"],
        )
        for attempt in rows_of((answer.get("taskAttempts") or {}).get("taskAttempt", []))
    ]


def parse_log_links(page: str) -> dict[str, str]:
    """Return the paths of the log links in a page of attempts, by attempt."""
    return {attempt: path for path, attempt in _LOG_LINK.findall(page)}


def page_text(page: str) -> str:
    """Return the text of an HTML page, without tags."""
    return _SPACES.sub("\n", html.unescape(_TAG.sub("", page))).strip()
