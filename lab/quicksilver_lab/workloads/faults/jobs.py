"""Jobs that run one after another while faults happen, and what became of each."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import requests

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.cluster import Cluster, ClusterError
from quicksilver_lab.workloads import clients, mapreduce, spark
from quicksilver_lab.workloads.distributed_shell import shell_arguments
from quicksilver_lab.workloads.errors import JobFailedError
from quicksilver_lab.workloads.faults.causes import FailureCause, failed_starts
from quicksilver_lab.workloads.history import JobHistory, rows_of
from quicksilver_lab.workloads.mapreduce import JobOptions
from quicksilver_lab.workloads.rest import get_json

MAPREDUCE, SHELL, SPARK = "mapreduce", "distributed shell", "spark"
ATTEMPTS: Final = "20"
"""Application masters may be killed so often in one application."""
TIMEOUT_S: Final = 420.0
_SOURCE: Final = "/faults-source/text"
_LINES: Final = 2000
_AGGREGATED: Final = "End of LogType:AppMaster.stderr"
_AGGREGATED_S: Final = 60.0
"""Time until a finished master's log is aggregated, seconds."""
_QUEUE: Final = "default"


@dataclass(slots=True)
class FaultOutcome:
    """One job."""

    kind: str
    name: str
    application: str = ""
    ok: bool = False
    why: str = ""
    """What went wrong."""
    said: str = ""
    """All that the client of a distributed shell that failed printed, and which starts its master logged as failed."""
    as_stock: str = ""
    """Why plain YARN would have failed it as well."""
    seconds: float = 0.0
    failed_attempts: int = 0
    """Task attempts that MapReduce counted as failed."""
    killed_attempts: int = 0
    failures: list[FailureCause] = field(default_factory=list)
    """MapReduce's diagnostics of each failed attempt."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON knows it."""
        return asdict(self)


class Lane(threading.Thread):
    """Jobs of one kind, one after another until it is told to stop; the last one is waited for."""

    def __init__(
        self, kind: str, run: Callable[[FaultOutcome], None], stop: threading.Event, pause_s: float = 0.0
    ) -> None:
        super().__init__(name=kind)
        self.outcomes: list[FaultOutcome] = []
        self._kind, self._run, self._stop_asked, self._pause_s = kind, run, stop, pause_s

    def run(self) -> None:
        """Run jobs."""
        while not self._stop_asked.is_set():
            outcome = FaultOutcome(self._kind, f"{self._kind.replace(' ', '-')}-{len(self.outcomes) + 1}")
            begun_s = time.monotonic()
            try:
                self._run(outcome)
            except (QuicksilverError, ClusterError, requests.RequestException, OSError) as error:
                outcome.ok, outcome.why = False, f"{type(error).__name__}: {error}"
            outcome.seconds = round(time.monotonic() - begun_s, 1)
            self.outcomes.append(outcome)
            self._stop_asked.wait(self._pause_s)


