"""Real jobs on twelve hosts in three racks: where their containers go, by rack, label and attribute."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from quicksilver_lab.bench.sleep_job import SleepTask, all_lives, job
from quicksilver_lab.cluster.hosts.host_cluster import HostCluster, HostDaemons, running_on_hosts
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Clients
from quicksilver_lab.workloads.distributed_shell import shell_arguments
from quicksilver_lab.workloads.faults import checks
from tests.real.hosts.worlds import CORES, MARKS, host_daemons, host_spec, rack_of, sidecar_counts, until

pytestmark = [*MARKS, pytest.mark.alone]
LABEL = "ssd"
LABELLED = ("node4", "node8")
WITH_ATTRIBUTE = ("node2", "node6")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostDaemons]:
    folder = tmp_path_factory.mktemp("racks")
    labels = {
        "yarn.node-labels.enabled": "true",
        "yarn.node-labels.fs-store.root-dir": f"file://{folder}/node-labels",
        "yarn.resourcemanager.placement-constraints.handler": "scheduler",
    }
    with running_on_hosts(host_spec(folder, labels)) as cluster, host_daemons(cluster) as started:
        yield started


@pytest.fixture
def cluster(stack: HostDaemons) -> HostCluster:
    assert isinstance(stack.cluster, HostCluster)
    return stack.cluster


def places(cluster: HostCluster, tasks: list[SleepTask]) -> list[str]:
    """Return the node on which each of these tasks ran at last."""
    lives = all_lives(cluster)
    return [lives[task.containers[-1]].node for task in tasks]


def racks(cluster: HostCluster, tasks: list[SleepTask]) -> Counter[str]:
    return Counter(rack_of(cluster, node) for node in places(cluster, tasks))


def kinds(stack: HostDaemons, app_id: str) -> Counter[str]:
    rows = stack.get(f"/v1/applications/{app_id}/containers?limit=1000")["items"]
    return Counter(row["kind"] for row in rows)


def test_the_proxy_knows_the_racks(stack: HostDaemons, cluster: HostCluster) -> None:
    seen = {node["id"]: node["rack"] for node in stack.get("/v1/nodes?limit=1000")["items"]}
    assert seen == {str(node.rpc): rack_of(cluster, node.name) for node in cluster.spec.node_addresses}


def test_queueables_go_to_the_rack_that_was_asked_for(stack: HostDaemons, cluster: HostCluster) -> None:
    """A rack has room for 8: of 12 that may go elsewhere 8 are in the rack, of those that may not all."""

    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
        async with job(cluster, "racks") as asked:
            strict = asked.ask(12, 2.0, priority=20, hosts=["/rack3"], strict=True)
            loose = asked.ask(8, 6.0, priority=21, hosts=["/rack2"])
            await asked.until_done()
            print(kinds(stack, asked.app_id))
            return strict, loose

    strict, loose = asyncio.run(run())
    print("strict", racks(cluster, strict), "loose", racks(cluster, loose))
    assert set(racks(cluster, strict)) == {"/rack3"}
    assert racks(cluster, loose)["/rack2"] >= 4 * CORES - 1


def test_queueables_go_to_the_host_that_was_asked_for(cluster: HostCluster) -> None:
    async def run() -> list[SleepTask]:
        async with job(cluster, "hosts") as asked:
            tasks = asked.ask(4, 2.0, hosts=["node6", "node7", "/rack2"])
            await asked.until_done()
            return tasks

    nodes = Counter(places(cluster, asyncio.run(run())))
    print(nodes)
    assert set(nodes) <= {"node6", "node7"}


def test_a_mapreduce_job_over_racks(stack: HostDaemons, cluster: HostCluster) -> None:
    done = cluster.hadoop("examples", "pi", "12", "100", timeout_s=240)
    counters = dict(re.findall(r"^\s+([\w ]+?) *=(\d+)$", done.stdout + done.stderr, re.MULTILINE))
    print({name: value for name, value in counters.items() if "map" in name or "reduce" in name})
    assert counters["Launched map tasks"] == counters["Shuffled Maps"] == "12"
    assert "Failed map tasks" not in counters
    print(sidecar_counts(stack, "quicksilver_sidecar_starts_total"))
    assert checks.launched_twice(checks.node_logs(cluster)) == []


def test_an_exclusive_partition_has_only_what_asks_for_it(stack: HostDaemons, cluster: HostCluster) -> None:
    cluster.hadoop("rmadmin", "-addToClusterNodeLabels", f"{LABEL}(exclusive=true)")
    cluster.hadoop("rmadmin", "-replaceLabelsOnNode", " ".join(f"{node}={LABEL}" for node in LABELLED))

    def labelled() -> bool:
        nodes = stack.get("/v1/nodes?limit=1000")["items"]
        return {node["id"].split(":")[0] for node in nodes if node["label"] == LABEL} == set(LABELLED)

    until("the proxy knows the labels", labelled)

    async def run() -> tuple[list[SleepTask], list[SleepTask]]:
        async with job(cluster, "labels") as asked:
            plain = asked.ask(24, 2.0, priority=20)
            inside = asked.ask(6, 2.0, priority=21, label=LABEL)
            await asked.until_done()
            print(kinds(stack, asked.app_id))
            return plain, inside

    plain, inside = asyncio.run(run())
    print("plain", Counter(places(cluster, plain)), "inside", Counter(places(cluster, inside)))
    assert not set(places(cluster, plain)) & set(LABELLED)
    assert set(places(cluster, inside)) <= set(LABELLED)


def test_constraints_by_node_attributes_are_left_to_yarn(stack: HostDaemons, cluster: HostCluster) -> None:
    """They come as SchedulingRequests, which pass unread: the containers are guaranteed, on the nodes named."""
    mapping = " ".join(f"{node}:disk=ssd" for node in WITH_ATTRIBUTE)
    cluster.hadoop("org.apache.hadoop.yarn.client.cli.NodeAttributesCLI", "-add", mapping)
    arguments = shell_arguments(cluster, "attributes", "GUARANTEED", 1, 2, "default")
    at = arguments.index("-num_containers")
    arguments[at : at + 2] = ["-placement_spec", "ssd(4),rm.yarn.io/disk=ssd"]
    with Clients() as started:
        client = started.add(clients.start(cluster, "attributes", "distributedshell", arguments))
        application = clients.application_id(client.wait(timeout_s=120))
    part = application.removeprefix("application_")
    masters = re.compile(r"_0*1$")
    nodes = [life.node for name, life in all_lives(cluster).items() if part in name and not masters.search(name)]
    print(nodes, kinds(stack, application))
    assert len(nodes) == 4
    assert set(nodes) <= set(WITH_ATTRIBUTE)
    assert not kinds(stack, application)["Q"]
