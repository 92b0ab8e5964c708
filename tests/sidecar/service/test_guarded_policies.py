"""What a sidecar measures before it asks a policy: the CPU time of containers that may be killed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from policies.config.policy_set import Policies
from policies.model import ContainerView, Kind, Resources
from sidecar.metrics import SidecarMetrics
from sidecar.service.guarded_policies import GuardedPolicies

ONE = Resources(1024, 1)


def q(name: str, started_s: float, attained_s: float | None = None) -> ContainerView:
    return ContainerView(name, "app", Kind.QUEUEABLE, ONE, started_s=started_s, attained_s=attained_s)


@pytest.mark.parametrize(
    ("policy", "measured", "victim"),
    [("kill_least_work", [["idle", "busy", "unseen"]], "idle"), ("kill_newest", [], "unseen")],
)
def test_cpu_time_is_read_where_the_policy_looks_at_it(policy: str, measured: list[list[str]], victim: str) -> None:
    asked: list[list[str]] = []

    def cpu_times(container_ids: Collection[str]) -> Mapping[str, float]:
        asked.append(list(container_ids))
        return {"idle": 0.1, "busy": 9.0}

    policies = GuardedPolicies(Policies.load({"preempt": {"policy": policy}}), SidecarMetrics())
    policies.cpu_times = cpu_times
    running = [q("idle", 10), q("busy", 80), q("unseen", 95), q("known", 20, attained_s=3.0)]
    assert policies.victims(ONE, running, 100.0) == [victim]
    assert asked == measured


def test_one_that_cannot_be_seen_counts_by_its_age() -> None:
    policies = GuardedPolicies(Policies.load({"preempt": {"policy": "kill_least_work"}}), SidecarMetrics())
    policies.cpu_times = lambda container_ids: {"old": 7.0}
    assert policies.victims(ONE, [q("old", 10), q("young", 95)], 100.0) == ["young"]
