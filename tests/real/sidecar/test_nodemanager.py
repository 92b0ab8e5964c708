"""A real NodeManager behind the sidecar, with real MapReduce jobs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quicksilver.common.http.rest_client import rest_session
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.ports import free_base_port
from tests.real.relays import relaying
from tests.real.sidecar.processes import Announcer, TrueEnds, proxy, sidecar_process
from tests.sidecar.fakes import FakeProxy

PLACES = 4
"""Containers of 512 MB on a node of 2048."""
_STARTED = re.compile(r"Start request for (container_\w+) by")
_OVER = re.compile(
    r"Container (container_\w+) transitioned from \w+ to (?:EXITED_WITH_|CONTAINER_CLEANEDUP_AFTER_KILL|DONE)"
)
pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(600)]
"""`make test` has held starts and kills behind a proxy: tests/real/test_jobs.py and test_promotion.py."""


@dataclass
class Real:
    """One node with its sidecar."""

    cluster: Cluster
    folder: Path
    url: str

    def settings(self, proxy_url: str, **more: object) -> str:
        listen = self.url.removeprefix("http://")
        fields = {"rest_listen": listen, "proxy_url": proxy_url, "reserve_mb": 0, "state_dir": self.folder} | more
        return "".join(f"  {name}: {value}\n" for name, value in fields.items())

    @property
    def conf_dir(self) -> Path:
        return self.cluster.node_conf_dirs[0]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    folder = tmp_path_factory.mktemp("sidecar")
    anywhere = {"yarn.resourcemanager.opportunistic-container-allocation.nodes-used": "10"}  # nobody steers here
    spec = ClusterSpec(workdir=folder / "cluster", base_port=free_base_port(1), nodes=1, yarn_only=True)
    cluster = Cluster(spec.model_copy(update={"extra_site": {"yarn": anywhere}}))
    cluster.start()
    rest = f"http://{spec.node_addresses[0].host}:{spec.base_port + 99}"
    try:
        with relaying([(spec.scheduler, spec.moved_scheduler)]):
            yield Real(cluster, folder, rest)
    finally:
        cluster.stop()


@pytest.fixture
def undisturbed(one_node: Cluster, tmp_path: Path) -> Iterator[Real]:
    """The session's node, which tests that run alone share."""
    spec = one_node.spec
    with relaying([(spec.scheduler, spec.moved_scheduler)]):
        yield Real(one_node, tmp_path, f"http://{spec.node_addresses[0].host}:{spec.base_port + 99}")


def eventually(what: Callable[[], bool], within_s: float = 60.0) -> bool:
    end_s = time.monotonic() + within_s
    while not what():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    return True


def ended(fake: FakeProxy) -> dict[str, float]:
    return {event.container_id: event.at_s for event in fake.events if event.kind in ("ended", "killed")}


@pytest.mark.alone
def test_a_plain_job_passes_and_ends_are_seen_by_its_processes(undisturbed: Real) -> None:
    real = undisturbed
    with proxy() as (fake, proxy_url):
        ends = TrueEnds(real.cluster.local_dir(0))
        try:
            with sidecar_process(real.conf_dir, real.folder, real.url, real.settings(proxy_url, reconcile_s=3600)):
                real.cluster.hadoop("examples", "pi", "4", "10", timeout_s=240)
                containers = {event.container_id for event in fake.events if event.kind == "started"}
                assert len(containers) == 6  # the application master, 4 maps, 1 reduce
                assert eventually(lambda: containers == set(ended(fake)) == set(ends.at_s)), (ended(fake), ends.at_s)
        finally:
            ends.close()
        assert {event.kind for event in fake.events} == {"started", "ended"}
        delays_ms = sorted(round((ended(fake)[one] - ends.at_s[one]) * 1000, 1) for one in containers)
        print(f"\nends noticed, ms behind the process's end (by /proc every 2 ms): {delays_ms}")


def test_opportunistic_maps_are_held_started_late_and_succeed(real: Real) -> None:
    settings: dict[str, object] = {"announce_wait_s": 10, "memory_mb": 2048, "vcores": 8}
    with proxy() as (fake, proxy_url):
        options = [
            "-Dmapreduce.job.num-opportunistic-maps-percent=100",
            "-Dmapreduce.job.reduce.slowstart.completedmaps=1",
        ]
        with sidecar_process(real.conf_dir, real.folder, real.url, real.settings(proxy_url, **settings)):
            announcer = Announcer(real.url)
            try:
                real.cluster.hadoop("examples", "pi", *options, "6", "10", timeout_s=300)
            finally:
                announcer.close()
            assert len(announcer.announced) >= 6
            kinds = {one: fake.kinds(one) for one in announcer.announced}
            assert all(kind == ["held", "started", "ended"] for kind in kinds.values()), kinds
            waited_s = sorted(
                round(e.waited_s, 2) for e in fake.events if e.kind == "started" and kinds.get(e.container_id)
            )
            print(f"\nheld starts, seconds waited: {waited_s}")
            assert waited_s[-1] > 1  # 2048 MB hold the application master and 3 maps
            assert max(report.queue_length for report in fake.reports) >= 2
            most = max(report.used_g_mb + report.used_q_mb for report in fake.reports)
            assert most <= 2048
            with rest_session() as session:
                assert session.get(f"{real.url}/v1/node", timeout=5).json()["limits"] == []


def test_guaranteed_reduce_kills_the_newest_map_and_the_job_succeeds(real: Real) -> None:
    settings: dict[str, object] = {"announce_wait_s": 10, "memory_mb": 2048, "vcores": 8}
    with proxy() as (fake, proxy_url):
        options = [
            "-Dmapreduce.job.num-opportunistic-maps-percent=100",
            "-Dmapreduce.job.reduce.slowstart.completedmaps=0",
        ]
        with sidecar_process(real.conf_dir, real.folder, real.url, real.settings(proxy_url, **settings)):
            announcer = Announcer(real.url)
            try:
                real.cluster.hadoop("examples", "pi", *options, "6", "10", timeout_s=300)
            finally:
                announcer.close()
            killed = [event for event in fake.events if event.kind == "killed"]
            assert killed, [(event.kind, event.container_id) for event in fake.events]
            guaranteed = killed[0].reason.removeprefix("makes room for ")
            started = next(e for e in fake.events if e.container_id == guaranteed and e.kind == "started")
            print(f"\n{killed[0].container_id} killed; the reduce started {started.at_s - killed[0].at_s:.3f} s later")
            nodemanager = real.cluster.log("nodemanager-node1").read_text()
            assert f"Container {killed[0].container_id} transitioned from CONTAINER_CLEANEDUP_AFTER_KILL" in nodemanager
            before = nodemanager[: nodemanager.index(f"Start request for {guaranteed} ")]
            alive = set(_STARTED.findall(before)) - set(_OVER.findall(before))
            assert len(alive) < PLACES, "it had its room before it came"
