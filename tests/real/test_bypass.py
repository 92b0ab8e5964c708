"""Bypass while jobs run: by order and by the settings, on and off again in the middle; nothing is stranded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    JobResult,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)

pytestmark = pytest.mark.hadoop
TEXT = make_text(2000)
OPTIONS = JobOptions(properties={"mapreduce.map.speculative": "false"})
MAPS_Q: dict[str, Any] = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}
NARROW = {"vcores": 2, "queue_max_length": 2}
"""Two run at a node, an application master may be one of them, and two wait there; more are shed, and wanted again."""
MAPS = 12


@pytest.fixture(scope="module")
def cluster(overlay_cluster: Cluster) -> Cluster:
    put_text(overlay_cluster, "/whole/input.txt", TEXT)
    return overlay_cluster


@pytest.fixture
def stack(cluster: Cluster) -> Iterator[LocalDaemons]:
    made = LocalDaemons(cluster, policies=MAPS_Q, sidecar=NARROW)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@dataclass
class Turns:
    """Called while a job runs: turns bypass on when Qs wait, and off again when none waits any more."""

    stack: LocalDaemons
    turn: Callable[[bool], None]
    on_s: float | None = None
    off_s: float | None = None
    waited: int = 0
    notices: list[str] = field(default_factory=list)

    def __call__(self) -> None:
        if self.off_s is not None:
            return
        waiting = sum(node["queue_length"] for node in self.stack.get("/v1/nodes")["items"])
        if self.on_s is None and waiting >= 3:
            self.waited = waiting
            self.turn(True)
            self.on_s = time.time()
            self.notices = self.stack.get("/v1/health")["notices"]
        elif self.on_s is not None and not waiting and time.time() > self.on_s + 5:
            self.off_s = time.time()
            self.turn(False)


def ordered(stack: LocalDaemons) -> Callable[[bool], None]:
    def turn(on: bool) -> None:
        done = CliRunner().invoke(cli, ["proxy", "bypass", "on" if on else "auto", "--url", stack.url])
        assert done.exit_code == 0, done.output

    return turn


def by_settings(stack: LocalDaemons) -> Callable[[bool], None]:
    def turn(on: bool) -> None:
        file: Path = stack.folder / "proxy.yaml"
        text = file.read_text()
        assert text.count("policies:\n") == 1
        mode = "policies:\n  mode: bypass\n"
        file.write_text(text.replace("policies:\n", mode) if on else text.replace(mode, "policies:\n"))
        done = CliRunner().invoke(cli, ["policy", "reload", "--url", stack.url])
        assert done.exit_code == 0, done.output

    return turn


def wordcount(cluster: Cluster, maps: int, each: Callable[[], None] = lambda: None) -> JobResult:
    target = f"/whole/bypass-{time.time_ns()}"
    job = start_wordcount(cluster, "/whole/input.txt", target, maps=maps, options=OPTIONS).wait(240, each)
    assert read_counts(cluster, target) == count_words(TEXT)
    return job


def granted(stack: LocalDaemons, job: JobResult) -> list[dict[str, Any]]:
    """Return the decisions about a job, once the store has those of all maps and of the reduce."""
    end_s = time.monotonic() + 60
    while True:
        found: list[dict[str, Any]] = stack.get(f"/v1/decisions?app={job.application_id}&limit=1000")["items"]
        if len(found) > job.maps:
            return found
        assert time.monotonic() < end_s, f"of {job.maps} maps and a reduce: {found}"
        time.sleep(0.2)


@pytest.mark.parametrize("how", [ordered, pytest.param(by_settings, marks=pytest.mark.long)])
def test_bypass_in_the_middle_of_a_job(
    cluster: Cluster, stack: LocalDaemons, how: Callable[[LocalDaemons], Callable[[bool], None]]
) -> None:
    turns = Turns(stack, how(stack))
    job = wordcount(cluster, MAPS, turns)
    assert turns.on_s is not None and turns.waited >= 3
    assert job.failed_attempts == 0
    made = granted(stack, job)
    before = [d for d in made if d["granted_s"] <= turns.on_s]
    meanwhile = [d for d in made if turns.on_s + 0.5 < d["granted_s"] < (turns.off_s or time.time())]
    assert any(d["kind"] == "Q" for d in before)
    assert meanwhile and {d["kind"] for d in meanwhile} == {"G"}, "what was wanted came as guaranteed"
    if how is ordered:
        assert any(notice.startswith("bypass (bypass): ordered") for notice in turns.notices)
        text = requests.get(f"{stack.url}/metrics", timeout=10).text
        assert 'quicksilver_proxy_bypass{reason="order"}' in text
    if turns.off_s is None:
        turns.turn(False)
    again = wordcount(cluster, 2)
    assert {d["kind"] for d in granted(stack, again) if d["priority"] == 20} == {"Q"}, "and it is as before"
    assert again.failed_attempts == 0
