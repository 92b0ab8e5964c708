"""Unmodified Tez, and Hive on it, with their tasks as queueable containers under the policies of the default preset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons, running
from quicksilver_lab.frameworks import retail
from quicksilver_lab.frameworks.hive import Hive
from quicksilver_lab.frameworks.tez import APPLICATION_TYPE, Tez
from quicksilver_lab.workloads import mapreduce
from quicksilver_lab.workloads.records import RecordsWatch, RecordTally
from quicksilver_lab.workloads.rest import get_json
from tests.real.failures.restarts import poll, states

pytestmark = pytest.mark.hadoop

SOURCE = "/tez/input.txt"
TEXT = mapreduce.make_text(4000)
QUERIES = ("categories_of_a_year", "items_below_average")
_APPLICATION = re.compile(r"application_\d+_\d+")


@dataclass(frozen=True)
class Frameworks:
    """A cluster with Tez behind proxy and sidecars."""

    cluster: Cluster
    stack: LocalDaemons
    tez: Tez

    def queueable(self, watch: RecordsWatch, text: str) -> RecordTally:
        """Check that all containers of a client's application but its master's were queueable; return their records."""
        application = _APPLICATION.search(text)
        assert application, text[-2000:]
        app = get_json(f"{self.cluster.rm_rest}/ws/v1/cluster/apps/{application[0]}")["app"]
        assert app["applicationType"] == APPLICATION_TYPE
        records = watch.tally(application[0])
        assert records.rm_opportunistic == records.granted > 0
        assert records.nm_opportunistic == records.ran > 0
        assert records.disagreeing == ()
        return records


@pytest.fixture(scope="module")
def frameworks(overlay_cluster: Cluster) -> Iterator[Frameworks]:
    tez = Tez(overlay_cluster)
    tez.install()
    mapreduce.put_text(overlay_cluster, SOURCE, TEXT)
    routes = [{"match": {"type": APPLICATION_TYPE}, "policy": "only_q"}]
    with running(overlay_cluster, policies={"preset": "default", "routes": routes}) as stack:
        yield Frameworks(overlay_cluster, stack, tez)


def test_a_session_of_word_counts_reuses_queueable_containers(frameworks: Frameworks) -> None:
    targets = [f"/tez/counts-{number}" for number in range(2)]
    with RecordsWatch(frameworks.cluster) as watch:
        client = frameworks.tez.word_counts("tez-session", [(SOURCE, target) for target in targets], maps=6)
        client.wait(timeout_s=180)
    for target in targets:
        assert not mapreduce.differences(mapreduce.read_counts(frameworks.cluster, target), mapreduce.count_words(TEXT))
    records = frameworks.queueable(watch, client.text)
    tasks = 2 * (6 + 2 + 1)
    assert records.ran < tasks
    poll("sidecars without containers", lambda: not states(frameworks.stack, frameworks.cluster), 30)


def test_queries_of_hive_are_queueable(frameworks: Frameworks) -> None:
    rows = retail.tables(6000)
    hive = Hive(frameworks.tez)
    hive.install(rows)
    with RecordsWatch(frameworks.cluster) as watch:
        session = hive.session("hive-queries", QUERIES)
        results = session.wait(timeout_s=240)
    expected = retail.expected(rows)
    assert [result.rows for result in results] == [expected[name] for name in QUERIES]
    frameworks.queueable(watch, session.client.text)
