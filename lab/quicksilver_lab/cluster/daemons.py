"""The daemons of a cluster: what to start, on which ports, and how to see that they are up."""

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import requests
from requests.auth import AuthBase

from quicksilver_lab.cluster.confdirs import ConfDirs
from quicksilver_lab.cluster.errors import DaemonFailedError
from quicksilver_lab.cluster.kerberos import Kerberos, web_auth
from quicksilver_lab.cluster.ports import ANY, Listen
from quicksilver_lab.cluster.spec import ClusterSpec, HostPort, NodeAddresses, RmAddresses

NODEMANAGER, JOBHISTORY, ZOOKEEPER = "nodemanager", "jobhistory", "zookeeper"
_HTTP_TIMEOUT_S = 5.0
_WEBHDFS_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Daemon:
    """One process; in Java, unless it has an `argv`."""

    name: str
    main_class: str
    conf_dir: Path
    heap_mb: int
    listens: tuple[Listen, ...]
    is_up: Callable[[], bool]
    """Asks the daemon itself; False as long as it cannot answer."""
    java_opts: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    """The whole command line of a daemon that is no Java program."""
    env: Mapping[str, str] | None = None
    """What its environment has besides."""


def kdc_daemons(spec: ClusterSpec, conf: ConfDirs) -> list[Daemon]:
    """Return the KDC of a secure cluster, nothing for others. Raises MissingToolError."""
    if not spec.kerberos:
        return []
    realm, listen = Kerberos(spec), (Listen(spec.kdc, "KDC"),)
    return [Daemon("kdc", "", conf.client, 0, listen, realm.is_up, argv=realm.kdc_argv, env=realm.env)]


def hdfs_daemons(spec: ClusterSpec, conf: ConfDirs) -> list[Daemon]:
    """Return NameNode and DataNode; nothing for a cluster without HDFS."""
    if not spec.has_hdfs:
        return []
    namenode = Daemon(
        "namenode",
        "org.apache.hadoop.hdfs.server.namenode.NameNode",
        conf.client,
        256,
        (Listen(spec.namenode, "NameNode"), Listen(spec.namenode_web, "NameNode web")),
        lambda: _namenode_state(spec).get("Safemode") == "",
    )
    datanode = Daemon(
        "datanode",
        "org.apache.hadoop.hdfs.server.datanode.DataNode",
        conf.client,
        256,
        tuple(Listen(a, f"DataNode {part}") for a, part in zip(spec.datanode, ("data", "web", "RPC"), strict=True)),
        lambda: bool(json.loads(_namenode_state(spec).get("LiveNodes", "{}"))),
    )
    return [namenode, datanode]


def history_daemons(spec: ClusterSpec, conf: ConfDirs) -> list[Daemon]:
    """Return the JobHistoryServer, nothing for a cluster without HDFS. Started before HDFS is up it would wait 10 s."""
    return [_history(spec, conf)] if spec.has_hdfs else []


def _history(spec: ClusterSpec, conf: ConfDirs) -> Daemon:
    return Daemon(
        JOBHISTORY,
        "org.apache.hadoop.mapreduce.v2.hs.JobHistoryServer",
        conf.client,
        256,
        (
            Listen(spec.jobhistory_rpc, "JobHistoryServer"),
            Listen(spec.jobhistory_web, "JobHistoryServer web"),
            Listen(spec.jobhistory_admin, "JobHistoryServer admin"),
        ),
        lambda: bool(get_json(f"{spec.jobhistory_web.url}/ws/v1/history/info", web_auth(spec))),
    )


def yarn_daemons(spec: ClusterSpec, conf: ConfDirs) -> list[Daemon]:
    """Return the ResourceManagers, before them ZooKeeper where the cluster has one, and the NodeManagers."""
    pairs = zip(spec.node_addresses, conf.nodemanagers, strict=True)
    rms = zip(spec.resource_managers, conf.resourcemanagers, strict=True)
    return [
        *([_zookeeper(spec, conf)] if spec.has_zookeeper else []),
        *(_resourcemanager(spec, rm, folder) for rm, folder in rms),
        *(_nodemanager(spec, node, folder) for node, folder in pairs),
    ]


def _zookeeper(spec: ClusterSpec, conf: ConfDirs) -> Daemon:
    return Daemon(
        ZOOKEEPER,
        "org.apache.zookeeper.server.ZooKeeperServerMain",
        conf.client,
        128,
        (Listen(spec.zookeeper, "ZooKeeper"),),
        lambda: _says_imok(spec.zookeeper),
        args=(str(conf.zookeeper),),
    )


def _says_imok(address: HostPort) -> bool:
    try:
        with socket.create_connection(address, timeout=_HTTP_TIMEOUT_S) as sock:
            sock.sendall(b"ruok")
            return sock.recv(4) == b"imok"
    except OSError:
        return False  # not up yet


def _resourcemanager(spec: ClusterSpec, rm: RmAddresses, folder: Path) -> Daemon:
    name = f"ResourceManager {rm.id}".rstrip()
    return Daemon(
        rm.daemon,
        "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
        folder,
        512,
        (
            Listen(rm.client, name),
            Listen(rm.moved_scheduler if spec.overlay else rm.scheduler, f"{name} scheduler"),
            Listen(rm.tracker, f"{name} resource tracker"),
            Listen(rm.admin, f"{name} admin"),
            Listen(rm.web, f"{name} web"),
        ),
        lambda: ha_state(rm, web_auth(spec)) in ("ACTIVE", "STANDBY"),  # its web server answers before its services
        spec.rm_java_opts,
    )


