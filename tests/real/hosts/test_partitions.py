"""Parts of the network fail under jobs on twelve hosts: how long until all goes on, and that nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import requests

from quicksilver_lab.cluster.hosts.host_cluster import HostCluster, HostDaemons, running_on_hosts
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Client, Clients
from quicksilver_lab.workloads.distributed_shell import reported, start_shell
from quicksilver_lab.workloads.faults import checks
from quicksilver_lab.workloads.nm_log import read_lives
from quicksilver_lab.workloads.rest import get_json
from tests.real.failures.restarts import states
from tests.real.hosts.worlds import MARKS, host_daemons, host_spec, until

pytestmark = [*MARKS, pytest.mark.alone]
TASKS, TASK_S = 48, 5
"""Of each job: two waves and more on 24 cores."""
CUT_S: Final = 20.0
EXPIRY_S: Final = 12
"""Until the ResourceManager takes a silent node for lost; Hadoop's default is 600."""
_TABLE: Final = "partition"
PROXY_REST, SCHEDULER, RM_WEB, SIDECAR_REST = 8090, 8035, 8088, 8105


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostDaemons]:
    expiry = {"yarn.nm.liveness-monitor.expiry-interval-ms": str(EXPIRY_S * 1000)}
    spec = host_spec(tmp_path_factory.mktemp("partitions"), expiry)
    with running_on_hosts(spec) as cluster, host_daemons(cluster) as started:
        yield started


@pytest.fixture
def cluster(stack: HostDaemons) -> HostCluster:
    assert isinstance(stack.cluster, HostCluster)
    return stack.cluster


@contextmanager
def dropped(cluster: HostCluster, host: str, *ports: int) -> Iterator[None]:
    """Have a host lose all packets of these TCP ports, either way, for the time of a with block."""
    numbers = ", ".join(map(str, ports))
    chains = "".join(
        f"chain {hook} {{ type filter hook {hook} priority 0; "
        f"tcp dport {{ {numbers} }} drop; tcp sport {{ {numbers} }} drop; }}\n"
        for hook in ("input", "output")
    )
    cluster.hosts.run(host, "nft", "-f", "-", text=f"table inet {_TABLE} {{\n{chains}}}\n")
    try:
        yield
    finally:
        cluster.hosts.run(host, "nft", "delete", "table", "inet", _TABLE)


@contextmanager
def rack_cut(cluster: HostCluster, rack: int) -> Iterator[None]:
    """Have a rack be reached from no other one for the time of a with block."""
    switch = f"rack{rack}"
    cluster.hosts.run(switch, "ip", "link", "set", "wan", "down")
    try:
        yield
    finally:
        lines = ["link set wan up", *(f"route replace 10.{net}.0.0/16 dev wan" for net in (77, 78))]
        cluster.hosts.run(switch, "ip", "-batch", "-", text="\n".join(lines) + "\n")


@dataclass
class Outcome:
    """What a job under a partition came to."""

    what: str
    job_s: float = 0.0
    recovered_s: float = 0.0
    """From the end of the partition until the proxy reports all nodes usable."""
    yarn_s: float = 0.0
    """The same until the ResourceManager reports all nodes as running."""
    next_start_s: float = 0.0
    """From the end of the partition until the next container of the job runs."""
    repeats: int = 0
    """Containers of the job beyond one for each task and each attempt of its master."""
    during: dict[str, Any] = field(default_factory=dict)
    attempts: int = 0
    """Of the master."""

    def __str__(self) -> str:
        after = (
            f"nodes usable in {self.recovered_s:.1f} s (running in YARN: {self.yarn_s:.1f} s), "
            f"next start in {self.next_start_s:.1f} s"
        )
        jobs = f"{self.attempts} masters, {self.repeats} repeats; meanwhile {self.during}"
        return f"{self.what}: job {self.job_s:.0f} s; after its end {after}; {jobs}"


def usable(stack: HostDaemons) -> int:
    return sum(node["usable"] for node in stack.get("/v1/nodes?limit=1000")["items"])


def seen(stack: HostDaemons) -> dict[str, Any]:
    """Return what the proxy and the ResourceManager say of the nodes now."""
    try:
        nodes = get_json(f"{stack.cluster.rm_rest}/ws/v1/cluster/nodes")["nodes"]["node"]
        states = sorted({node["state"] for node in nodes})
    except requests.RequestException as error:
        states = [type(error).__name__]
    try:
        return {"usable": usable(stack), "states": states}
    except requests.RequestException as error:
        return {"usable": type(error).__name__, "states": states}


@contextmanager
def shells(cluster: HostCluster) -> Iterator[Client]:
    with Clients() as started:
        yield started.add(start_shell(cluster, "GUARANTEED", TASKS, sleep_s=TASK_S))


def running(stack: HostDaemons) -> bool:
    """Return whether the job's queueable containers run."""
    return states(stack, stack.cluster).get("Q running", 0) >= 12


