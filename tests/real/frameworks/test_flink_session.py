"""An unmodified Flink session whose TaskManagers are queueable takes several jobs."""

from __future__ import annotations

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import ALL_QUEUEABLE, running
from quicksilver_lab.frameworks.flink.jars import flink
from quicksilver_lab.frameworks.flink.job import session
from quicksilver_lab.workloads.records import RecordsWatch

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(600)]
RECORDS, PER_S = 200, 100.0


def test_a_session_takes_several_jobs(overlay_cluster: Cluster) -> None:
    installation = flink(overlay_cluster.launcher.java)
    with running(overlay_cluster, policies=ALL_QUEUEABLE), RecordsWatch(overlay_cluster) as watch:
        opened = session(overlay_cluster, installation, "session")
        try:
            for name, parallelism in (("narrow", 1), ("wide", 2)):
                stream = opened.submit(name, records=RECORDS, per_second=PER_S, parallelism=parallelism)
                stream.until_written(RECORDS)
                written = stream.written()
                assert (written.records, written.repeated, written.wrong) == (RECORDS, 0, 0)
        finally:
            overlay_cluster.hadoop("application", "application", "-kill", opened.application)
    records = watch.tally(opened.application)
    assert records.granted == records.rm_opportunistic >= 2
