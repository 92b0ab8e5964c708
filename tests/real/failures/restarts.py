"""Jobs with held, running and waiting queueable containers, and a ResourceManager that dies under them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import RmAddresses
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Client, Clients
from quicksilver_lab.workloads.distributed_shell import reported, start_shell
from quicksilver_lab.workloads.faults import checks
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    RunningJob,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)

SHELLS, MAPS = 8, 8
TEXT = make_text(2000)
ALL_MAPS_Q = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}


@contextmanager
def two_nodes(workdir: Path, **settings: Any) -> Iterator[Cluster]:
    """Run a cluster of two nodes that clients reach by the overlay; settings: further ones of `ClusterSpec`."""
    spec = ClusterSpec(
        workdir=workdir,
        base_port=free_base_port(),
        nodes=2,
        node_memory_mb=2560,
        client_overlay=True,
        **settings,
    )
    cluster = Cluster(spec)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def queueable_maps(cluster: Cluster) -> Iterator[LocalDaemons]:
    """Run proxies and sidecars under which all maps and shells are queueable."""
    stack = LocalDaemons(cluster, ALL_MAPS_Q)
    stack.start()
    try:
        yield stack
    finally:
        stack.stop()


def poll(what: str, is_so: Callable[[], bool], within_s: float) -> None:
    """Wait until `is_so()` is true; raises AssertionError after `within_s`."""
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {within_s:g} s"
        time.sleep(0.1)


def states(stack: LocalDaemons, cluster: Cluster) -> dict[str, int]:
    """Count the containers at all sidecars by kind and state."""
    counts: dict[str, int] = {}
    for node in cluster.spec.node_addresses:
        for container in requests.get(f"{stack.sidecar_rest(node).url}/v1/containers", timeout=5).json():
            key = f"{container['kind']} {container['state']}"
            counts[key] = counts.get(key, 0) + 1
    return counts


@dataclass
class Jobs:
    """A MapReduce job and a distributed shell that run side by side."""

    cluster: Cluster
    job: RunningJob
    shell: Client
    target: str

    def finish(self) -> None:
        """Wait for both: all words counted, no attempt failed, every shell container ran."""
        result = self.job.wait(timeout_s=150)
        assert read_counts(self.cluster, self.target) == count_words(TEXT)
        assert result.failed_attempts == 0
        application = clients.application_id(self.shell.wait(timeout_s=150))
        assert len(reported(self.cluster, application, SHELLS)) >= SHELLS


@contextmanager
def jobs(cluster: Cluster, stack: LocalDaemons, name: str) -> Iterator[Jobs]:
    """Start both, and go on when queueable containers run and wait."""
    source, target = "/restarts/input.txt", f"/restarts/{name}-{time.time_ns()}"
    put_text(cluster, source, TEXT)
    options = JobOptions(properties={"mapreduce.map.speculative": "false"})
    with Clients() as started:
        shell = started.add(start_shell(cluster, "GUARANTEED", SHELLS, sleep_s=7))
        job = start_wordcount(cluster, source, target, maps=MAPS, options=options)
        started.add(job.client)

        def under_way() -> bool:
            counts = states(stack, cluster)
            return counts.get("Q running", 0) >= 2 and counts.get("Q waiting", 0) >= 2

        poll("queueable containers that run and that wait", under_way, 90)
        yield Jobs(cluster, job, shell, target)


def nothing_left(cluster: Cluster, stack: LocalDaemons) -> None:
    """Check that neither YARN nor proxy nor sidecars hold anything, and that nothing was started twice."""
    left = checks.leftovers(cluster, stack, groups="no-such-group")
    assert not left, "\n".join(left)
    assert checks.launched_twice(checks.node_logs(cluster)) == []


class Recovery:
    """Measures how long application masters went without an answer: from now to the next registration or grant."""

    def __init__(self, stack: LocalDaemons, rms: tuple[RmAddresses, ...]) -> None:
        """Begin now, before the ResourceManager is killed."""
        self._urls = [stack.url_of(rm) for rm in rms]
        self._before = self._registered()
        self._since_s = time.monotonic()
        self.took_s: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _registered(self) -> float:
        total = 0.0
        for url in self._urls:
            try:
                text = requests.get(f"{url}/metrics", timeout=2).text
            except requests.RequestException:
                continue
            name = 'quicksilver_proxy_calls_total{method="registerApplicationMaster"}'
            total += sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))
        return total

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            new = int(self._registered() - self._before) - len(self.took_s)
            self.took_s += [time.monotonic() - self._since_s] * new

    def stop(self) -> list[float]:
        """Return the seconds after which each application master had registered anew."""
        self._over.set()
        self._thread.join()
        return self.took_s
