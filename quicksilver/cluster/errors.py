"""What can go wrong with a local cluster; every text says what, where and what to do."""

from quicksilver.common.errors import QuicksilverError


class ClusterError(QuicksilverError):
    """Base of all errors of this package."""


class MissingToolError(ClusterError):
    """Java or Maven is not there, or of no use for Hadoop."""


class DownloadError(ClusterError):
    """Maven could not bring Hadoop's jars."""


class SiteFileError(ClusterError):
    """A Hadoop configuration file cannot be read or merged."""


class PortInUseError(ClusterError):
    """A port that a daemon needs is taken."""


class StateError(ClusterError):
    """The cluster is running when it should not be, or the other way round."""


class DaemonFailedError(ClusterError):
    """A daemon ended, or did not come up in time."""


class KerberosSetupError(ClusterError):
    """A program of Kerberos failed while the realm of a secure cluster was made."""


class CommandFailedError(ClusterError):
    """A Hadoop client command ended with another exit code than 0."""
