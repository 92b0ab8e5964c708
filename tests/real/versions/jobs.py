"""Jobs of the modules with versions of Hadoop: pi whose maps wait for a file, and what is restarted meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import requests

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.spec import ClusterSpec
from quicksilver_lab.compatibility import Disturbance
from quicksilver_lab.workloads.clients import Clients
from quicksilver_lab.workloads.mapreduce import JobResult, RunningJob, pi_estimate, start_pi
from quicksilver_lab.workloads.records import RecordsWatch, RecordTally
from tests.promise.conftest import CORES, EXTRA, promise_spec
from tests.promise.helpers import WITHIN_S, alive, at_node, behind, by_state, options, submitted, until

MAPS: Final = 3
ENDED_S: Final = 300.0
RESYNCED: Final = "resync of an application: registered"
RECOVERED: Final = "state recovered from the journal"


def spec_of(folder: Path, version: str, hadoop_of: Mapping[str, str] | None = None) -> ClusterSpec:
    """Return a cluster of one version, or of several, whose daemons recover from a kill."""
    vcores = 2 * (CORES + EXTRA)
    settings: dict[str, Any] = {"hadoop": version, "hadoop_of": dict(hadoop_of or {})}
    return promise_spec(folder, vcores=vcores, rm_recovery=True, nm_recovery=True, **settings)


def ran_pi(cluster: Cluster, name: str, maps: int) -> tuple[JobResult, RecordTally]:
    """Run pi to its end, check its result, and return it with the containers that YARN recorded."""
    with RecordsWatch(cluster) as watch:
        result = start_pi(cluster, name, maps, 1000, options()).wait(ENDED_S)
        tally = watch.tally(result.application_id)
    check(result, maps)
    print(f"{cluster.spec.hadoop} {name}: {result.wall_s:.1f} s, job {result.job_s:.1f} s, {tally}")
    return result, tally


def check(result: JobResult, maps: int) -> None:
    """Check that each map was done, and none failed."""
    assert (result.maps, result.failed_attempts) == (maps, 0), result
    assert abs(pi_estimate(result.text) - math.pi) < 0.1


@dataclass(frozen=True, slots=True)
class WaitingPi:
    """A job whose maps run, and wait for a file."""

    stack: LocalDaemons
    job: RunningJob
    gate: Path
    running: frozenset[str]
    """Its maps' containers, which must outlive what is restarted."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.stack.cluster

    @property
    def busy_node(self) -> str:
        """The name of a node where one of its maps runs."""
        for node in self.cluster.spec.node_addresses:
            if self.running & {row["container_id"] for row in at_node(self.stack, node)}:
                return node.name
        raise AssertionError(f"no sidecar has one of {sorted(self.running)}")

    def all_run_on(self) -> None:
        """Wait until each node is usable, and its sidecars show each map as running."""
        self.stack.wait(WITHIN_S)
        until("the maps that ran before", lambda: self.running <= alive(self.stack), seen=self.seen)

    def seen(self) -> object:
        """Return what there is, for messages."""
        try:
            return by_state(self.stack), self.stack.get("/v1/applications")["items"]
        except requests.RequestException as error:
            return error


def waiting_pi(stack: LocalDaemons, name: str, folder: Path, clients: Clients) -> WaitingPi:
    """Start pi, and return when all its maps run as queueable ones; clients: end it when the test fails.

    A NodeManager that is killed during a launch, before it has the program's process id, gives the container up.
    """
    gate = folder / f"gate-{name}"
    job = start_pi(stack.cluster, name, MAPS, 1000, options(behind(stack.cluster, "map", gate)))
    clients.add(job.client)
    app = until("an application", lambda: submitted(job.client))
    until("its maps", lambda: len(alive(stack, app)) == MAPS, seen=lambda: by_state(stack))
    running = frozenset(alive(stack, app))
    until("their programs", lambda: all(gate.with_name(f"{gate.name}.{container}").exists() for container in running))
    return WaitingPi(stack, job, gate, running)


def restarted_proxy(pi: WaitingPi) -> None:
    """Kill the proxy: the master registers with the next one."""
    before = logged(pi.stack, "proxy", RESYNCED)
    pid = pi.stack.kill("proxy")
    until("a new proxy", lambda: pi.stack.pid("proxy") not in (None, pid))
    until("a resync", lambda: logged(pi.stack, "proxy", RESYNCED) > before)


def restarted_sidecar(pi: WaitingPi) -> None:
    """Kill the sidecar of a node where a map runs: the next one finds it."""
    name = pi.busy_node
    before = logged(pi.stack, name, RECOVERED)
    pi.stack.kill(name)
    until("a journal with which the next sidecar goes on", lambda: logged(pi.stack, name, RECOVERED) > before)


def restarted_nm(pi: WaitingPi) -> None:
    """Kill the NodeManager of a node where a map runs, and start it again."""
    name = f"nodemanager-{pi.busy_node}"
    pi.cluster.kill(name)
    pi.cluster.restart(name)


def restarted_rm(pi: WaitingPi) -> None:
    """Kill the ResourceManager: the master registers with the next one."""
    pi.cluster.kill("resourcemanager")
    until("a proxy that misses it", lambda: "cannot be reached" in str(pi.stack.get("/v1/health")["problems"]))
    pi.cluster.restart("resourcemanager")


RESTARTS: Final[Mapping[Disturbance, Callable[[WaitingPi], None]]] = {
    Disturbance.PROXY: restarted_proxy,
    Disturbance.SIDECAR: restarted_sidecar,
    Disturbance.NM: restarted_nm,
    Disturbance.RM: restarted_rm,
}


def outlived(
    stack: LocalDaemons, name: str, folder: Path, disturb: Callable[[WaitingPi], object], *, own: bool = False
) -> None:
    """Check that a job goes on when something is restarted: its maps run on, and none is done twice.

    own: whether the proxy grants its containers itself.
    """
    with RecordsWatch(stack.cluster) as watch, Clients() as clients:
        pi = waiting_pi(stack, name, folder, clients)
        disturb(pi)
        pi.all_run_on()
        pi.gate.touch()
        result = pi.job.wait(ENDED_S)
        tally = watch.tally(result.application_id)
    check(result, MAPS)
    assert result.killed_attempts == 0, result
    assert (tally.nm_opportunistic if own else tally.rm_opportunistic) >= MAPS, tally
    print(f"{stack.cluster.spec.hadoop} {name}: {result.wall_s:.1f} s, {tally}")


def logged(stack: LocalDaemons, name: str, text: str) -> int:
    """Return how often a daemon's log says something."""
    return stack.log(name).read_text(errors="replace").count(text)
