"""One job of each framework that a cell disturbs: small, several tasks of some seconds, and a known result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.frameworks import retail, spark_jobs
from quicksilver_lab.frameworks.flink import jars as flink_jars
from quicksilver_lab.frameworks.flink.job import submit
from quicksilver_lab.frameworks.hive import Hive
from quicksilver_lab.frameworks.spark_jobs import SparkRounds
from quicksilver_lab.frameworks.tez import APPLICATION_TYPE, Tez
from quicksilver_lab.frameworks.tools import Tools
from quicksilver_lab.workloads import clients, spark
from quicksilver_lab.workloads.clients import Client, Clients
from quicksilver_lab.workloads.distributed_shell import JAR
from quicksilver_lab.workloads.mapreduce import RunningJob, count_words, differences, make_text, put_text, read_counts

TIMEOUT_S: Final = 300.0
_APPLICATION: Final = re.compile(r"application_\d+_\d+")
_FAILED: Final = re.compile(r"FailedTaskAttempts: (\d+)")
_ROUNDS: Final = SparkRounds(tasks=12, task_s=3.0, rounds=1, pause_s=0.0, most_executors=4)
_QUERIES: Final = ("categories_of_a_year", "items_below_average") * 2
_LINES: Final = 300
_SOURCE: Final = "/matrix/input"


@dataclass(frozen=True, slots=True)
class CellJob:
    """A job that was started."""

    text: Callable[[], str]
    """What names its application, as soon as it has one."""
    ended: Callable[[], bool]
    mistake: Callable[[bool], str]
    """Wait for the end and return what is wrong with the job, empty when nothing is. The argument says whether some of
    its attempts may have failed. Raises QuicksilverError."""

    @property
    def application(self) -> str:
        """Its application; empty before it has one."""
        match = _APPLICATION.search(self.text())
        return match[0] if match else ""


class CellFramework(Protocol):
    """A framework on one cluster, installed when it is made."""

    @property
    def name(self) -> str:
        """With its version, as the table of what ran has it."""

    @property
    def application_type(self) -> str:
        """As a rule of quicksilver matches it."""

    @property
    def tasks(self) -> int:
        """Containers beside the master's that run at the same time when the cluster is free."""

    def start(self, name: str, together: Clients) -> CellJob:
        """Start a job; `name` is new to this cluster, `together` takes charge of its client."""


class TezDag:
    """A DAG of sleeping tasks."""

    application_type, tasks = APPLICATION_TYPE, 3

    def __init__(self, cluster: Cluster) -> None:
        self._tez = Tez(cluster)
        self._tez.install()
        self.name = f"Tez {self._tez.jars.version}"

    def start(self, name: str, together: Clients) -> CellJob:
        """Start nine maps of 5 s, and reduces behind them."""
        client = together.add(self._tez.sleep(name, maps=9, map_s=5, reduces=2))

        def mistake(may_fail: bool) -> str:
            return dag_mistake(client.wait(TIMEOUT_S), may_fail)

        return _of_client(client, mistake)


def dag_mistake(text: str, may_fail: bool) -> str:
    """Return what is wrong with a DAG, by what its client printed."""
    if "State: SUCCEEDED" not in text:
        return "the DAG did not succeed"
    failed = _FAILED.findall(text)
    return f"{failed[-1]} attempts failed" if failed and not may_fail else ""


class HiveQueries:
    """A session of queries, which are done by DAGs of one application."""

    application_type, tasks = APPLICATION_TYPE, 1

    def __init__(self, cluster: Cluster) -> None:
        tez = Tez(cluster)
        tez.install()
        rows = retail.tables(6000)
        self._hive, self._expected = Hive(tez), retail.expected(rows)
        self._hive.install(rows)
        self.name = f"Hive {self._hive.jars.version} on Tez"

    def start(self, name: str, together: Clients) -> CellJob:
        """Start a session of four queries."""
        session = self._hive.session(name, _QUERIES)
        together.add(session.client)

        def mistake(_may_fail: bool) -> str:
            results = session.wait(TIMEOUT_S)
            wrong = [result.query for result in results if result.rows != self._expected[result.query]]
            return f"wrong rows of {', '.join(wrong)}" if wrong else ""

        return _of_client(session.client, mistake)


