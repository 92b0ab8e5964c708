"""Unmodified Spark whose queueable executors come and go, are preempted for others, and are counted no failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from quicksilver_lab.bench.sleep_job import job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.frameworks import spark_jobs
from quicksilver_lab.frameworks.spark_events import SparkHistory
from quicksilver_lab.frameworks.spark_jobs import SparkRounds
from quicksilver_lab.workloads import spark
from quicksilver_lab.workloads.records import RecordsWatch
from tests.paths import ROOT
from tests.real.frameworks.counted_kills import queueable_kills

PYTHON = ROOT / spark.DEFAULT_PYTHON
pytestmark = [
    pytest.mark.hadoop,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON.exists(), reason="`make spark` has not installed pyspark in .venv-spark"),
]
POLICIES = {
    "preset": "default",
    "routes": [{"match": {"type": "SPARK"}, "policy": "only_q"}, {"policy": "only_g"}],
}
"""Executors are queueable, all else is guaranteed. No sidecar chooses executors to be killed: where a guaranteed
container has no room, its NodeManager does."""
URGENT, URGENT_S, URGENT_MB = 11, 12.0, 1024
"""Guaranteed containers that leave no room for an executor beside the application master."""
ROUNDS = SparkRounds(tasks=30, task_s=2.0, rounds=2, pause_s=6.0, most_executors=6, forgets_s=3.0)
FEWEST = 3
"""Executors that run when their room is taken; on a busy machine they come one after the other."""


@pytest.fixture(scope="module")
def stack(overlay_cluster: Cluster) -> Iterator[LocalDaemons]:
    made = LocalDaemons(overlay_cluster, POLICIES)
    made.start()
    try:
        yield made
    finally:
        made.stop()


async def _with_urgent_work(cluster: Cluster, submitted: spark_jobs.SparkJob) -> tuple[str, SparkHistory]:
    """Take the executors' room as soon as some of them run; return the Spark job's application and history."""
    async with job(cluster, "urgent") as urgent:
        await asyncio.to_thread(submitted.until_executors, FEWEST)
        urgent.ask(URGENT, URGENT_S, memory_mb=URGENT_MB)
        await urgent.until_done(within_s=120)
        return await asyncio.to_thread(submitted.wait, 300)


def test_executors_come_and_go_and_are_preempted(overlay_cluster: Cluster, stack: LocalDaemons) -> None:
    with RecordsWatch(overlay_cluster) as watch:
        submitted = spark_jobs.submit(overlay_cluster, spark.find_spark(PYTHON), "growing", ROUNDS)
        application, history = asyncio.run(_with_urgent_work(overlay_cluster, submitted))
    records = watch.tally(application)
    assert records.granted == records.rm_opportunistic  # all executors were Qs
    assert records.disagreeing == ()
    assert len(history.added) > ROUNDS.most_executors  # they came, went, and came again
    preempted = [reason for _, reason in history.removed.values() if "was preempted" in reason]
    assert preempted, history.removed
    assert history.excluded == 0
    assert queueable_kills(stack, "nodemanager") >= 1
