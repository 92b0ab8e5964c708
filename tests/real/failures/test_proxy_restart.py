"""The proxy is killed while unmodified MapReduce jobs run, again and again: nothing is lost, nothing is doubled."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from random import Random

import pytest
import requests

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    RunningJob,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from quicksilver_lab.workloads.records import RecordsWatch
from quicksilver_lab.workloads.run_records import measure

pytestmark = pytest.mark.hadoop
TEXT = make_text(2000)
MAPS = 10
OPTIONS = JobOptions(properties={"mapreduce.map.speculative": "false", "mapreduce.reduce.speculative": "false"})
MAPS_Q = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}
KILLS = 4
RECOVERED_S = 120.0


@pytest.fixture(scope="module")
def cluster(overlay_cluster: Cluster) -> Cluster:
    put_text(overlay_cluster, "/restart/input.txt", TEXT)
    return overlay_cluster


@pytest.fixture
def stack(cluster: Cluster) -> Iterator[LocalDaemons]:
    made = LocalDaemons(cluster, MAPS_Q, standby=True)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def metric(stack: LocalDaemons, name: str) -> float:
    try:
        text = requests.get(f"{stack.url}/metrics", timeout=10).text
    except requests.RequestException:
        return 0.0  # between two lives
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def until(true: Callable[[], bool], within_s: float, what: str) -> float:
    """Wait for something that must come; returns how long it took, in seconds."""
    begun_s = time.monotonic()
    while not true():
        assert time.monotonic() - begun_s < within_s, what
        time.sleep(0.05)
    return time.monotonic() - begun_s


def strike(stack: LocalDaemons, job: RunningJob, kill: Callable[[str], int], rng: Random) -> list[float]:
    """End the proxy's process several times while a job runs; returns how long its master had no answer, in seconds."""
    until(lambda: metric(stack, "quicksilver_proxy_live_containers") > 0, 60, "the job got no container")
    took_s = []
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.2, 2.5))
        if job.client.poll() is not None:
            break
        pid = kill("proxy")
        until(lambda: stack.pid("proxy") not in (None, pid), 60, "it was not started again")  # noqa: B023
        took_s.append(
            until(
                lambda: metric(stack, "quicksilver_proxy_allocates_total") > 0 or job.client.poll() is not None,
                RECOVERED_S,
                "no application master came back",
            )
        )
    return took_s


@pytest.mark.parametrize("how", ["killed", "upgraded"])
def test_a_job_whose_proxy_dies_again_and_again_loses_nothing(cluster: Cluster, stack: LocalDaemons, how: str) -> None:
    target = f"/restart/{how}-{time.time_ns()}"
    with RecordsWatch(cluster) as watch:
        job = start_wordcount(cluster, "/restart/input.txt", target, maps=MAPS, options=OPTIONS)
        took_s = strike(stack, job, stack.kill if how == "killed" else stack.upgrade, Random(7))
        result = job.wait(timeout_s=240)
    assert read_counts(cluster, target) == count_words(TEXT)
    assert result.failed_attempts == 0
    assert took_s, "the job was over before the first strike"
    way = measure(cluster, "quicksilver", result, watch, "")
    assert way.disagreeing == ()
    log = stack.log("proxy").read_text()
    assert "resync of an application: registered" in log
    assert "Traceback" not in log
    print(f"without an answer for {[round(s, 2) for s in took_s]} s")


@pytest.mark.long
def test_what_is_killed_twice_at_once_comes_back(cluster: Cluster, stack: LocalDaemons) -> None:
    """A process that has hardly begun to go on is killed too."""
    target = f"/restart/twice-{time.time_ns()}"
    job = start_wordcount(cluster, "/restart/input.txt", target, maps=MAPS, options=OPTIONS)
    until(lambda: metric(stack, "quicksilver_proxy_live_containers") > 0, 60, "the job got no container")
    first = stack.kill("proxy")
    until(lambda: stack.pid("proxy") not in (None, first), 10, "it was not started again")
    second = stack.pid("proxy")
    assert second is not None
    os.kill(second, signal.SIGKILL)
    assert job.wait(timeout_s=240).failed_attempts == 0
    assert read_counts(cluster, target) == count_words(TEXT)
