"""The plain, stock configuration of the small cluster, before any overlay."""

from pathlib import Path

from quicksilver_lab.cluster import kerberos
from quicksilver_lab.cluster.runtime.jars import Jars
from quicksilver_lab.cluster.siteconf import Properties
from quicksilver_lab.cluster.spec import ClusterSpec, NodeAddresses

_CALCULATORS = {
    "default": "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator",
    "dominant": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
}
_OPENED = (
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.net",
    "java.base/java.io",
    "java.base/java.nio",
)


def jvm_options(hosts_file: Path | None, heap_mb: int) -> list[str]:
    """Return the options of every JVM here: small, quick to start, IPv4, without DNS where there is a hosts file.

    Java 8 ignores --add-opens and the hosts file.
    """
    return [
        f"-Xmx{heap_mb}m",
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-XX:-UsePerfData",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        "-Djava.net.preferIPv4Stack=true",
        *([f"-Djdk.net.hosts.file={hosts_file}"] if hosts_file else []),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    ]


def core_site(spec: ClusterSpec) -> Properties:
    """Return core-site.xml."""
    files = "file:///" if spec.yarn_only else f"hdfs://{spec.namenode}"
    return {"fs.defaultFS": files, "hadoop.tmp.dir": str(spec.workdir / "tmp")} | kerberos.core_site(spec)


def hdfs_site(spec: ClusterSpec) -> Properties:
    """Return hdfs-site.xml: one NameNode, one DataNode, one copy of each block."""
    data, web, rpc = spec.datanode
    return {
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",  # clients may act as any user
        "dfs.namenode.name.dir": f"file://{spec.workdir}/hdfs/name",
        "dfs.namenode.http-address": str(spec.namenode_web),
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.datanode.data.dir": f"file://{spec.workdir}/hdfs/data",
        "dfs.datanode.hostname": spec.datanode_host,
        "dfs.datanode.address": str(data),
        "dfs.datanode.http.address": str(web),
        "dfs.datanode.ipc.address": str(rpc),
    } | kerberos.hdfs_site(spec)


def yarn_site(spec: ClusterSpec, jars: Jars) -> Properties:
    """Return the yarn-site.xml that clients, RM and NMs share."""
    properties = recovery(spec) | (ha(spec) if spec.ha else {}) | (services(spec, jars) if spec.services else {})
    for rm in spec.resource_managers:
        properties |= {
            f"yarn.resourcemanager.hostname{rm.suffix}": rm.web.host,
            f"yarn.resourcemanager.address{rm.suffix}": str(rm.client),
            f"yarn.resourcemanager.scheduler.address{rm.suffix}": str(rm.scheduler),
            f"yarn.resourcemanager.resource-tracker.address{rm.suffix}": str(rm.tracker),
            f"yarn.resourcemanager.admin.address{rm.suffix}": str(rm.admin),
            f"yarn.resourcemanager.webapp.address{rm.suffix}": str(rm.web),
        }
    return (
        properties
        | {
            "yarn.scheduler.minimum-allocation-mb": str(spec.min_allocation_mb),
            "yarn.scheduler.maximum-allocation-mb": str(spec.node_memory_mb),
            "yarn.scheduler.maximum-allocation-vcores": str(spec.node_vcores),
            "yarn.application.classpath": f"$HADOOP_CONF_DIR,{jars.classpath}",
            "yarn.log-aggregation-enable": "true",
            "yarn.node-attribute.fs-store.root-dir": f"file://{spec.workdir}/tmp/node-attribute",
            "yarn.log.server.url": f"{spec.jobhistory_web.url}/jobhistory/logs",
        }
        | ({"yarn.nodemanager.remote-app-log-dir": str(spec.files / "logs")} if spec.yarn_only else {})
        | kerberos.yarn_site(spec)
    )


def recovery(spec: ClusterSpec) -> Properties:
    """Return what makes an RM go on with running containers after a restart; empty when the spec does not want it."""
    if not (spec.rm_recovery or spec.ha):
        return {}
    store = "ZKRMStateStore" if spec.ha else "FileSystemRMStateStore"
    return {
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.work-preserving-recovery.enabled": "true",
        "yarn.resourcemanager.store.class": f"org.apache.hadoop.yarn.server.resourcemanager.recovery.{store}",
        "yarn.resourcemanager.fs.state-store.uri": f"file://{rm_state_dir(spec)}",
    }


def ha(spec: ClusterSpec) -> Properties:
    """Return what makes two RMs one service; the active one is elected by ZooKeeper."""
    return {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": ",".join(rm.id for rm in spec.resource_managers),
        "yarn.resourcemanager.cluster-id": f"local-{spec.base_port}",
        "hadoop.zk.address": str(spec.zookeeper),
        "hadoop.zk.timeout-ms": str(spec.zk_timeout_ms),
    }


