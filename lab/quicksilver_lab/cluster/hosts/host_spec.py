"""The specification of a cluster whose daemons are on hosts of their own."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from quicksilver_lab.cluster.hosts.network_spec import NetworkSpec
from quicksilver_lab.cluster.spec import MASTER, ClusterSpec, HostPort, NodeAddresses, RmAddresses

RM_HOSTS = ("rm1", "rm2")
ZOOKEEPER_HOST = "zk1"
CLIENT_HOST = "client"
_NODE_PORT = 100
_RM_PORTS = {"scheduler": 30, "tracker": 31, "client": 32, "admin": 33, "moved_scheduler": 35, "web": 88}


class HostSpec(ClusterSpec):
    """YARN alone, on the hosts of a network; all hosts see the same files. Ports are the same on each host."""

    network: NetworkSpec = NetworkSpec()
    nodes: int = 12
    yarn_only: bool = True

    @model_validator(mode="after")
    def _check_hosts(self) -> Self:
        if self.nodes != len(self.network.nodes):
            raise ValueError(f"nodes is {self.nodes}, but the network has {len(self.network.nodes)}: make them equal")
        if not self.yarn_only or self.kerberos:
            raise ValueError("a cluster on hosts is yarn_only and without kerberos: leave both out")
        return self

    def master(self, offset: int) -> HostPort:
        """Return an address of the first ResourceManager's host."""
        return HostPort(RM_HOSTS[0], self.base_port + offset)

    @property
    def zookeeper(self) -> HostPort:
        """ZooKeeper, with `ha`."""
        return HostPort(ZOOKEEPER_HOST, self.base_port + 50)

    def _rm(self, rm_id: str, offset: int) -> RmAddresses:
        host = RM_HOSTS[1 if offset else 0]
        return RmAddresses(rm_id, **{name: HostPort(host, self.base_port + port) for name, port in _RM_PORTS.items()})

    def _node(self, number: int) -> NodeAddresses:
        host = self.network.nodes[number - 1].name
        port = self.base_port + _NODE_PORT
        return NodeAddresses(
            name=host,
            host=host,
            rpc=HostPort(host, port),
            localizer=HostPort(MASTER if self.overlay else host, port + 1),
            web=HostPort(host, port + 2),
            shuffle=HostPort(host, port + 3),
            tracker=HostPort(MASTER, port + 6),
        )


def host_of(spec: HostSpec, daemon: str) -> str:
    """Return the host of a daemon of Hadoop."""
    if daemon.startswith("nodemanager-"):
        return daemon.removeprefix("nodemanager-")
    if daemon == "zookeeper":
        return ZOOKEEPER_HOST
    return next((rm.web.host for rm in spec.resource_managers if rm.daemon == daemon), RM_HOSTS[0])
