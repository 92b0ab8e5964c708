"""A real Hadoop cluster on this machine, for the demo, tests and benchmarks: `Cluster(ClusterSpec(...)).start()`."""

from quicksilver_lab.cluster.cluster import Cluster, ClusterStatus, DaemonStatus
from quicksilver_lab.cluster.errors import (
    ClusterError,
    CommandFailedError,
    DaemonFailedError,
    DownloadError,
    MissingToolError,
    PortInUseError,
    SiteFileError,
    StateError,
)
from quicksilver_lab.cluster.spec import ClusterSpec, HostPort, NodeAddresses

__all__ = [
    "Cluster",
    "ClusterError",
    "ClusterSpec",
    "ClusterStatus",
    "CommandFailedError",
    "DaemonFailedError",
    "DaemonStatus",
    "DownloadError",
    "HostPort",
    "MissingToolError",
    "NodeAddresses",
    "PortInUseError",
    "SiteFileError",
    "StateError",
]
