"""Each kind of daemon is killed under jobs whose containers run and wait: no task is lost, none is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.spec import NodeAddresses
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Client, Clients
from quicksilver_lab.workloads.distributed_shell import shell_arguments
from quicksilver_lab.workloads.mapreduce import RunningJob, count_words, put_text, read_counts, start_wordcount
from quicksilver_lab.workloads.records import GUARANTEED, RecordsWatch
from tests.promise.conftest import CORES, NODES
from tests.promise.helpers import TEXT, WITHIN_S, alive, at_node, behind, by_state, options, running, submitted, until

pytestmark = [pytest.mark.promise, pytest.mark.hadoop, pytest.mark.timeout(900)]
MAPS, SHELLS = 2, 9
"""More than there are places, and none ends before the gate opens: some wait all the time."""
ENDED_S = 480.0
"""From the start of a client to its end, all kills between."""
REGISTERED = 'quicksilver_proxy_calls_total{method="registerApplicationMaster"}'
RESYNCED = "resync of an application: registered"
RECOVERED = "state recovered from the journal"


@dataclass
class Story:
    """Two jobs whose tasks all wait for a file, and what the shell's tasks wrote."""

    stack: LocalDaemons
    job: RunningJob
    shell: Client
    gate: Path
    diary: Path
    """`begin` and `end` with the container, of each of the shell's tasks."""
    running: set[str] = field(default_factory=set)
    """Queueable containers that must outlive all that comes."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.stack.cluster

    def settle(self) -> None:
        """Wait until containers of both jobs run, others wait for a place, and nothing starts."""
        apps = [until("an application", lambda c=c: submitted(c)) for c in (self.job.client, self.shell)]

        def settled() -> bool:
            starting = by_state(self.stack).keys() - {"running", "shrunk", "waiting"}
            found = [alive(self.stack, app) for app in apps]
            waiting = {app["id"]: app["wanted_q"] for app in self.stack.get("/v1/applications")["items"]}
            all_there = all(found) and sum(map(len, found)) >= NODES * CORES - 2  # two masters
            return all_there and not starting and any(waiting.get(app) for app in apps)

        until("containers of both jobs that run, and some that wait", settled, seen=self.seen)
        self.running = alive(self.stack)

    def seen(self) -> object:
        """Return what there is, for messages."""
        try:
            return by_state(self.stack), self.stack.get("/v1/applications")["items"]
        except requests.RequestException as error:
            return error

    def all_run_on(self) -> None:
        """Wait until the sidecars show each container that ran before as running, and each node is usable."""
        self.stack.wait(WITHIN_S)

        def there() -> bool:
            return self.running <= alive(self.stack)

        until(f"running as before: {sorted(self.running)}", there, seen=self.seen)

    def count(self, name: str, text: str) -> int:
        """Return how often a daemon's log says something."""
        return self.stack.log(name).read_text(errors="replace").count(text)

    def killed(self, name: str) -> None:
        """Kill one of our processes and wait for the next one."""
        gone = self.stack.kill(name)
        until(f"a new process of {name}", lambda: self.stack.pid(name) not in (None, gone))

    def busiest(self, *but: NodeAddresses) -> NodeAddresses:
        """Return the node with the most running containers, of those not in `but`."""
        nodes = [node for node in self.cluster.spec.node_addresses if node not in but]
        return max(nodes, key=lambda node: len(self.on(node)))

    def on(self, node: NodeAddresses) -> set[str]:
        """Return the queueable containers that run at a node."""
        return {row["container_id"] for row in at_node(self.stack, node)} & self.running


