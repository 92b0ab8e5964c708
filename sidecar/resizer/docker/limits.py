"""Limits for the Engine API: they shrink a Docker container, and restore its own limits.

The API cannot unset a limit: 0 means "as it is". So the period is never changed, a missing quota is restored
as -1 (no limit), and missing shares as 1024, which is the same on cgroup v1. On cgroup v2 no number of
shares stands for the default weight, so there they are left alone unless they had been set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidecar.resizer.docker.engine import DockerLimits

DEFAULT_PERIOD_US: Final = 100_000
DEFAULT_SHARES: Final = 1024
LEAST_SHARES: Final = 2
LEAST_QUOTA_US: Final = 1000
LEAST_NANO_CPUS: Final = 10_000_000
"""The smallest quota that the daemon accepts: 0.01 cores."""


def shrunk(was: DockerLimits, cores: float, shares: bool) -> dict[str, int]:
    """Return the limits of a container that is bounded to `cores`; never more than it had.

    shares: whether they can be restored. NanoCpus and CpuQuota exclude each other: the one that was set stays in use.
    """
    if was.nano_cpus > 0:
        limits = {"NanoCpus": min(was.nano_cpus, max(LEAST_NANO_CPUS, round(cores * 1e9)))}
    else:
        quota = max(LEAST_QUOTA_US, round(cores * period_us(was)))
        limits = {"CpuQuota": min(was.cpu_quota, quota) if was.cpu_quota > 0 else quota}
    return {**limits, "CpuShares": LEAST_SHARES} if shares else limits


def full(was: DockerLimits, shares: bool) -> dict[str, int]:
    """Return the limits that a container had."""
    if was.nano_cpus > 0:
        limits = {"NanoCpus": was.nano_cpus}
    else:
        limits = {"CpuQuota": was.cpu_quota if was.cpu_quota > 0 else -1}
    return {**limits, "CpuShares": was.cpu_shares or DEFAULT_SHARES} if shares else limits


def quota_us(limits: Mapping[str, int]) -> int:
    """Return the quota that the kernel is given for such limits, -1 for none."""
    if "NanoCpus" in limits:
        return limits["NanoCpus"] * DEFAULT_PERIOD_US // 10**9
    return limits["CpuQuota"]


def period_us(was: DockerLimits) -> int:
    """Return the period that quotas refer to."""
    return was.cpu_period or DEFAULT_PERIOD_US
