"""What can go wrong with a workload; every text says what, where and what to do."""

from quicksilver.common.errors import QuicksilverError


class WorkloadError(QuicksilverError):
    """Base of all errors of this package."""


class JobFailedError(WorkloadError):
    """A job did not succeed, or did not end in time."""


class OutputError(WorkloadError):
    """A program's output, or a record of YARN, does not say what it always says."""
