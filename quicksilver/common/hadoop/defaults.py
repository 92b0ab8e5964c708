"""Hadoop's own defaults of the properties that we read, and their old names (*-default.xml of Hadoop 3.4.2).

Only these fall back; any other property that no file of HADOOP_CONF_DIR sets is absent.
tests/data/hadoop/site_files.json has what Hadoop itself says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CORE: Final = {
    "fs.defaultFS": "file:///",
    "hadoop.tmp.dir": "/tmp/hadoop-${user.name}",
    "hadoop.rpc.protection": "authentication",
    "hadoop.http.authentication.type": "simple",
    "hadoop.http.authentication.kerberos.principal": "HTTP/_HOST@LOCALHOST",
    "hadoop.security.authentication": "simple",
    "hadoop.security.token.service.use_ip": "true",
    "ipc.maximum.data.length": "134217728",
}
_MAPRED: Final = {
    "mapreduce.framework.name": "local",
    "mapreduce.task.timeout": "600000",
    "mapreduce.jobhistory.address": "0.0.0.0:10020",
    "mapreduce.jobhistory.webapp.address": "0.0.0.0:19888",
    "yarn.app.mapreduce.am.job.committer.commit-window": "10000",
}
_RESOURCEMANAGER: Final = {
    "yarn.http.policy": "HTTP_ONLY",
    "yarn.acl.enable": "false",
    "yarn.admin.acl": "*",
    "yarn.resourcemanager.hostname": "0.0.0.0",
    "yarn.resourcemanager.address": "${yarn.resourcemanager.hostname}:8032",
    "yarn.resourcemanager.scheduler.address": "${yarn.resourcemanager.hostname}:8030",
    "yarn.resourcemanager.resource-tracker.address": "${yarn.resourcemanager.hostname}:8031",
    "yarn.resourcemanager.admin.address": "${yarn.resourcemanager.hostname}:8033",
    "yarn.resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:8088",
    "yarn.resourcemanager.webapp.https.address": "${yarn.resourcemanager.hostname}:8090",
    "yarn.resourcemanager.ha.enabled": "false",
    "yarn.resourcemanager.opportunistic-container-allocation.enabled": "false",
    "yarn.resourcemanager.opportunistic-container-allocation.nodes-used": "10",
    "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat": "-1",
    "yarn.resourcemanager.nm-container-queuing.load-comparator": "QUEUE_LENGTH",
    "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms": "600000",
    "yarn.resourcemanager.auto-update.containers": "false",
    "yarn.resourcemanager.connect.retry-interval.ms": "30000",
    "yarn.resourcemanager.recovery.enabled": "false",
    "yarn.resourcemanager.work-preserving-recovery.enabled": "true",
    "yarn.resourcemanager.scheduler.class": (
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
    ),
    "yarn.resourcemanager.scheduler.monitor.enable": "false",
    "yarn.resourcemanager.scheduler.monitor.policies": (
        "org.apache.hadoop.yarn.server.resourcemanager.monitor.capacity.ProportionalCapacityPreemptionPolicy"
    ),
    "yarn.scheduler.configuration.store.class": "file",
    "yarn.federation.enabled": "false",
    "yarn.node-labels.enabled": "false",
    "yarn.am.liveness-monitor.expiry-interval-ms": "900000",
    "yarn.nm.liveness-monitor.expiry-interval-ms": "600000",
    "yarn.scheduler.minimum-allocation-mb": "1024",
    "yarn.scheduler.maximum-allocation-mb": "8192",
    "yarn.scheduler.minimum-allocation-vcores": "1",
    "yarn.scheduler.maximum-allocation-vcores": "4",
}
_NODEMANAGER: Final = {
    "yarn.nodemanager.hostname": "0.0.0.0",
    "yarn.nodemanager.address": "${yarn.nodemanager.hostname}:0",
    "yarn.nodemanager.webapp.address": "${yarn.nodemanager.hostname}:8042",
    "yarn.nodemanager.webapp.https.address": "0.0.0.0:8044",
    "yarn.nodemanager.localizer.address": "${yarn.nodemanager.hostname}:8040",
    "yarn.nodemanager.collector-service.address": "${yarn.nodemanager.hostname}:8048",
    "yarn.nodemanager.local-dirs": "${hadoop.tmp.dir}/nm-local-dir",
    "yarn.nodemanager.log-dirs": "${yarn.log.dir}/userlogs",
    "yarn.nodemanager.resource.memory-mb": "8192",  # written -1 there; 8192 without hardware detection
    "yarn.nodemanager.resource.cpu-vcores": "8",  # written -1 there; 8 without hardware detection
    "yarn.nodemanager.resource.detect-hardware-capabilities": "false",
    "yarn.nodemanager.opportunistic-containers-max-queue-length": "0",
    "yarn.nodemanager.opportunistic-containers-queue-policy": "BY_QUEUE_LEN",
    "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption": "false",
    "yarn.nodemanager.amrmproxy.enabled": "false",
    "yarn.nodemanager.distributed-scheduling.enabled": "false",
    "yarn.nodemanager.elastic-memory-control.enabled": "false",
    "yarn.nodemanager.recovery.enabled": "false",
    "yarn.nodemanager.container-executor.class": "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor",
    "yarn.nodemanager.linux-container-executor.cgroups.hierarchy": "/hadoop-yarn",
    "yarn.nodemanager.linux-container-executor.cgroups.mount": "false",
    "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage": "false",
    "yarn.nodemanager.linux-container-executor.resources-handler.class": (
        "org.apache.hadoop.yarn.server.nodemanager.util.DefaultLCEResourcesHandler"
    ),
    "yarn.nodemanager.runtime.linux.allowed-runtimes": "default",
    "yarn.client.nodemanager-connect.retry-interval-ms": "10000",
    "yarn.timeline-service.enabled": "false",
    "yarn.timeline-service.version": "1.0f",
}
_HDFS: Final = {
    "dfs.http.policy": "HTTP_ONLY",
    "dfs.namenode.http-address": "0.0.0.0:9870",
    "dfs.namenode.https-address": "0.0.0.0:9871",
}
DEFAULTS_BELOW: Final[Mapping[str, Mapping[str, str]]] = {
    "core-site.xml": _CORE,
    "mapred-site.xml": _MAPRED,
    "yarn-site.xml": _RESOURCEMANAGER | _NODEMANAGER,
    "hdfs-site.xml": _HDFS,
}
"""The defaults that Hadoop reads right before a site file, so that they override what an earlier site file says."""
DEFAULTS: Final[Mapping[str, str]] = {name: value for each in DEFAULTS_BELOW.values() for name, value in each.items()}
NEW_NAMES: Final[Mapping[str, str]] = {
    "fs.default.name": "fs.defaultFS",
    "mapred.task.timeout": "mapreduce.task.timeout",
    "dfs.http.address": "dfs.namenode.http-address",
    "dfs.https.address": "dfs.namenode.https-address",
}
"""Old names of properties that we read, with the name that Hadoop reads in their place."""
