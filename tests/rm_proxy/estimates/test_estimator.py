"""The estimator by example, and what always holds of it."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.config.schema import Estimate
from policies.model import AppView
from quicksilver.common.messages import ContainerEvent, ContainerReport, ContainerState, EventKind
from rm_proxy.domain.records import DurationRecord
from rm_proxy.estimates import estimator as module
from rm_proxy.estimates.duration_tags import bad_tags, tag_hints
from rm_proxy.estimates.estimator import Durations, EstimateSource, Estimator, Expectation, worked_s

REGISTRY = Registry()
FIRST = AppView("a1", type="SPARK", name="etl 2026-11-20")
AGAIN = AppView("a2", type="SPARK", name="etl 2026-11-21")
OTHER = AppView("a3", type="SPARK", name="report")
SETTINGS = Estimate()
SECONDS = st.floats(0.01, 1e6)


def policies(**estimate: Any) -> Policies:
    return Policies.load({"estimate": estimate}, REGISTRY)


PLAIN = policies()


def runs(seconds: float, app: AppView = OTHER, **fields: Any) -> ContainerReport:
    base: dict[str, Any] = {"container_id": "c", "app_id": app.id, "kind": "Q", "memory_mb": 1, "vcores": 1}
    return ContainerReport(**(base | {"state": ContainerState.RUNNING, "since_s": seconds} | fields))


def after(*took_s: float, app: AppView = OTHER, known: Estimator | None = None) -> Estimator:
    known = known or Estimator()
    for seconds in took_s:
        known.observe(app, 0, seconds, SETTINGS)
    return known


def test_a_stage_then_the_name_then_the_default() -> None:
    known = after(10.0, 20.0, 30.0, app=FIRST)
    assert known.expected(FIRST, 0, PLAIN) == Expectation(20.0, 10.0, EstimateSource.STAGE, 3)
    assert known.expected(AGAIN, 0, PLAIN) == Expectation(20.0, 10.0, EstimateSource.NAME, 3), (
        "the date is no part of the name"
    )
    assert known.expected(FIRST, 1, PLAIN) == Expectation(10.0), "another priority is another stage"
    assert known.expected(OTHER, 0, PLAIN) == Expectation(10.0)
    with pytest.raises(ValueError, match=r"-1\.0 s"):
        known.observe(FIRST, 0, -1.0, SETTINGS)


def test_one_odd_sibling_does_not_decide() -> None:
    """Three earlier tasks of 20 s and one sibling of 60 s: (3 * 20 + 60) / 4."""
    known = after(20.0, 20.0, 20.0, app=FIRST)
    after(60.0, app=AGAIN, known=known)
    got = known.expected(AGAIN, 0, PLAIN)
    assert (got.mean_s, got.source, got.count) == (30.0, EstimateSource.STAGE, 1)
    assert got.spread_s == pytest.approx(math.sqrt((3 * 10**2 + 30**2) / 4))
    assert known.expected(AGAIN, 0, policies(prior_weight=0)).mean_s == 60.0
    assert known.expected(AGAIN, 0, policies(prior_weight=1)).mean_s == 40.0


def test_little_history_counts_little() -> None:
    """One earlier task of 20 s counts as one, not as the three of a hint."""
    known = after(40.0, app=AGAIN, known=after(20.0, app=FIRST))
    assert known.expected(AGAIN, 0, PLAIN).mean_s == 30.0


def test_the_default_is_no_knowledge() -> None:
    assert after(300.0).expected(OTHER, 0, PLAIN) == Expectation(300.0, 0.0, EstimateSource.STAGE, 1)


def test_tags_go_before_rules_and_rules_before_the_default() -> None:
    ruled = policies(rules=[{"match": {"priority": 20}, "expected_s": 7}], default_s=5)
    tagged = replace(OTHER, id="a4", tags=frozenset({"expected_s:12", "expected_s:20:3.5", "nightly"}))
    known = Estimator()
    assert known.expected(OTHER, 20, ruled) == Expectation(7.0, 0.0, EstimateSource.RULE)
    assert known.expected(OTHER, 10, ruled) == Expectation(5.0, 0.0, EstimateSource.DEFAULT)
    assert known.expected(tagged, 20, ruled) == Expectation(3.5, 0.0, EstimateSource.TAG)
    assert known.expected(tagged, 10, ruled) == Expectation(12.0, 0.0, EstimateSource.TAG)
    after(20.0, app=tagged, known=known)
    assert known.expected(tagged, 0, PLAIN).mean_s == 14.0, "a hint counts as three tasks: (3 * 12 + 20) / 4"
    off = policies(rules=[{"match": {"priority": 20}, "expected_s": 7}], tags=False)
    assert known.expected(tagged, 20, off).source is EstimateSource.RULE


@pytest.mark.parametrize(
    "tag", ["expected_s:", "expected_s:0", "expected_s:-1", "expected_s:nan", "expected_s:inf", "expected_s:x:1"]
)
def test_bad_tags_are_named_and_are_no_hints(tag: str) -> None:
    hints = tag_hints(frozenset({tag, "fast", "expected_s:10:4"}))
    assert (hints.bad, hints.of(10), hints.of(20)) == ((tag,), 4.0, None)
    assert bad_tags(["expected_s:1:2:3", "EXPECTED_S:5", "quick"]) == ("expected_s:1:2:3",)


def test_of_several_tags_the_longest_counts() -> None:
    assert tag_hints(frozenset({"expected_s:5", "expected_s:9", "expected_s:7"})).of(1) == 9.0


def test_running_siblings_raise_an_underestimate_before_any_ends() -> None:
    known = after(2.0, 2.0)
    nodes = {OTHER.id: OTHER}
    known.running("n1", [runs(1.0), runs(30.0), runs(30.0)], nodes, PLAIN)
    got = known.expected(OTHER, 0, PLAIN)
    assert (got.mean_s, got.source, got.count) == (25.2, EstimateSource.STAGE, 2), "(2 + 2 + 2 + 2 * 30 + 2 * 30) / 5"
    known.running("n1", [runs(40.0), runs(40.0)], nodes, PLAIN)
    assert known.expected(OTHER, 0, PLAIN).mean_s == 41.0, "a report replaces the last one of its node"
    known.running("n2", [runs(50.0)], nodes, PLAIN)
    assert known.expected(OTHER, 0, PLAIN).mean_s == pytest.approx((2 + 2 + 2 * 40 + 2 * 40 + 2 * 50) / 5)
    known.forget_node("n1")
    known.running("n2", [], nodes, PLAIN)
    assert known.expected(OTHER, 0, PLAIN) == Expectation(2.0, 0.0, EstimateSource.STAGE, 2)


def test_what_does_not_run_and_who_does_not_count() -> None:
    known, apps = after(2.0), {OTHER.id: OTHER}
    waiting = runs(60.0, state=ContainerState.WAITING)
    known.running("n1", [waiting, runs(60.0, am=True), runs(60.0, app_id="gone")], apps, PLAIN)
    shrunk = runs(60.0, state=ContainerState.SHRUNK, attained_s=1.5, times_shrunk=1)
    known.running("n2", [shrunk], apps, PLAIN)
    assert known.expected(OTHER, 0, PLAIN).mean_s == 2.0, "it stood still, and was given less than is expected"


def test_running_ones_tell_of_a_job_of_which_nothing_is_known() -> None:
    known = Estimator()
    known.running("n1", [runs(8.0), runs(25.0)], {OTHER.id: OTHER}, PLAIN)
    assert known.expected(OTHER, 0, PLAIN) == Expectation(17.5, 7.5, EstimateSource.STAGE, 0)


def test_an_overestimate_comes_down_with_completions() -> None:
    tagged = replace(OTHER, tags=frozenset({"expected_s:100"}))
    known, means = Estimator(), []
    for _ in range(30):
        after(10.0, app=tagged, known=known)
        means.append(known.expected(tagged, 0, PLAIN).mean_s)
    assert means == sorted(means, reverse=True)
    assert means[0] == 77.5 and means[2] == 55.0
    assert means[-1] == pytest.approx((3 * 100 + 30 * 10) / 33)


def test_a_rerun_takes_longer_than_its_task_ran_before() -> None:
    known = after(10.0, 20.0, 30.0)
    known.lost("killed", 25.0)
    again = known.expected(OTHER, 0, PLAIN, "killed")
    assert again.source is EstimateSource.TASK and again.mean_s > 27.0
    known.lost("shed", 0.0, "killed")
    assert known.expected(OTHER, 0, PLAIN, "shed") == again, "shed before its start: still the same task"
    known.lost("killed again", 5.0, "shed")
    assert known.expected(OTHER, 0, PLAIN, "killed again") == again
    known.lost("fresh", 0.0)
    assert known.expected(OTHER, 0, PLAIN, "fresh") == known.expected(OTHER, 0, PLAIN)


def test_old_runs_fade() -> None:
    settings = Estimate(history_tasks=10)
    known = Estimator()
    for seconds in [100.0] * 1000 + [10.0] * 30:
        known.observe(FIRST, 0, seconds, settings)
    assert known.expected(AGAIN, 0, PLAIN).mean_s < 15.0
    assert known.expected(AGAIN, 0, PLAIN).count == 10


def test_what_is_kept_comes_back() -> None:
    known = after(10.0, 20.0, 30.0, app=FIRST)
    (record,) = known.changed(10, 5.0)
    assert record == DurationRecord("SPARK", "etl #", 0, 3, 20.0, 200.0, 5.0)
    assert known.changed(10, 6.0) == [], "only what changed since"
    fresh = after(40.0, app=OTHER, known=Estimator())
    after(60.0, app=AGAIN, known=fresh)
    fresh.restore([record, replace(record, app_name="bad", mean_s=math.nan), replace(record, app_name="none", count=0)])
    both = fresh.expected(replace(AGAIN, id="a9"), 0, PLAIN)
    assert (both.mean_s, both.count) == (30.0, 4)
    assert fresh.expected(replace(AGAIN, id="a8", name="bad"), 0, PLAIN).source is EstimateSource.DEFAULT
    assert [r.app_name for r in fresh.changed(1, 7.0)] == ["report"], "a few at a time, the rest later"
    assert [(r.app_name, r.count) for r in fresh.changed(9, 8.0)] == [("etl #", 4)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEYS", 50)
    known = Estimator()
    for number in range(300):
        app = AppView(f"a{number}", name="job-" + "x" * (number % 90))
        known.observe(app, 0, 1.0, SETTINGS)
        known.running(f"n{number}", [runs(99.0, app)], {app.id: app}, PLAIN)
    sizes = [len(known._stages), len(known._names), len(known._changed)]
    assert max(sizes) <= 50
    for number in range(300):
        known.forget_node(f"n{number}")
    assert not known._running, "stages that were forgotten meanwhile do no harm"
    known.restore(DurationRecord("T", f"n{n}", 0, 1, 1.0, 0.0, 0.0) for n in range(300))
    assert len(known._names) <= 50


def test_shrunk_containers_worked_as_long_as_they_had_cpu() -> None:
    event = ContainerEvent(seq=1, container_id="c", kind=EventKind.ENDED, at_s=0, ran_s=9.0, attained_s=4.0)
    assert worked_s(event) == 9.0
    assert worked_s(event.model_copy(update={"times_shrunk": 1})) == 4.0
    assert worked_s(event.model_copy(update={"ran_s": None})) is None


# What always holds


@given(
    done=st.lists(SECONDS, max_size=30),
    earlier=st.lists(SECONDS, max_size=30),
    ages=st.lists(st.floats(0, 1e6), max_size=10),
    tag=st.none() | st.floats(0.01, 1e6),
    prior_weight=st.floats(0, 1000),
)
def test_expectations_lie_between_the_least_and_the_most_that_is_known(
    done: list[float], earlier: list[float], ages: list[float], tag: float | None, prior_weight: float
) -> None:
    app = replace(AGAIN, tags=frozenset() if tag is None else frozenset({f"expected_s:{tag!r}"}))
    loaded = policies(prior_weight=prior_weight)
    known = after(*done, app=app, known=after(*earlier, app=FIRST))
    known.running("n", [runs(age, app) for age in ages], {app.id: app}, loaded)
    got = known.expected(app, 0, loaded)
    among = [*done, *earlier, *ages, *(2 * age for age in ages), 10.0 if tag is None else tag]
    assert min(among) * (1 - 1e-6) <= got.mean_s <= max(among) * (1 + 1e-6)
    assert 0 <= got.spread_s < math.inf and got.spread_s <= 1.5 * (max(among) - min(among)) + 1e-3 * max(among)


@example(done=[2.0], ages=[1.9, 30.0], more_s=0.2)
@given(
    done=st.lists(SECONDS, max_size=10),
    ages=st.lists(st.floats(0, 1e5), min_size=1, max_size=8),
    more_s=st.floats(0, 1e5),
)
def test_the_older_running_ones_are_the_longer_a_task_is_expected_to_run(
    done: list[float], ages: list[float], more_s: float
) -> None:
    known, apps = after(*done), {OTHER.id: OTHER}
    older = [ages[0] + more_s, *ages[1:]]
    means = [known.expected(OTHER, 0, PLAIN).mean_s]
    for now in (ages, older):
        known.running("n", [runs(age) for age in now], apps, PLAIN)
        means.append(known.expected(OTHER, 0, PLAIN).mean_s)
    assert means[1] >= means[0] * (1 - 1e-9) - 0.001 and means[2] >= means[1] * (1 - 1e-9) - 0.001


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.floats(0, 1e4), max_size=5)), max_size=30))
def test_nothing_is_left_of_reports_when_all_nodes_are_empty(reports: list[tuple[int, list[float]]]) -> None:
    known, apps = after(5.0), {OTHER.id: OTHER}
    for node, ages in reports:
        known.running(f"n{node}", [runs(age) for age in ages], apps, PLAIN)
    for node in range(4):
        known.running(f"n{node}", [], apps, PLAIN)
    assert known.expected(OTHER, 0, PLAIN) == Expectation(5.0, 0.0, EstimateSource.STAGE, 1)


@given(st.lists(SECONDS, max_size=20), st.lists(SECONDS, max_size=20))
def test_merged_durations_are_those_of_all(some: list[float], others: list[float]) -> None:
    one, two, both = Durations(), Durations(), Durations()
    for into, values in ((one, some), (two, others), (both, some + others)):
        for value in values:
            into.add(value)
    one.merge(two)
    assert one.count == both.count
    assert one.mean_s == pytest.approx(both.mean_s, rel=1e-9)
    assert one.spread_s == pytest.approx(both.spread_s, rel=1e-6, abs=1e-6 * (both.mean_s + 1))
