"""Errors of workloads; every text names the problem, its place and a remedy."""

from quicksilver.common.errors import QuicksilverError


class WorkloadError(QuicksilverError):
    """Base of all errors of this package."""


class JobFailedError(WorkloadError):
    """A job did not succeed, or did not end in time."""


class OutputError(WorkloadError):
    """A program's output, or a record of YARN, lacks what it always has."""