@contextmanager
def two_jobs(cluster: Cluster, stack: LocalDaemons, folder: Path) -> Iterator[Story]:
    """Start a wordcount and a shell, and go on when they have settled."""
    gate, diary = folder / "gate", folder / "diary"
    command = f"echo begin $CONTAINER_ID >> {diary}; until [ -e {gate} ]; do sleep 0.3; done"
    command += f"; echo end $CONTAINER_ID >> {diary}; true"  # to whose output the shell leads the rest
    arguments = [*shell_arguments(cluster, "crashes", GUARANTEED, SHELLS, 0, "default")[:-1], command]
    put_text(cluster, "/crashes/input", TEXT)
    with Clients() as together:
        given = options(behind(cluster, "map", gate))
        job = start_wordcount(cluster, "/crashes/input", "/crashes/counted", maps=MAPS, options=given)
        together.add(job.client)

        def mapping() -> bool:
            app = submitted(job.client)
            return bool(app) and len(alive(stack, app)) == MAPS

        until("the maps that run, before the shell takes all other cores", mapping)
        shell = together.add(clients.start(cluster, "crashes", "distributedshell", arguments))
        story = Story(stack, job, shell, gate, diary)
        story.settle()
        yield story


def the_proxy(story: Story) -> None:
    """Kill the proxy: both masters register with the next one, and it knows their containers."""
    story.killed("proxy")
    until("a resync of both masters", lambda: story.count("proxy", RESYNCED) >= 2)


def a_sidecar(story: Story) -> NodeAddresses:
    """Kill the sidecar of a node with running containers: the next one finds them."""
    node = story.busiest()
    assert story.on(node), story.seen()
    story.killed(node.name)
    until(f"a journal that {node.name} goes on with", lambda: story.count(node.name, RECOVERED) == 1)
    return node


def a_nodemanager(story: Story, *but: NodeAddresses) -> None:
    """Kill a NodeManager with running containers: its node takes no queueables until it is back."""
    node = story.busiest(*but)
    assert story.on(node), story.seen()
    story.cluster.kill(f"nodemanager-{node.name}")
    until("a node that the proxy leaves out", lambda: not story.stack.get(f"/v1/nodes/{node.rpc}")["usable"])
    story.cluster.restart(f"nodemanager-{node.name}")


def the_resourcemanager(story: Story) -> None:
    """Kill the ResourceManager: both masters register with the next one."""
    before = registrations(story.stack)
    story.cluster.kill("resourcemanager")
    until("a proxy that misses it", lambda: "cannot be reached" in str(story.stack.get("/v1/health")["problems"]))
    assert story.running <= alive(story.stack), story.seen()
    story.cluster.restart("resourcemanager")
    until("both masters register anew", lambda: registrations(story.stack) >= before + 2)


def registrations(stack: LocalDaemons) -> int:
    """Return how often masters have registered with this process of the proxy."""
    text = requests.get(f"{stack.url}/metrics", timeout=30).text
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in text.splitlines() if line.startswith(REGISTERED))


def made_room(stack: LocalDaemons, container: str) -> None:
    """Check that a container that began and did not end made room for a guaranteed one, and that its master knows.

    What masters ask for before the nodes have registered with a new ResourceManager is guaranteed.
    """
    row = stack.get(f"/v1/containers/{container}")
    assert row["completion"]["exit_status"] == -100, row
    assert "make room" in row["completion"]["diagnostics"] or "makes room" in row["events"][-1]["reason"], row


def test_no_task_is_lost_or_done_twice(jobs_cluster: Cluster, tmp_path: Path) -> None:
    with running(jobs_cluster, {}, "crashes") as stack, RecordsWatch(jobs_cluster) as watch:
        with two_jobs(jobs_cluster, stack, tmp_path) as story:
            the_proxy(story)
            story.all_run_on()
            node = a_sidecar(story)
            story.all_run_on()
            a_nodemanager(story, node)
            story.all_run_on()
            the_resourcemanager(story)
            stack.wait(WITHIN_S)
            story.gate.touch()
            result = story.job.wait(ENDED_S)
            story.shell.wait(ENDED_S)
        assert read_counts(jobs_cluster, "/crashes/counted") == count_words(TEXT)
        assert result.failed_attempts == 0
        lines = [line.split() for line in story.diary.read_text().splitlines()]
        ended = sorted(container for word, container in lines if word == "end")
        assert len(ended) == len(set(ended)) == SHELLS, lines
        for container in sorted({container for _, container in lines} - set(ended)):
            made_room(stack, container)
        assert story.running <= watch.granted().opportunistic
