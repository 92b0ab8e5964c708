"""Spark jobs with dynamic allocation, shuffle tracking, decommissioning and exclusion after failures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.frameworks.spark_events import SparkHistory, read_history
from quicksilver_lab.workloads import clients, spark
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.errors import OutputError
from quicksilver_lab.workloads.rest import eventually
from quicksilver_lab.workloads.spark import Installation

PROGRAM: Final = Path(__file__).with_name("programs") / "growing_stages.py"
EXECUTOR_MB: Final = 768
"""Of an executor's container."""
_SPARKS_OWN: Final = (
    "spark.executor.instances",
    "spark.scheduler.minRegisteredResourcesRatio",
    "spark.scheduler.maxRegisteredResourcesWaitingTime",
)
"""Left as Spark has them where executors come and go."""


@dataclass(frozen=True, slots=True)
class SparkRounds:
    """What a job does: rounds of `tasks` tasks over the same shuffle, with pauses between them."""

    tasks: int = 12
    task_s: float = 2.0
    rounds: int = 2
    pause_s: float = 8.0
    most_executors: int = 6
    forgets_s: float = 60.0
    """How long an idle executor stays for the sake of its part of a shuffle: below the pause, executors come and go in
    each round."""

    def sums(self) -> list[list[list[int]]]:
        """Return what the program must have collected."""
        by_key: dict[int, int] = {}
        for number in range(self.tasks):
            by_key[number % 7] = by_key.get(number % 7, 0) + number
        return [[[key, total] for key, total in sorted(by_key.items())]] * self.rounds


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A submitted job."""

    client: Client
    rounds: SparkRounds
    result: Path
    events: Path

    def history(self) -> SparkHistory:
        """Return what it did so far. Raises OutputError before its context is up."""
        return read_history(self.events, clients.application_id(self.client.text))

    def until_executors(self, count: int, within_s: float = 240.0) -> None:
        """Wait until so many executors are registered. Raises OutputError."""

        def registered() -> bool | None:
            try:
                history = self.history()
            except OutputError:
                return None  # not submitted yet
            return len(history.added) - len(history.removed) >= count or None

        eventually(f"{count} executors of {self.client.name}", registered, within_s)

    def wait(self, timeout_s: float = clients.TIMEOUT_S) -> tuple[str, SparkHistory]:
        """Wait for its end; return its application and what it did. Raises JobFailedError, OutputError."""
        application = clients.application_id(self.client.wait(timeout_s))
        collected = json.loads(self.result.read_text())
        if collected != self.rounds.sums():
            raise OutputError(f"wrong sums: {collected}", place=self.client.name)
        return application, read_history(self.events, application)


def settings(cluster: Cluster, installation: Installation, rounds: SparkRounds, events: Path) -> dict[str, str]:
    """Return the configuration of a job whose executors come and go."""
    base = {k: v for k, v in spark.settings(cluster, installation, 1).items() if k not in _SPARKS_OWN}
    return base | {
        "spark.yarn.am.memoryOverhead": "256m",
        "spark.driver.memoryOverhead": "256m",
        "spark.executor.memoryOverhead": f"{EXECUTOR_MB - 512}m",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": str(rounds.most_executors),
        "spark.dynamicAllocation.executorIdleTimeout": "3s",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.timeout": f"{rounds.forgets_s:g}s",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.excludeOnFailure.enabled": "true",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.yarn.stagingDir": f"file://{cluster.spec.files / 'staging'}",
    }


def submit(
    cluster: Cluster,
    installation: Installation,
    name: str,
    rounds: SparkRounds,
    mode: str = "client",
    more: Mapping[str, str] | None = None,
) -> SparkJob:
    """Start a job; `name` is new to this cluster. more: settings over those of `settings`."""
    events = cluster.spec.workdir / "spark-events"
    events.mkdir(exist_ok=True)
    result = cluster.spec.workdir / f"{name}.json"
    arguments = [str(value) for value in (result, rounds.tasks, rounds.task_s, rounds.rounds, rounds.pause_s)]
    conf = settings(cluster, installation, rounds, events) | dict(more or {})
    return SparkJob(spark.submit(cluster, installation, name, arguments, conf, mode, PROGRAM), rounds, result, events)
