"""A secure cluster: Kerberos, SPNEGO and service-level authorization, with proxy and sidecars between."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from cluster.cluster import Cluster
from cluster.spec import ClusterSpec
from cluster.testing import free_base_port
from quicksilver.evidence import held_starts, measure
from quicksilver.stack import Stack
from workloads.mapreduce import JobOptions, JobResult, count_words, make_text, put_text, read_counts, start_wordcount
from workloads.records import Watch

pytestmark = [pytest.mark.hadoop, pytest.mark.kerberos]
TEXT = make_text(2000)
OPTIONS = JobOptions(properties={"mapreduce.map.speculative": "false"})
POLICIES: dict[str, Any] = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("secure"),
        base_port=free_base_port(nodes=2),
        nodes=2,
        kerberos=True,
        spnego=True,
    )
    made = Cluster(spec)
    made.start()
    try:
        put_text(made, "/whole/input.txt", TEXT)
        yield made
    finally:
        made.stop()


@pytest.fixture
def stack(cluster: Cluster) -> Iterator[Stack]:
    made = Stack(cluster, POLICIES)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def wordcount(cluster: Cluster, name: str, maps: int = 3) -> JobResult:
    target = f"/whole/{name}-{time.time_ns()}"
    result = start_wordcount(cluster, "/whole/input.txt", target, maps=maps, options=OPTIONS).wait(timeout_s=200)
    assert read_counts(cluster, target) == count_words(TEXT)
    return result


def metric(url: str, name: str) -> float:
    text = requests.get(f"{url}/metrics", timeout=10).text
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def test_maps_are_held_and_the_records_agree(cluster: Cluster, stack: Stack) -> None:
    with Watch(cluster) as watch:
        job = wordcount(cluster, "held")
    way = measure(cluster, "quicksilver", job, watch, "")
    assert way.disagreeing == ()
    assert way.rm_opportunistic == job.maps == way.nm_opportunistic
    held = held_starts(stack, way)
    assert held.held == held.confirmed == job.maps
    health = stack.get("/v1/health")
    assert health["problems"] == []
