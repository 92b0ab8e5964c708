"""Errors of a local cluster; every text names the problem, its place and a remedy."""

from quicksilver.common.errors import QuicksilverError


class ClusterError(QuicksilverError):
    """Base of all errors of this package."""


class MissingToolError(ClusterError):
    """Java or Maven is missing, or unsuitable for Hadoop."""


class DownloadError(ClusterError):
    """Maven could not download Hadoop's jars."""


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


class ReleaseError(ClusterError):
    """A version of Hadoop is not known, or has not what is asked of it."""
