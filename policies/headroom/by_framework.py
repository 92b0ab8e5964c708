"""Report to each framework the headroom that keeps its own planning sound beside queueable containers.

MapReduce adds headroom to what it holds, and starts reduces by the sum: queueable maps would count twice, so they are
taken off. Tez kills its own tasks when its most urgent ask does not fit the headroom: it sees at least that ask while a
node has room for it. Source: RMContainerAllocator of Hadoop 3.4, YarnTaskSchedulerService of Tez 0.10.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, field_validator

from policies.base import Policy, PolicyConfig
from policies.model import AppView, Resources


class FrameworkRule(StrEnum):
    """How a framework's headroom is made from the ResourceManager's."""

    AS_IS = "as_is"
    LESS_QUEUEABLE = "less_queueable"
    """Less the use of the application's queueable containers."""
    AT_LEAST_NEXT = "at_least_next"
    """At least the most urgent ask, while a node has room for it as a queueable container."""


class ByFramework(PolicyConfig):
    """Settings of by_framework."""

    rules: dict[str, FrameworkRule] = Field(
        {"MAPREDUCE": FrameworkRule.LESS_QUEUEABLE, "TEZ": FrameworkRule.AT_LEAST_NEXT},
        json_schema_extra={"source": "Hadoop 3.4 RMContainerAllocator, Tez 0.10 YarnTaskSchedulerService"},
    )
    """YARN application type: as_is, less_queueable or at_least_next; types not named are as_is."""

    @field_validator("rules")
    @classmethod
    def _upper_case(cls, rules: dict[str, FrameworkRule]) -> dict[str, FrameworkRule]:
        return {kind.upper(): rule for kind, rule in rules.items()}


def headroom(limit: Resources, app: AppView, cfg: ByFramework) -> Resources:
    """Return the headroom for `app` in MB and vcores, never negative."""
    rule = cfg.rules.get(app.type.upper(), FrameworkRule.AS_IS)
    if rule is FrameworkRule.LESS_QUEUEABLE:
        limit = limit - app.used_q
    elif rule is FrameworkRule.AT_LEAST_NEXT:
        limit = Resources(max(limit.memory_mb, app.next_q.memory_mb), max(limit.vcores, app.next_q.vcores))
    return Resources(max(0, limit.memory_mb), max(0, limit.vcores))


POLICY = Policy("by_framework", ByFramework, headroom)
