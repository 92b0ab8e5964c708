"""Configuration folders of a cluster: the plain configuration, and the overlays of hadoop-conf/ laid over it."""

import platform
from collections.abc import Mapping
from pathlib import Path

from quicksilver.common.hadoop.hadoop_version import HadoopVersion
from quicksilver.common.hadoop.overlays import overlay_root
from quicksilver_lab.cluster import baseconf
from quicksilver_lab.cluster.errors import SiteFileError
from quicksilver_lab.cluster.runtime.jars import Jars
from quicksilver_lab.cluster.siteconf import Properties, expand, merge, read_site, write_site
from quicksilver_lab.cluster.spec import MASTER, ClusterSpec, NodeAddresses, RmAddresses, hadoop_version

LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""
"""Logs to stderr, which is a file of its own for each daemon and client."""

_PAGE = """\
<!DOCTYPE html><title>{name}</title>
<p>{name}: Hadoop's jars bring no pages of HDFS; its <a href="/jmx">state as JSON</a> is here.</p>
"""


class ConfDirs:
    """Where the configuration folders of a cluster lie, and how they are written.

    `client` serves clients, HDFS and the JobHistoryServer and is the same with and without overlay.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        """Name the folders below `spec.workdir`, which must be absolute."""
        self.spec = spec
        self.root = spec.workdir / "conf"
        self.client = self.root / "client"
        self.resourcemanagers = tuple(self.root / rm.daemon for rm in spec.resource_managers)
        self.nodemanagers = tuple(self.root / f"nodemanager-{node.name}" for node in spec.node_addresses)
        self.hosts_file = self.root / "hosts"
        self.zookeeper = self.root / "zoo.cfg"

    @property
    def resourcemanager(self) -> Path:
        """The folder of the first RM."""
        return self.resourcemanagers[0]

    def write(self, jars: Jars) -> None:
        """Write all of them. Raises SiteFileError when an overlay cannot be merged."""
        spec = self.spec
        for folder in (self.root, spec.workdir / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        self.hosts_file.write_text(hosts_text(spec))
        yarn, mapred = baseconf.yarn_site(spec, jars), baseconf.mapred_site(spec, jars, self.hosts_file)
        client = merge(*(read_overlay(role) for role in _client_roles(spec)))
        self._write(self.client, merge(yarn, client), mapred)
        _write_pages(self.client / "webapps")
        for rm, folder in zip(spec.resource_managers, self.resourcemanagers, strict=True):
            own_id = {"yarn.resourcemanager.ha.id": rm.id} if rm.id else {}
            self._write(folder, merge(yarn, resourcemanager_overlay(spec, rm), own_id), mapred)
        if spec.has_zookeeper:
            self.zookeeper.write_text(baseconf.zoo_cfg(spec))
        for node, folder in zip(spec.node_addresses, self.nodemanagers, strict=True):
            own = merge(baseconf.nodemanager_site(spec, node), nodemanager_overlay(spec, node))
            site = merge(yarn, client, own, tracker_overlay(spec, node))
            self._write(folder, site, merge(mapred, baseconf.shuffle_site(node)))

    def _write(self, folder: Path, yarn: Properties, mapred: Properties) -> None:
        spec, extra = self.spec, self.spec.extra_site
        files: Mapping[str, Properties] = {
            "core-site.xml": merge(baseconf.core_site(spec), extra.get("core", {})),
            "hdfs-site.xml": merge(baseconf.hdfs_site(spec), extra.get("hdfs", {})),
            "yarn-site.xml": merge(yarn, extra.get("yarn", {})),
            "mapred-site.xml": merge(mapred, extra.get("mapred", {})),
            "capacity-scheduler.xml": merge(
                baseconf.capacity_scheduler(spec), scheduler_overlay(spec), extra.get("capacity-scheduler", {})
            ),
        }
        for name, properties in files.items():
            write_site(folder / name, expand(properties))
        (folder / "log4j.properties").write_text(LOG4J)


def _write_pages(webapps: Path) -> None:
    """Write the folders that the web servers of HDFS look for on their classpath."""
    for name in ("hdfs", "datanode"):
        (webapps / name).mkdir(parents=True, exist_ok=True)
        (webapps / name / "index.html").write_text(_PAGE.format(name=name))
    (webapps / "static").mkdir(exist_ok=True)


def read_overlay(role: str) -> Properties:
    """Return the yarn-site.xml an admin merges for `role`: resourcemanager, nodemanager, tracker, client, or a folder
    below."""
    return read_site(overlay_root() / role / "yarn-site.xml")


def _client_roles(spec: ClusterSpec) -> list[str]:
    return ["client", *(["ha/client"] if spec.ha else [])] if spec.client_overlay else []


def resourcemanager_overlay(spec: ClusterSpec, rm: RmAddresses) -> Properties:
    """Return an RM's overlay with this cluster's ports, and what its version needs; empty for a plain cluster."""
    if not spec.overlay:
        return {}
    port = str(spec.moved_scheduler.port)
    overlay = _with_own_values(read_overlay("resourcemanager"), {"quicksilver.resourcemanager.scheduler.port": port})
    if not HadoopVersion(hadoop_version(spec, rm.daemon)).central_allocator:
        overlay = merge(overlay, read_overlay("hadoop31/resourcemanager"))
    if spec.own_grants:
        overlay = merge(overlay, read_overlay("own_grants/resourcemanager"))
    if not spec.ha:
        return overlay
    moved = {
        f"yarn.resourcemanager.scheduler.address.{each.id}": str(each.moved_scheduler)
        for each in spec.resource_managers
    }
    return merge(overlay, _with_own_values(read_overlay("ha/resourcemanager"), moved))


def scheduler_overlay(spec: ClusterSpec) -> Properties:
    """Return what the RM's scheduler has besides where containers share cores; empty elsewhere."""
    if not (spec.overlay and spec.sharing):
        return {}
    return read_site(overlay_root() / "sharing" / "resourcemanager" / "capacity-scheduler.xml")