class FaultJobs:
    """How the three kinds of jobs are run on one cluster; `marks` is a folder where shell tasks leave their traces."""

    def __init__(self, cluster: Cluster, marks: Path, installation: spark.Installation | None) -> None:
        self._cluster, self._marks, self._spark = cluster, marks, installation
        self._folder = f"/faults-{time.strftime('%H%M%S')}"
        self._text = mapreduce.make_text(_LINES)
        self._counts = mapreduce.count_words(self._text)
        shutil.rmtree(marks, ignore_errors=True)
        marks.mkdir(parents=True)
        mapreduce.put_text(cluster, _SOURCE, self._text)

    def mapreduce(self, outcome: FaultOutcome) -> None:
        """Count words with Hadoop's example and compare."""
        options = JobOptions(
            queue=_QUEUE, properties={"mapreduce.am.max-attempts": ATTEMPTS, "mapreduce.map.speculative": "false"}
        )
        target = f"{self._folder}/{outcome.name}"
        started = mapreduce.start_wordcount(self._cluster, _SOURCE, target, maps=6, reduces=2, options=options)
        try:
            text = started.client.wait(TIMEOUT_S)
        except JobFailedError:
            outcome.application = _named(started.client.text)
            raise
        job = clients.job_id(text)
        outcome.application = job.replace("job_", "application_")
        history = JobHistory(self._cluster).job(job, 120.0)
        outcome.failed_attempts, outcome.killed_attempts = history.failed_attempts, history.killed_attempts
        outcome.failures = self._failures(job) if history.failed_attempts else []
        wrong = mapreduce.differences(mapreduce.read_counts(self._cluster, target), self._counts)
        outcome.ok = history.state == "SUCCEEDED" and not wrong
        outcome.why = "" if outcome.ok else f"{history.state}, {len(wrong)} words wrong"

    def shell(self, outcome: FaultOutcome, containers: int = 10, sleep_s: int = 6) -> None:
        """Run containers that leave their ids and sleep."""
        marks = self._marks / outcome.name
        arguments = shell_arguments(self._cluster, outcome.name, "GUARANTEED", containers, sleep_s, _QUEUE)
        arguments[arguments.index("-shell_command") + 1] = f"echo $CONTAINER_ID >> {marks}; sleep {sleep_s}"
        client = clients.start(self._cluster, outcome.name, "distributedshell", arguments)
        try:
            client.wait(TIMEOUT_S)
        except JobFailedError:
            outcome.said = f"{client.text}\n{self._failed_starts(_named(client.text))}"
            raise
        finally:
            outcome.application = _named(client.text)
        twice = {container: count for container, count in started(marks).items() if count > 1}
        there = len(started(marks))
        outcome.ok = not twice and there >= containers
        outcome.why = "" if outcome.ok else f"{there} of {containers} containers ran; twice: {sorted(twice)}"

    def _failed_starts(self, application: str) -> str:
        arguments = ("logs", "-applicationId", application, "-log_files", "AppMaster.stderr")
        end_s, log = time.monotonic() + _AGGREGATED_S, ""
        while application and _AGGREGATED not in log and time.monotonic() < end_s:
            log = self._cluster.hadoop(*arguments, check=False).stdout
        return failed_starts(log)

    def spark(self, outcome: FaultOutcome) -> None:
        """Count words with Spark and compare."""
        assert self._spark is not None
        target = f"{self._folder}/{outcome.name}"
        hdfs = f"hdfs://{self._cluster.spec.namenode}"
        conf = spark.settings(self._cluster, self._spark, 2)
        arguments = [f"{hdfs}{_SOURCE}", f"{hdfs}{target}", "8"]
        client = spark.submit(self._cluster, self._spark, outcome.name, arguments, conf, "client")
        try:
            client.wait(TIMEOUT_S)
        finally:
            outcome.application = _named(client.text)
        wrong = mapreduce.differences(mapreduce.read_counts(self._cluster, target), self._counts)
        outcome.ok = not wrong
        outcome.why = "" if outcome.ok else f"{len(wrong)} words wrong"

    def _failures(self, job: str) -> list[FailureCause]:
        web = self._cluster.spec.jobhistory_web.url
        base = f"{web}/ws/v1/history/mapreduce/jobs/{job}/tasks"
        names = {str(node.web): node.name for node in self._cluster.spec.node_addresses}
        failures = []
        for task in rows_of((get_json(base).get("tasks") or {}).get("task", [])):
            answer = get_json(f"{base}/{task['id']}/attempts")
            for attempt in rows_of((answer.get("taskAttempts") or {}).get("taskAttempt", [])):
                if attempt["state"] == "FAILED":
                    failures.append(
                        FailureCause(
                            attempt=attempt["id"],
                            container=attempt["assignedContainerId"],
                            node=names.get(attempt["nodeHttpAddress"], ""),
                            began_s=attempt["startTime"] / 1000,
                            ended_s=attempt["finishTime"] / 1000,
                            text=attempt["diagnostics"],
                        )
                    )
        return failures


def started(marks: Path) -> Counter[str]:
    """Return how often each container of a distributed shell was started, according to its output."""
    return Counter(marks.read_text().split()) if marks.exists() else Counter()


def _named(text: str) -> str:
    """Return the application that a client's output names, "" when it names none."""
    for find in (clients.application_id, lambda t: clients.job_id(t).replace("job_", "application_")):
        try:
            return find(text)
        except QuicksilverError:
            continue
    return ""
