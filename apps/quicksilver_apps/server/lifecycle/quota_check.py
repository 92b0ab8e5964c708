"""Whether an application fits a quota, now or ever; pure."""

from __future__ import annotations

from quicksilver_apps.description.model import Application
from quicksilver_apps.server.backend import Largest
from quicksilver_apps.server.config import Quota
from quicksilver_apps.server.records import QuotaSize


def why_never(application: Application, size: QuotaSize, quota: Quota, largest: Largest) -> str:
    """Return why an application can never be started; "" when it can."""
    parts = [("the master", application.master)]
    parts += [(f"an instance of {each.name}", each.resources) for each in application.services]
    for part, resources in parts:
        if resources.memory_mb > largest.memory_mb or resources.vcores > largest.vcores:
            wants = f"{resources.memory_mb} MB and {resources.vcores} vcores"
            return (
                f"{part} wants {wants}; the cluster grants {largest.memory_mb} MB and {largest.vcores} vcores at most"
            )
    over = obstacle(size, quota, 0, QuotaSize())
    return f"it alone is over the quota: {over}" if over else ""


def obstacle(size: QuotaSize, quota: Quota, running: int, used: QuotaSize) -> str:
    """Return what keeps an application from starting beside those that a user has at YARN; "" for nothing."""
    bounds = (
        (running + 1, quota.applications, "applications"),
        (used.memory_mb + size.memory_mb, quota.memory_mb, "MB of core memory"),
        (used.vcores + size.vcores, quota.vcores, "core vcores"),
        (used.elastic + size.elastic, quota.elastic, "elastic instances"),
    )
    over = [
        f"{amount} {unit}, the quota is {bound}"
        for amount, bound, unit in bounds
        if bound is not None and amount > bound
    ]
    return f"with it {'; '.join(over)}" if over else ""


def sum_of(first: QuotaSize, second: QuotaSize) -> QuotaSize:
    """Return two sizes together."""
    return QuotaSize(first.memory_mb + second.memory_mb, first.vcores + second.vcores, first.elastic + second.elastic)
