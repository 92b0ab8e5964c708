"""The specification of a local cluster: its size, and all addresses, which derive from one base port."""

from pathlib import Path
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from quicksilver_lab.cluster.runtime.releases import DEFAULT, RELEASES

MASTER = "127.0.0.1"
LAST_FIXED_PORT = 32767
"""Above it an outgoing connection may hold the port (net.ipv4.ip_local_port_range)."""
_FIRST_NODE_OFFSET, _PORTS_PER_NODE = 100, 10
_SECOND_RM_OFFSET = 10


class HostPort(NamedTuple):
    """An address; as text `host:port`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as the start of an HTTP URL, without a slash at its end."""
        return f"http://{self.host}:{self.port}"


class NodeAddresses(NamedTuple):
    """Where one NodeManager is found. `rpc` is its NodeId: what the RM and the application masters see."""

    name: str
    host: str
    rpc: HostPort
    web: HostPort
    localizer: HostPort
    shuffle: HostPort
    tracker: HostPort
    """Where the NodeManager finds its relay to the RM's resource tracker, with `tracker_relay`."""

    @property
    def loopback_rpc(self) -> HostPort:
        """Where the NodeManager itself listens under the overlay, for the sidecar to relay to."""
        return HostPort(MASTER, self.rpc.port)

    @property
    def loopback_web(self) -> HostPort:
        """Where its web server listens under the overlay."""
        return HostPort(MASTER, self.web.port)


class RmAddresses(NamedTuple):
    """Where one ResourceManager is found."""

    id: str
    """As in yarn.resourcemanager.ha.rm-ids; "" without high availability."""
    client: HostPort
    scheduler: HostPort
    """The public scheduler address, which application masters use; under the overlay its proxy's."""
    moved_scheduler: HostPort
    """Where the scheduler service listens under the overlay, for the proxy to relay to."""
    tracker: HostPort
    admin: HostPort
    web: HostPort

    @property
    def daemon(self) -> str:
        """The name of its daemon, for Cluster.kill and the like."""
        return f"resourcemanager-{self.id}" if self.id else "resourcemanager"

    @property
    def suffix(self) -> str:
        """What the names of its properties end with."""
        return f".{self.id}" if self.id else ""


