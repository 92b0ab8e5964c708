"""Hosts of two networks: daemons bind to all interfaces, and masters know all names by the second network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quicksilver_lab.bench.sleep_job import job
from quicksilver_lab.cluster.hosts.host_cluster import HostCluster, HostDaemons, running_on_hosts
from quicksilver_lab.cluster.hosts.network_spec import NetworkSpec
from tests.real.hosts.worlds import CORES, MARKS, host_daemons, host_spec, sidecar_counts

pytestmark = [*MARKS, pytest.mark.alone]
NETWORK = NetworkSpec(nodes_per_rack=1)
EVERYWHERE = {"yarn.nodemanager.bind-host": "0.0.0.0", "yarn.resourcemanager.bind-host": "0.0.0.0"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostDaemons]:
    spec = host_spec(tmp_path_factory.mktemp("interfaces"), EVERYWHERE, network=NETWORK, nodes=len(NETWORK.nodes))
    settings = {"intercept": "nftables", "vcores": CORES}
    with running_on_hosts(spec) as cluster, host_daemons(cluster, sidecar=settings) as started:
        yield started


@pytest.fixture
def cluster(stack: HostDaemons) -> HostCluster:
    assert isinstance(stack.cluster, HostCluster)
    return stack.cluster


@contextmanager
def second_network(cluster: HostCluster, folder: Path) -> Iterator[None]:
    """Have the host `client` know all others by their second addresses for the time of a with block."""
    names = "".join(f"{host.second_address} {name}\n" for name, host in NETWORK.hosts.items())
    hosts_file = folder / "hosts"
    hosts_file.write_text(f"127.0.0.1 localhost\n{names}")
    cluster.hosts.run("client", "mount", "--bind", str(hosts_file), "/etc/hosts")
    try:
        yield
    finally:
        cluster.hosts.run("client", "umount", "/etc/hosts")


def ended(stack: HostDaemons) -> int:
    """Return how many containers the sidecars saw end."""
    return sidecar_counts(stack, "quicksilver_sidecar_container_events_total")['{kind="ended"}']


async def run_tasks(cluster: HostCluster, name: str, count: int) -> None:
    async with job(cluster, name) as application:
        application.ask(count, 1.0)
        await application.until_done(within_s=100)


@pytest.mark.parametrize("network", ["first", "second"])
def test_starts_come_to_the_sidecars(stack: HostDaemons, cluster: HostCluster, tmp_path: Path, network: str) -> None:
    before = ended(stack)
    if network == "first":
        asyncio.run(run_tasks(cluster, network, 9))
    else:
        with second_network(cluster, tmp_path):
            asyncio.run(run_tasks(cluster, network, 9))
    assert ended(stack) == before + 9
