"""What a sidecar measures before it asks a policy: the CPU time of containers that may be killed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

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


def test_a_container_that_has_run_for_less_than_its_queue_protects_is_killed_last() -> None:
    settings = {"preempt": {"policy": "kill_newest"}, "protect": [{"queue": "root.batch", "protect_s": 60}]}
    policies = GuardedPolicies(Policies.load(settings), SidecarMetrics())
    young, younger = (replace(q(name, at_s), queue="root.batch.etl") for name, at_s in (("young", 50), ("younger", 90)))
    assert policies.victims(ONE, [q("old", 10), young, younger], 100.0) == ["old"]
    assert policies.victims(Resources(2048, 2), [q("old", 10), young, younger], 100.0) == ["old", "younger"]
    assert policies.victims(ONE, [q("old", 10), young, younger], 110.0) == ["young"]
    assert policies.victims(ONE, [young, younger], 100.0) == ["younger"], "not where nobody else is there"


def test_a_notice_is_given_to_masters_of_the_types_that_are_named() -> None:
    policies = GuardedPolicies(Policies.load({"notice": {"wait_s": 15}}), SidecarMetrics())
    assert [policies.notice_s(kind) for kind in ("MAPREDUCE", "mapreduce", "SPARK")] == [15, 15, 0]
    assert GuardedPolicies(Policies.load({}), SidecarMetrics()).notice_s("MAPREDUCE") == 0