class SparkStages:
    """A job in cluster mode whose executors come by dynamic allocation."""

    application_type, tasks = "SPARK", 3

    def __init__(self, cluster: Cluster, python: Path) -> None:
        self._cluster, self._installation = cluster, spark.find_spark(python)
        self.name = f"Spark {self._installation.version}"

    def start(self, name: str, together: Clients) -> CellJob:
        """Start two stages of twelve tasks of 3 s on at most four executors."""
        more = {"spark.yarn.maxAppAttempts": "2"}
        job = spark_jobs.submit(self._cluster, self._installation, name, _ROUNDS, "cluster", more)
        together.add(job.client)

        def mistake(may_fail: bool) -> str:
            _, history = job.wait(TIMEOUT_S)
            return f"{history.lost} tasks were lost" if history.lost and not may_fail else ""

        return _of_client(job.client, mistake)


class FlinkStream:
    """A job in application mode that counts numbers, each exactly once."""

    application_type, tasks = "*FLINK*", 2
    _records, _per_s = 1500, 100.0

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._flink = cluster, flink_jars.flink(cluster.launcher.java)
        self.name = f"Flink {flink_jars.VERSION}"

    def start(self, name: str, together: Clients) -> CellJob:
        """Start a stream of 15 s over two TaskManagers."""
        stream = submit(self._cluster, self._flink, name, records=self._records, per_second=self._per_s)

        def mistake(_may_fail: bool) -> str:
            status = stream.until_over(TIMEOUT_S)
            if status != "SUCCEEDED":
                return f"it ended as {status}"
            written = stream.written()
            right = (written.records, written.wrong) == (self._records, 0)
            return "" if right else f"{written.records} of {self._records} numbers, {written.wrong} of them wrong"

        over = ("FINISHED", "FAILED", "KILLED")
        return CellJob(lambda: stream.application, lambda: stream.app()["state"] in over, mistake)


class StreamingJob:
    """Maps and a reduce that are programs of a shell."""

    name, application_type, tasks = "Hadoop streaming", "MAPREDUCE", 3

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._tools, self._text = cluster, Tools(cluster), make_text(_LINES)
        for number in range(3):
            put_text(cluster, f"{_SOURCE}/text-{number}", self._text)

    def start(self, name: str, together: Clients) -> CellJob:
        """Start a count of words with at least three maps, which take 5 s each."""
        words = r'sleep 5; tr -s "[:space:]" "\n" | grep .'
        sums = r'sort | uniq -c | awk "{print \$2 \"\t\" \$1}"'
        target, own = f"/matrix/{name}", {"mapreduce.job.maps": "6", "mapreduce.job.reduces": "1"}
        job = self._tools.streaming(name, _SOURCE, target, words, sums, own)
        together.add(job.client)
        return _of_client(job.client, lambda may_fail: self._mistake(job, target, may_fail))

    def _mistake(self, job: RunningJob, target: str, may_fail: bool) -> str:
        result = job.wait(TIMEOUT_S)
        expected = {word: 3 * count for word, count in count_words(self._text).items()}
        wrong = differences(read_counts(self._cluster, target), expected)
        if wrong:
            return f"{len(wrong)} words are wrong"
        return f"{result.failed_attempts} attempts failed" if result.failed_attempts and not may_fail else ""


class ShellTasks:
    """Hadoop's distributed shell: containers that sleep."""

    name, application_type, tasks = "distributed shell", "YARN", 3

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._jar = cluster, cluster.artifact(JAR)

    def start(self, name: str, together: Clients) -> CellJob:
        """Start nine containers of 5 s."""
        arguments = [
            *("-jar", str(self._jar)),
            *("-appname", name, "-master_memory", "512", "-container_memory", "512", "-container_vcores", "1"),
            *("-num_containers", "9", "-timeout", str(int(1000 * TIMEOUT_S)), "-shell_command", "sleep 5"),
        ]
        client = together.add(clients.start(self._cluster, name, "distributedshell", arguments))

        def mistake(_may_fail: bool) -> str:
            client.wait(TIMEOUT_S)  # its exit code says whether all was well
            return ""

        return _of_client(client, mistake)


def _of_client(client: Client, mistake: Callable[[bool], str]) -> CellJob:
    return CellJob(lambda: client.text, lambda: client.poll() is not None, mistake)


def frameworks(python: Path) -> Mapping[str, Callable[[Cluster], CellFramework]]:
    """Return what makes each framework, by its name on the command line; python: the one that imports pyspark."""
    return {
        "tez": TezDag,
        "hive": HiveQueries,
        "spark": lambda cluster: SparkStages(cluster, python),
        "flink": FlinkStream,
        "streaming": StreamingJob,
        "shell": ShellTasks,
    }