def finish(stack: HostDaemons, cluster: HostCluster, client: Client, outcome: Outcome, all_ran: bool = True) -> Outcome:
    """Wait for the job to succeed: nothing is left, no container was launched twice, and all tasks ran (`all_ran`)."""
    ended_s, over_s = time.monotonic(), time.time()
    outcome.yarn_s, outcome.recovered_s = until(
        "all nodes usable again", RecoveryTimes(stack, ended_s).both, within_s=240.0
    )
    application = clients.application_id(client.wait(timeout_s=240))
    outcome.job_s = client.wall_s
    url = f"{cluster.rm_rest}/ws/v1/cluster/apps/{application}"
    app = get_json(url)["app"]
    outcome.attempts = len(get_json(f"{url}/appattempts")["appAttempts"]["appAttempt"])
    starts = sorted(run_s for run_s in start_times(cluster, application) if run_s)
    outcome.next_start_s = next((run_s - over_s for run_s in starts if run_s > over_s), float("inf"))
    outcome.repeats = len(starts) - TASKS - outcome.attempts
    print(outcome)
    assert (app["state"], app["finalStatus"]) == ("FINISHED", "SUCCEEDED")
    if all_ran:
        assert len(reported(cluster, application, TASKS)) >= TASKS
    assert checks.launched_twice(checks.node_logs(cluster)) == []
    left = checks.leftovers(cluster, stack, groups="no-such-group")
    assert not left, "\n".join(left)
    for log in sorted(Path(stack.folder).glob("*.log")):
        assert "Traceback" not in log.read_text(errors="replace"), log
    return outcome


class RecoveryTimes:
    """When all nodes were running in YARN, and usable for the proxy, in seconds since a time."""

    def __init__(self, stack: HostDaemons, since_s: float) -> None:
        self._stack, self._since_s = stack, since_s
        self._yarn_s = self._usable_s = 0.0

    def both(self) -> tuple[float, float] | None:
        """Look; return both times once both are there."""
        count = len(self._stack.cluster.spec.node_addresses)
        if not self._yarn_s and running_nodes(self._stack) == count:
            self._yarn_s = time.monotonic() - self._since_s
        if not self._usable_s and usable(self._stack) == count:
            self._usable_s = time.monotonic() - self._since_s
        return (self._yarn_s, self._usable_s) if self._yarn_s and self._usable_s else None


def running_nodes(stack: HostDaemons) -> int:
    nodes = get_json(f"{stack.cluster.rm_rest}/ws/v1/cluster/nodes")["nodes"]["node"]
    return sum(node["state"] == "RUNNING" for node in nodes)


def start_times(cluster: HostCluster, application: str) -> list[float | None]:
    """Return when each container of an application began to run, by the NodeManagers' logs; Unix seconds."""
    nodes = cluster.spec.node_addresses
    lives = read_lives((node.name, cluster.log(f"nodemanager-{node.name}")) for node in nodes)
    part = application.removeprefix("application_")
    return [life.running_s for name, life in lives.items() if part in name]


def test_without_a_fault(stack: HostDaemons, cluster: HostCluster) -> None:
    with shells(cluster) as client:
        until("queueables run", lambda: running(stack))
        outcome = finish(stack, cluster, client, Outcome("no fault"))
    assert outcome.attempts == 1


def test_the_proxy_is_cut_off_from_its_resource_manager(stack: HostDaemons, cluster: HostCluster) -> None:
    with shells(cluster) as client:
        until("queueables run", lambda: running(stack))
        outcome = Outcome("proxy from ResourceManager")
        with dropped(cluster, "rm1", SCHEDULER, RM_WEB):
            time.sleep(CUT_S)
            outcome.during = {"usable": usable(stack)}
        finish(stack, cluster, client, outcome)
    assert outcome.attempts == 1


def test_the_sidecars_are_cut_off_from_the_proxy(stack: HostDaemons, cluster: HostCluster) -> None:
    with shells(cluster) as client:
        until("queueables run", lambda: running(stack))
        outcome = Outcome("sidecars from proxy")
        with dropped(cluster, "rm1", SIDECAR_REST), nodes_cannot_report(cluster):
            time.sleep(CUT_S)
            outcome.during = seen(stack)
        finish(stack, cluster, client, outcome)
    assert outcome.attempts == 1


@contextmanager
def nodes_cannot_report(cluster: HostCluster) -> Iterator[None]:
    """Have the proxy's REST be reached from no rack's network but by the client, who looks at it."""
    client = cluster.hosts.run("client", "hostname", "-I").split()[0]
    rule = f"tcp dport {PROXY_REST} ip saddr != {client} drop"
    chain = f"chain input {{ type filter hook input priority 0; {rule}; }}"
    cluster.hosts.run("rm1", "nft", "-f", "-", text=f"table inet reports {{\n{chain}\n}}\n")
    try:
        yield
    finally:
        cluster.hosts.run("rm1", "nft", "delete", "table", "inet", "reports")


@pytest.mark.parametrize("cut_s", [EXPIRY_S / 2, 3.0 * EXPIRY_S], ids=["shortly", "until it is lost"])
def test_a_rack_is_cut_off(stack: HostDaemons, cluster: HostCluster, cut_s: float) -> None:
    with shells(cluster) as client:
        until("queueables run", lambda: running(stack))
        outcome = Outcome(f"rack 3 for {cut_s:g} s")
        with rack_cut(cluster, 3):
            time.sleep(cut_s)
            outcome.during = seen(stack)
        finish(stack, cluster, client, outcome)
