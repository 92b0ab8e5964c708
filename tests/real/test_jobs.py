"""Unmodified MapReduce jobs through the proxy and the sidecars, on a real cluster."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.spec import HostPort
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    JobResult,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from quicksilver_lab.workloads.records import RecordsWatch
from quicksilver_lab.workloads.run_records import held_starts, measure

pytestmark = pytest.mark.hadoop
TEXT = make_text(2000)
OPTIONS = JobOptions(properties={"mapreduce.map.speculative": "false"})
MAPS_Q = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}


@pytest.fixture(scope="module")
def cluster(overlay_cluster: Cluster) -> Cluster:
    put_text(overlay_cluster, "/whole/input.txt", TEXT)
    return overlay_cluster


@pytest.fixture(scope="module")
def stack(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[LocalDaemons]:
    made = LocalDaemons(cluster, **getattr(request, "param", {"policies": MAPS_Q}))
    made.start()
    try:
        yield made
    finally:
        made.stop()


def wordcount(cluster: Cluster, name: str, maps: int = 4) -> JobResult:
    target = f"/whole/{name}-{time.time_ns()}"
    result = start_wordcount(cluster, "/whole/input.txt", target, maps=maps, options=OPTIONS).wait(timeout_s=240)
    assert read_counts(cluster, target) == count_words(TEXT)
    return result


def decisions(stack: LocalDaemons, job: JobResult) -> list[dict[str, Any]]:
    """Return the job's decisions, once the store has all of them: maps, the reduce."""
    deadline = time.monotonic() + 10
    while True:
        found: list[dict[str, Any]] = stack.get(f"/v1/decisions?app={job.application_id}&limit=1000")["items"]
        if len(found) > job.maps or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def metric(stack: LocalDaemons, name: str) -> float:
    text = requests.get(f"{stack.url}/metrics", timeout=10).text
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def rubbish(address: HostPort, data: bytes) -> bytes:
    """Send bytes that are no Hadoop RPC; returns what comes back until the other side closes."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(data)
        answer = b""
        while chunk := connection.recv(4096):
            answer += chunk
        return answer


def test_a_proxy_without_a_resourcemanager_says_so_and_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    unused = cluster.spec.master(39)  # before the others, whose proxy has the same address
    made = LocalDaemons(cluster, MAPS_Q, proxy={"upstream": str(unused)})
    made.folder = tmp_path
    made.start_proxy()
    try:
        deadline = time.monotonic() + 30
        problems: list[str] = []
        while not problems and time.monotonic() < deadline:
            try:
                problems = [one for one in made.get("/v1/health")["problems"] if "cannot be reached" in one]
            except requests.ConnectionError:
                time.sleep(0.2)
        assert len(problems) == 1
        with pytest.raises(ConnectionRefusedError):  # as the ResourceManager itself would
            rubbish(cluster.spec.scheduler, b"hrpc\x09\x00\xdf")
        assert f"upstream={unused}" in made.log("proxy").read_text()
    finally:
        made.stop()


def test_maps_are_queueable_and_the_reduce_is_guaranteed(cluster: Cluster, stack: LocalDaemons) -> None:
    with RecordsWatch(cluster) as watch:
        job = wordcount(cluster, "routed")
    made = decisions(stack, job)
    assert {(d["kind"], d["priority"]) for d in made} == {("Q", 20), ("G", 10)}
    assert all(d["node_id"] == d["wanted_node"] for d in made if d["kind"] == "Q")
    way = measure(cluster, "quicksilver", job, watch, "")
    assert way.disagreeing == ()
    assert way.rm_opportunistic == job.maps == way.nm_opportunistic
    held = held_starts(stack, way)
    assert held.count == held.confirmed == job.maps

    queueable = next(d["container_id"] for d in made if d["kind"] == "Q")
    told = CliRunner().invoke(cli, ["explain", queueable, "--json", "--url", stack.url])
    assert told.exit_code == 0, told.output
    explained = json.loads(told.output)
    assert explained["decision"]["scores"]
    assert [e["kind"] for e in explained["events"]] == ["held", "started", "ended"]
    listed = json.loads(CliRunner().invoke(cli, ["node", "list", "--json", "--url", stack.url]).output)
    assert {node["id"] for node in listed} == {str(n.rpc) for n in cluster.spec.node_addresses}


def test_garbage_on_both_ports_disturbs_nothing(cluster: Cluster, stack: LocalDaemons) -> None:
    job = start_wordcount(cluster, "/whole/input.txt", f"/whole/garbage-{time.time_ns()}", maps=2, options=OPTIONS)
    node = cluster.spec.node_addresses[0]
    huge = b"hrpc\x09\x00\xdf" + (2**31 - 1).to_bytes(4, "big")
    for address in (cluster.spec.scheduler, node.rpc):
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"hrpc\x08\x00\xdf", huge, bytes(range(256)) * 16):
            assert rubbish(address, data) == b""
    half = socket.create_connection(cluster.spec.scheduler)
    half.sendall(b"hrpc\x09\x00\xdf\x00\x00")
    try:
        assert job.wait(timeout_s=240).failed_attempts == 0
    finally:
        half.close()
    assert metric(stack, "quicksilver_proxy_protocol_errors_total") >= 4
    log = stack.log("proxy").read_text()
    assert "looks like HTTP" in log
    assert log.count("malformed bytes") == 1  # the others within a minute are counted


@pytest.mark.parametrize(
    "stack", [{"policies": {**MAPS_Q, "mode": "shadow"}}, {"policies": {**MAPS_Q, "mode": "bypass"}}], indirect=True
)
def test_shadow_and_bypass_change_nothing(cluster: Cluster, stack: LocalDaemons) -> None:
    with RecordsWatch(cluster) as watch:
        job = wordcount(cluster, "unchanged", maps=2)
    assert watch.tally(job.application_id).rm_opportunistic == 0
    made = decisions(stack, job)
    shadow = stack.policies["mode"] == "shadow"
    assert {d["kind"] for d in made} == {"G"}
    assert {d["shadow"] for d in made if d["priority"] == 20} == ({"Q"} if shadow else {None})