def nodemanager_overlay(spec: ClusterSpec, node: NodeAddresses) -> Properties:
    """Return a NodeManager's overlay with its ports; empty for a plain cluster."""
    if not spec.overlay:
        return {}
    own = {
        "quicksilver.nodemanager.port": str(node.rpc.port),
        "quicksilver.nodemanager.webapp.port": str(node.web.port),
        "quicksilver.nodemanager.localizer.port": str(node.localizer.port),
    }
    overlay = _with_own_values(read_overlay("nodemanager"), own)
    if not spec.sharing:
        return overlay
    twice = {"yarn.nodemanager.resource.cpu-vcores": str(2 * spec.node_vcores)}
    return merge(overlay, read_overlay("sharing/nodemanager"), twice)


def tracker_overlay(spec: ClusterSpec, node: NodeAddresses) -> Properties:
    """Return what a NodeManager has besides when it registers at a relay; empty without one."""
    if not spec.tracker_relay:
        return {}
    return _with_own_values(read_overlay("tracker"), {"quicksilver.tracker.port": str(node.tracker.port)})


def _with_own_values(overlay: Properties, own: Mapping[str, str]) -> Properties:
    """Set what the overlay leaves to the admin; a name it does not have would mean that the two have drifted apart."""
    unknown = own.keys() - overlay.keys()
    if unknown:
        raise SiteFileError(
            f"{overlay_root()}: no property {', '.join(sorted(unknown))}; put it back into the overlay."
        )
    return merge(overlay, own)


def hosts_text(spec: ClusterSpec) -> str:
    """Return a hosts file for the JVMs: each address is its own name, so that no look-up ever leaves the file."""
    hosts = dict.fromkeys([MASTER, spec.datanode_host, *(node.host for node in spec.node_addresses)])
    names = "".join(f"{host} {host}\n" for host in hosts)
    return f"{names}{MASTER} localhost\n{MASTER} {platform.node()}\n"