def services(spec: ClusterSpec, jars: Jars) -> Properties:
    """Return what lets YARN services run without their API server."""
    return {
        "hadoop.registry.zk.quorum": str(spec.zookeeper),
        "yarn.service.classpath": jars.classpath,
        "yarn.application.admin.client.class.yarn-service": "org.apache.hadoop.yarn.service.client.ServiceClient",
    }


def rm_state_dir(spec: ClusterSpec) -> Path:
    """Return where an RM without ZooKeeper stores its state."""
    return spec.workdir / "rm-state"


def zookeeper_dir(spec: ClusterSpec) -> Path:
    """Return where ZooKeeper stores its data."""
    return spec.workdir / "zookeeper"


def zoo_cfg(spec: ClusterSpec) -> str:
    """Return ZooKeeper's configuration: one server, on loopback, that allows sessions as short as the spec wants."""
    host, port = spec.zookeeper
    lines = {
        "tickTime": 1000,
        "dataDir": zookeeper_dir(spec),
        "clientPortAddress": host,
        "clientPort": port,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def nodemanager_site(spec: ClusterSpec, node: NodeAddresses) -> Properties:
    """Return what one NodeManager has besides `yarn_site`."""
    return {
        "yarn.nodemanager.hostname": node.host,
        "yarn.nodemanager.address": str(node.rpc),
        "yarn.nodemanager.localizer.address": f"{node.host}:{node.localizer.port}",
        "yarn.nodemanager.webapp.address": str(node.web),
        "yarn.nodemanager.aux-services": "mapreduce_shuffle",
        "yarn.nodemanager.resource.memory-mb": str(spec.node_memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": str(spec.node_vcores),
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.local-dirs": str(spec.workdir / "local" / node.name),
        "yarn.nodemanager.log-dirs": str(container_logs(spec, node)),
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
    } | (nm_recovery(spec, node) if spec.nm_recovery else {})


def container_logs(spec: ClusterSpec, node: NodeAddresses) -> Path:
    """Return the folder of a NodeManager's containers' logs."""
    return spec.workdir / "logs" / "containers" / node.name


def nm_recovery(spec: ClusterSpec, node: NodeAddresses) -> Properties:
    """Return what makes a NodeManager leave its containers alone when it ends, and find them again."""
    return {
        "yarn.nodemanager.recovery.enabled": "true",
        "yarn.nodemanager.recovery.supervised": "true",
        "yarn.nodemanager.recovery.dir": str(spec.workdir / "local" / f"{node.name}-recovery"),
    }


def mapred_site(spec: ClusterSpec, jars: Jars, hosts_file: Path) -> Properties:
    """Return mapred-site.xml: containers of 512 MB with heaps of 300 MB."""
    shared = [*jars.sharing, "-cp", f"{jars.classpath}:$CLASSPATH"] if jars.archive else []
    own = [*kerberos.jvm_options(spec, jars.native), *spec.jvm_opts]
    staging = {"yarn.app.mapreduce.am.staging-dir": str(spec.files / "staging")} if spec.yarn_only else {}
    options = " ".join([*jvm_options(hosts_file, heap_mb=300), *own, *shared])
    return {
        "mapreduce.framework.name": "yarn",
        "mapreduce.application.classpath": jars.classpath,
        "mapreduce.map.memory.mb": "512",
        "mapreduce.map.java.opts": options,
        "mapreduce.reduce.memory.mb": "512",
        "mapreduce.reduce.java.opts": options,
        "mapreduce.task.io.sort.mb": "50",
        "yarn.app.mapreduce.am.resource.mb": "512",
        "yarn.app.mapreduce.am.command-opts": options,
        "mapreduce.client.submit.file.replication": "1",
        "mapreduce.jobhistory.address": str(spec.jobhistory_rpc),
        "mapreduce.jobhistory.webapp.address": str(spec.jobhistory_web),
        "mapreduce.jobhistory.admin.address": str(spec.jobhistory_admin),
        "mapreduce.jobhistory.move.interval-ms": "2000",
        **staging,
    } | kerberos.mapred_site(spec)


def shuffle_site(node: NodeAddresses) -> Properties:
    """Return what one NodeManager has besides `mapred_site`."""
    return {"mapreduce.shuffle.port": str(node.shuffle.port)}


def capacity_scheduler(spec: ClusterSpec) -> Properties:
    """Return capacity-scheduler.xml; what is not here is as Hadoop ships it."""
    root = "yarn.scheduler.capacity.root"
    properties = {
        "yarn.scheduler.capacity.resource-calculator": _CALCULATORS[spec.resource_calculator],
        "yarn.scheduler.capacity.maximum-am-resource-percent": "0.5",
        "yarn.scheduler.capacity.node-locality-delay": "40",
        f"{root}.queues": ",".join(spec.queues),
    }
    for queue, percent in spec.queues.items():
        properties |= {
            f"{root}.{queue}.capacity": str(percent),
            f"{root}.{queue}.maximum-capacity": "100",
            f"{root}.{queue}.user-limit-factor": "100",
        }
    return properties
