"""Racks, addresses and names of a network of hosts, and the cluster that lies on it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from quicksilver_lab.cluster.hosts.host_cluster import HostCluster, Hosts
from quicksilver_lab.cluster.hosts.host_spec import HostSpec, host_of
from quicksilver_lab.cluster.hosts.network_spec import NetworkSpec


def test_nodes_are_in_racks_and_names_stand_for_one_address() -> None:
    spec = NetworkSpec()
    assert [host.rack_name for host in spec.nodes] == ["/rack1"] * 4 + ["/rack2"] * 4 + ["/rack3"] * 4
    assert spec.hosts["node5"].address == "10.77.2.11"
    lines = spec.hosts_file().splitlines()
    assert lines[0] == "127.0.0.1 localhost"
    addresses = [line.split()[0] for line in lines]
    assert len(addresses) == len(set(addresses)) == 1 + 4 + 12
    assert "10.77.3.14 /rack3" in spec.rack_table().splitlines()


def test_one_rack_has_all_masters() -> None:
    assert {host.rack for host in NetworkSpec(racks=1).hosts.values()} == {1}


def test_daemons_have_hosts_of_their_own() -> None:
    spec = HostSpec(ha=True, base_port=8000)
    assert [rm.scheduler for rm in spec.resource_managers] == [("rm1", 8030), ("rm2", 8030)]
    assert spec.zookeeper == ("zk1", 8050)
    assert {str(node.rpc) for node in spec.node_addresses} == {f"node{number}:8100" for number in range(1, 13)}
    hosts = [host_of(spec, name) for name in ("resourcemanager-rm2", "zookeeper", "nodemanager-node7")]
    assert hosts == ["rm2", "zk1", "node7"]


def test_a_cluster_that_does_not_fit_its_network_is_refused() -> None:
    with pytest.raises(ValidationError, match="nodes is 3, but the network has 12"):
        HostSpec(nodes=3)
    with pytest.raises(ValidationError, match="yarn_only"):
        HostSpec(yarn_only=False)


def test_the_topology_script_knows_names_and_addresses(tmp_path: Path) -> None:
    hosts = Hosts.__new__(Hosts)
    cluster = HostCluster(HostSpec(workdir=tmp_path), hosts)
    cluster.conf.write(cluster.launcher.jars)
    script = cluster.spec.extra_site["core"]["net.topology.script.file.name"]
    argv = [script, "node1", "10.77.3.11", "elsewhere"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["/rack1", "/rack3", "/default-rack"]
