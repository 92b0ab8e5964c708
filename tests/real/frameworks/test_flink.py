"""Unmodified Flink whose TaskManagers are queueable: preempted ones are replaced; each record counts exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from quicksilver_lab.bench.sleep_job import job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.frameworks.flink.jars import Flink, flink
from quicksilver_lab.frameworks.flink.job import Stream, submit
from quicksilver_lab.workloads.records import RecordsWatch
from tests.real.frameworks.counted_kills import queueable_kills

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(600)]
POLICIES = {
    "preset": "default",
    "routes": [{"match": {"type": "*FLINK*"}, "policy": "only_q"}, {"policy": "only_g"}],
    "preempt": {"policy": "kill_newest"},
}
"""TaskManagers are queueable, all else is guaranteed and has running TaskManagers killed: the harder case."""
URGENT, URGENT_S, URGENT_MB = 11, 12.0, 1024
"""Guaranteed containers that leave no room for a TaskManager beside the JobManager."""
RECORDS, PER_S = 2000, 100.0


@pytest.fixture(scope="module")
def stack(overlay_cluster: Cluster) -> Iterator[LocalDaemons]:
    made = LocalDaemons(overlay_cluster, POLICIES)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def installation(overlay_cluster: Cluster) -> Flink:
    return flink(overlay_cluster.launcher.java)


async def _preempted(cluster: Cluster, stream: Stream) -> str:
    """Take the TaskManagers' room while the job runs; return how the application ended."""
    await asyncio.to_thread(stream.until_written, RECORDS // 10)
    async with job(cluster, "urgent") as urgent:
        urgent.ask(URGENT, URGENT_S, memory_mb=URGENT_MB)
        await urgent.until_done(within_s=120)
    return await asyncio.to_thread(stream.until_over)


def test_a_job_goes_on_from_its_checkpoint(overlay_cluster: Cluster, stack: LocalDaemons, installation: Flink) -> None:
    with RecordsWatch(overlay_cluster) as watch:
        stream = submit(overlay_cluster, installation, "preempted", records=RECORDS, per_second=PER_S)
        status = asyncio.run(_preempted(overlay_cluster, stream))
    assert status == "SUCCEEDED"
    written, records = stream.written(), watch.tally(stream.application)
    assert (written.records, written.wrong) == (RECORDS, 0)
    assert records.granted == records.rm_opportunistic > 2  # two TaskManagers at a time, all of them Qs
    assert records.disagreeing == ()
    assert queueable_kills(stack, "room") >= 1