def ha_state(rm: RmAddresses, auth: AuthBase | None = None) -> str:
    """Return ACTIVE, STANDBY or INITIALIZING as an RM reports it, "" when it does not answer."""
    info = get_json(f"{rm.web.url}/ws/v1/cluster/info", auth).get("clusterInfo") or {}
    return str(info.get("haState", ""))


def active_rm(spec: ClusterSpec) -> RmAddresses:
    """Return the active RM; the first one while none is, or when there is only one."""
    rms = spec.resource_managers
    return rms[0] if len(rms) == 1 else next((rm for rm in rms if ha_state(rm, web_auth(spec)) == "ACTIVE"), rms[0])


def _nodemanager(spec: ClusterSpec, node: NodeAddresses, folder: Path) -> Daemon:
    rpc, web = (node.loopback_rpc, node.loopback_web) if spec.overlay else (node.rpc, node.web)
    return Daemon(
        f"{NODEMANAGER}-{node.name}",
        "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
        folder,
        256,
        (
            Listen(rpc, f"NodeManager {node.name}"),
            Listen(web, f"NodeManager {node.name} web"),
            Listen(node.localizer, f"NodeManager {node.name} localizer"),
            Listen(HostPort(ANY, node.shuffle.port), f"NodeManager {node.name} shuffle"),
        ),
        lambda: node_states(spec).get(str(node.rpc)) == "RUNNING",
    )


def up_since(spec: ClusterSpec, daemon: Daemon, since_s: float) -> Daemon:
    """Return a daemon that is up when it is so after `since_s` (Unix time).

    The RM takes a NodeManager that was killed for running until its heartbeats are overdue.
    """
    ids = {f"{NODEMANAGER}-{node.name}": str(node.rpc) for node in spec.node_addresses}
    if daemon.name not in ids:
        return daemon
    node_id = ids[daemon.name]
    return replace(daemon, is_up=lambda: _told_s(spec, node_id) > since_s and daemon.is_up())


def _told_s(spec: ClusterSpec, node_id: str) -> float:
    """Return the time of the health report in a node's last heartbeat, 0 when the RM does not know the node."""
    node = get_json(f"{active_rm(spec).web.url}/ws/v1/cluster/nodes/{node_id}", web_auth(spec)).get("node") or {}
    return float(node.get("lastHealthUpdate", 0)) / 1000


def node_states(spec: ClusterSpec) -> dict[str, str]:
    """Return the state of each node as the RM sees it, by NodeId; empty when the RM does not answer."""
    nodes = get_json(f"{active_rm(spec).web.url}/ws/v1/cluster/nodes", web_auth(spec)).get("nodes") or {}
    return {node["id"]: node["state"] for node in nodes.get("node", [])}


def make_hdfs_folders(spec: ClusterSpec, user: str) -> None:
    """Make what every user of the cluster needs in HDFS, by WebHDFS, whose first answers may take long.

    Raises DaemonFailedError when the NameNode does not do it.
    """
    folders = {"/tmp": "1777", "/user": "1777", f"/user/{user}": "755"}
    folders |= {"/tmp/hadoop-yarn": "755", "/tmp/hadoop-yarn/staging": "1777", "/tmp/logs": "1777"}
    with _session() as session:
        session.auth = web_auth(spec)
        for folder, mode in folders.items():
            query = {"permission": mode, "user.name": user}
            url = f"{spec.namenode_web.url}/webhdfs/v1{folder}"
            try:
                for op in ("MKDIRS", "SETPERMISSION"):
                    session.put(url, params=query | {"op": op}, timeout=_WEBHDFS_TIMEOUT_S).raise_for_status()
            except requests.RequestException as error:
                raise DaemonFailedError(f"namenode: cannot make {folder} in HDFS: {error}") from error


def get_json(url: str, auth: AuthBase | None = None) -> dict[str, Any]:
    """Return the JSON object at `url`, or an empty one as long as nobody answers there."""
    try:
        with _session() as session:
            answer = session.get(url, headers={"Accept": "application/json"}, timeout=_HTTP_TIMEOUT_S, auth=auth)
            answer.raise_for_status()
            data: dict[str, Any] = answer.json()
    except (requests.RequestException, ValueError):
        return {}
    return data


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # no HTTP proxy between us and loopback
    return session


def _namenode_state(spec: ClusterSpec) -> dict[str, Any]:
    url = f"{spec.namenode_web.url}/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"
    beans = get_json(url, web_auth(spec)).get("beans", [])
    return beans[0] if beans else {}


def all_daemons(spec: ClusterSpec, conf: ConfDirs) -> dict[str, Daemon]:
    """Return every daemon of the cluster by name."""
    daemons = (
        *kdc_daemons(spec, conf),
        *history_daemons(spec, conf),
        *hdfs_daemons(spec, conf),
        *yarn_daemons(spec, conf),
    )
    return {daemon.name: daemon for daemon in daemons}