class ClusterSpec(BaseModel):
    """One local cluster. Unknown fields are errors; ports are base_port .. last_port, both included."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workdir: Path = Path("run/cluster")
    """Everything the cluster writes lies in here: configurations, logs, HDFS, state."""
    base_port: int = Field(18000, ge=1024)
    nodes: int = Field(3, ge=1, le=100)
    hadoop: str = DEFAULT
    """The version of Hadoop: daemons, clients, and what MapReduce's tasks run."""
    hadoop_of: dict[str, str] = {}
    """Other versions of daemons, by kind or name: resourcemanager, nodemanager, nodemanager-node2."""
    rm_only: bool = False
    """The ResourceManager alone: no NodeManager, HDFS or JobHistoryServer is started, whatever `nodes` is."""
    yarn_only: bool = False
    """YARN alone: neither HDFS nor JobHistoryServer is started; applications keep their files below `workdir`."""
    overlay: bool = True
    """Merge hadoop-conf/ into the plain configuration; jobs then need the proxy and the sidecars to run."""
    tracker_relay: bool = False
    """Merge hadoop-conf/tracker too: each NodeManager registers at a relay of its own, at the node's `tracker`, which
    has to run for the cluster to come up. node_vcores and node_memory_mb are then what the NodeManagers believe."""
    own_grants: bool = False
    """With `overlay`: merge hadoop-conf/own_grants too, so that the RM takes containers that the proxy granted."""
    sharing: bool = False
    """With `overlay`: merge hadoop-conf/sharing too, as `quicksilver install --with sharing` does. node_vcores are then
    what containers may use (the setting sidecar.vcores), and NodeManagers believe in twice as many."""
    rm_recovery: bool = False
    """Whether the RM stores its state and restarts with the running containers (work-preserving recovery)."""
    nm_recovery: bool = False
    """Have NodeManagers go on with their containers after a restart (yarn.nodemanager.recovery, supervised)."""
    ha: bool = False
    """Two RMs, rm1 and rm2, and the ZooKeeper that elects the active one and has their state; implies rm_recovery."""
    services: bool = False
    """What YARN services need: a ZooKeeper for the registry, in which their masters write where containers run, the
    jars on their masters' class path, and a client that talks to the RM and the masters itself, without an API
    server."""
    zk_timeout_ms: int = Field(4000, ge=2000)
    """With `ha`: how long ZooKeeper misses an active RM that died before the other one takes over; Hadoop's own default
    is 10,000."""
    node_vcores: int = Field(8, ge=1)
    node_memory_mb: int = Field(4096, ge=512)
    min_allocation_mb: int = Field(512, ge=1)
    """The scheduler's smallest container and step; 4096 / 512 gives as many containers as vcores."""
    queues: dict[str, int] = {"default": 60, "batch": 40}
    """Leaf queues below root and their capacity in percent, 100 together; each may grow to 100 %."""
    resource_calculator: Literal["default", "dominant"] = "default"
    """"default" looks at memory alone and is what Hadoop ships."""
    datanode_host: str = MASTER
    """Host that block locations name. One of the nodes' addresses makes that node the local one for every map."""
    client_overlay: bool = True
    """Merge hadoop-conf/client into the configuration of clients and NodeManagers, with and without `overlay`."""
    extra_site: dict[Literal["core", "hdfs", "yarn", "mapred", "capacity-scheduler"], dict[str, str]] = {}
    """Settings laid over all others, in every daemon and client."""
    rm_java_opts: tuple[str, ...] = ()
    """More JVM options for the RM, such as -Xmx2g; the last of contradicting ones wins."""
    jvm_opts: tuple[str, ...] = ()
    """More options of all JVMs, those of MapReduce's tasks included."""
    start_timeout_s: float = Field(180.0, gt=0)
    kerberos: bool = False
    """A secure cluster: a KDC of its own, Kerberos and service-level authorization in HDFS, YARN and MapReduce."""
    spnego: bool = False
    """With `kerberos`: the web servers want a Kerberos login too."""
    ticket_life_s: float = Field(36000.0, ge=1)
    """With `kerberos`: how long a ticket lives, in seconds."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.last_port > LAST_FIXED_PORT:
            raise ValueError(
                f"base_port {self.base_port} with {self.nodes} nodes needs ports up to {self.last_port}; "
                f"they must stay below {LAST_FIXED_PORT + 1}: choose a lower base_port"
            )
        if self.rm_only and (self.kerberos or self.ha or self.services):
            raise ValueError("rm_only goes with none of kerberos, ha and services: leave it out")
        if self.yarn_only and self.kerberos:
            raise ValueError("yarn_only does not go with kerberos: leave it out")
        if self.spnego and not self.kerberos:
            raise ValueError("spnego needs kerberos: set both")
        for version in (self.hadoop, *self.hadoop_of.values()):
            if version not in RELEASES:
                raise ValueError(f"hadoop: {version} is not one of {', '.join(RELEASES)}: take one of them")
        if not self.queues or sum(self.queues.values()) != 100:
            raise ValueError(f"queues: capacities must add up to 100, not {sum(self.queues.values())}")
        return self

    @property
    def last_port(self) -> int:
        """The last port of the range; another cluster may begin after it."""
        return self.base_port + _FIRST_NODE_OFFSET + _PORTS_PER_NODE * self.nodes - 1

    def master(self, offset: int) -> HostPort:
        """Return the master's address `offset` ports above the base."""
        return HostPort(MASTER, self.base_port + offset)

    @property
    def has_hdfs(self) -> bool:
        """Whether the cluster has HDFS and the JobHistoryServer."""
        return not (self.rm_only or self.yarn_only)

    @property
    def files(self) -> Path:
        """Where applications of a cluster without HDFS keep their files: it is their default file system's part."""
        return self.workdir / "files"

    @property
    def namenode(self) -> HostPort:
        """NameNode RPC, as in fs.defaultFS."""
        return self.master(0)

    @property
    def namenode_web(self) -> HostPort:
        """NameNode pages, JMX and WebHDFS."""
        return self.master(1)

    @property
    def datanode(self) -> tuple[HostPort, HostPort, HostPort]:
        """The DataNode's addresses: data, web, RPC."""
        return (
            HostPort(self.datanode_host, self.base_port + 2),
            HostPort(self.datanode_host, self.base_port + 3),
            HostPort(self.datanode_host, self.base_port + 4),
        )

    @property
    def scheduler(self) -> HostPort:
        """The public scheduler address, which application masters use; under the overlay the proxy's."""
        return self.master(30)

    @property
    def moved_scheduler(self) -> HostPort:
        """Where the RM's scheduler service listens under the overlay, for the proxy to relay to."""
        return self.master(35)

    @property
    def resource_tracker(self) -> HostPort:
        """The RM's address for NodeManagers."""
        return self.master(31)

    @property
    def rm_client(self) -> HostPort:
        """The RM's address for clients."""
        return self.master(32)

    @property
    def rm_admin(self) -> HostPort:
        """The RM's address for rmadmin."""
        return self.master(33)

    @property
    def rm_web(self) -> HostPort:
        """The RM's pages and REST."""
        return self.master(88)

    @property
    def resource_managers(self) -> tuple[RmAddresses, ...]:
        """The RMs' addresses; that of the first are those of this class too."""
        return (self._rm("rm1", 0), self._rm("rm2", _SECOND_RM_OFFSET)) if self.ha else (self._rm("", 0),)

    def _rm(self, rm_id: str, offset: int) -> RmAddresses:
        ports = {"scheduler": 30, "tracker": 31, "client": 32, "admin": 33, "moved_scheduler": 35, "web": 88}
        return RmAddresses(rm_id, **{name: self.master(port + offset) for name, port in ports.items()})

    @property
    def has_zookeeper(self) -> bool:
        """Whether the cluster has a ZooKeeper."""
        return self.ha or self.services

    @property
    def zookeeper(self) -> HostPort:
        """ZooKeeper, with `ha` or `services`."""
        return self.master(50)

    @property
    def kdc(self) -> HostPort:
        """The Kerberos key distribution center, with `kerberos`."""
        return self.master(60)

    @property
    def jobhistory_rpc(self) -> HostPort:
        """JobHistoryServer RPC."""
        return self.master(20)

    @property
    def jobhistory_web(self) -> HostPort:
        """JobHistoryServer pages and REST."""
        return self.master(21)

    @property
    def jobhistory_admin(self) -> HostPort:
        """JobHistoryServer administration."""
        return self.master(22)

    @property
    def node_addresses(self) -> tuple[NodeAddresses, ...]:
        """The nodes' addresses, node 1 first: hosts 127.0.0.11, 127.0.0.12 and so on."""
        return () if self.rm_only else tuple(self._node(number) for number in range(1, self.nodes + 1))

    def _node(self, number: int) -> NodeAddresses:
        host = f"127.0.0.{10 + number}"
        port = self.base_port + _FIRST_NODE_OFFSET + _PORTS_PER_NODE * (number - 1)
        return NodeAddresses(
            name=f"node{number}",
            host=host,
            rpc=HostPort(host, port),
            localizer=HostPort(MASTER if self.overlay else host, port + 1),
            web=HostPort(host, port + 2),
            shuffle=HostPort(host, port + 3),
            tracker=HostPort(MASTER, port + 6),
        )


def hadoop_version(spec: ClusterSpec, daemon: str) -> str:
    """Return the version of a daemon: its own, that of its kind, or the cluster's."""
    return spec.hadoop_of.get(daemon) or spec.hadoop_of.get(daemon.partition("-")[0]) or spec.hadoop
