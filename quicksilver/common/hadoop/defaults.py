"""Hadoop's own defaults of the properties that we read (core-, yarn- and mapred-default.xml of Hadoop 3.4.2).

Only these fall back; any other property that no file of HADOOP_CONF_DIR sets is absent.
"""

from __future__ import annotations

from typing import Final

DEFAULTS: Final[dict[str, str]] = {
    # core-default.xml
    "hadoop.tmp.dir": "/tmp/hadoop-${user.name}",
    "hadoop.rpc.protection": "authentication",
    "hadoop.security.authentication": "simple",
    "ipc.maximum.data.length": "134217728",
    # yarn-default.xml: ResourceManager
    "yarn.http.policy": "HTTP_ONLY",
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
    "yarn.resourcemanager.nm-container-queuing.load-comparator": "QUEUE_LENGTH",
    "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms": "600000",
    "yarn.am.liveness-monitor.expiry-interval-ms": "900000",
    "yarn.nm.liveness-monitor.expiry-interval-ms": "600000",
    "yarn.scheduler.minimum-allocation-mb": "1024",
    "yarn.scheduler.maximum-allocation-mb": "8192",
    "yarn.scheduler.minimum-allocation-vcores": "1",
    "yarn.scheduler.maximum-allocation-vcores": "4",
    # yarn-default.xml: NodeManager
    "yarn.nodemanager.hostname": "0.0.0.0",
    "yarn.nodemanager.address": "${yarn.nodemanager.hostname}:0",
    "yarn.nodemanager.bind-host": "",
    "yarn.nodemanager.webapp.address": "${yarn.nodemanager.hostname}:8042",
    "yarn.nodemanager.webapp.https.address": "0.0.0.0:8044",
    "yarn.nodemanager.localizer.address": "${yarn.nodemanager.hostname}:8040",
    "yarn.nodemanager.local-dirs": "${hadoop.tmp.dir}/nm-local-dir",
    "yarn.nodemanager.log-dirs": "${yarn.log.dir}/userlogs",
    "yarn.nodemanager.resource.memory-mb": "8192",  # written -1 there; 8192 without hardware detection
    "yarn.nodemanager.resource.cpu-vcores": "8",  # written -1 there; 8 without hardware detection
    "yarn.nodemanager.resource.detect-hardware-capabilities": "false",
    "yarn.nodemanager.opportunistic-containers-max-queue-length": "0",
    "yarn.nodemanager.container-executor.class": ("org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor"),
    # mapred-default.xml
    "mapreduce.task.timeout": "600000",
    "yarn.app.mapreduce.am.job.committer.commit-window": "10000",
    "mapreduce.jobhistory.address": "0.0.0.0:10020",
    "mapreduce.jobhistory.webapp.address": "0.0.0.0:19888",
}
