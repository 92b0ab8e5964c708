"""Estimates on their way: what the coordinator learns from sidecars, and what it tells them and the attempts."""

from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind
from quicksilver.common.messages import ContainerReport, ContainerState, EventKind, Grant
from rm_proxy.attempt.allocate_exchange import MAX_BAD_TAGS
from rm_proxy.attempt.effects import Announce, BadTags, Estimated, Granted
from rm_proxy.domain.records import AppRecord
from rm_proxy.estimates.estimator import MAX_KEYS, EstimateSource, Estimator
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    Am,
    cid,
    container,
    container_report,
    coordinator,
    ended,
    event,
    granted_rows,
    node_id,
    report,
    row,
)


def given(am: Am, *numbers: int) -> list[Grant]:
    """Have the ResourceManager grant what was asked for; returns what the sidecars are told."""
    am.gets(*(container(n, 1, r) for n, r in zip(numbers, granted_rows(am.sent.ask).values(), strict=True)))
    return [effect.grant for effect in am.effects if isinstance(effect, Announce)]


def application(count: int, **more: Any) -> Am:
    am = Am(coordinator(ALL_Q | {"estimate": {"default_s": 12}}, nodes=1, **more))
    am.asks(row("*", count))
    return am


def at_node(number: int, state: ContainerState, since_s: float = 0.0) -> ContainerReport:
    return container_report(number, state=state, priority=20, since_s=since_s)


def test_grants_tell_spread_and_what_the_job_has_left() -> None:
    am = application(2)
    first = given(am, 1, 2)
    assert [(g.expected_s, g.spread_s, g.job_remaining_s) for g in first] == [(12.0, 0.0, 24.0), (12.0, 0.0, 24.0)]
    ends = [event(n, EventKind.ENDED, seq=n, ran_s=s) for n, s in ((1, 10.0), (2, 20.0))]
    am.world.reports.report(node_id(1), report(1, events=ends), 1.0)
    am.world.rounds.all_parts(2.0)
    am.asks(row("*", 3))
    (third, *_) = given(am, 3, 4, 5)
    assert third.expected_s == 15.0 and third.spread_s == pytest.approx(7.07, abs=0.01)


def test_asks_know_the_spread() -> None:
    am = application(2)
    given(am, 1, 2)
    ends = [event(n, EventKind.ENDED, seq=n, ran_s=s) for n, s in ((1, 10.0), (2, 20.0))]
    am.world.reports.report(node_id(1), report(1, events=ends), 1.0)
    am.asks(row("*", 1))
    (q,) = am.attempt.table.by_private.values()
    assert (q.ask.expected_s, round(q.ask.spread_s, 2)) == (15.0, 7.07)


def test_a_job_has_left_what_is_wanted_what_waits_and_what_runs_on() -> None:
    am = application(4)
    given(am, 1, 2, 3, 4)
    am.asks(row("*", 5), row("*", 2, priority=10))
    am.world.rounds.all_parts(1.0)
    wanted_s = 12.0 * 7
    assert am.world.durations.job_remaining_s(APP, 1.0) == wanted_s + 12.0 * 4
    am.world.reports.report(node_id(1), report(1, events=[event(1, EventKind.STARTED)]), 2.0)
    assert am.world.durations.job_remaining_s(APP, 2.0) == wanted_s + 12.0 * 4, "computed once a round"
    am.world.rounds.all_parts(5.0)
    assert am.world.durations.job_remaining_s(APP, 5.0) == wanted_s + 12.0 * 3 + 9.0
    am.world.rounds.all_parts(22.0)
    assert am.world.durations.job_remaining_s(APP, 22.0) == wanted_s + 12.0 * 3 + 1.2, (
        "a tenth more for what outlived it"
    )
    assert am.world.durations.job_remaining_s("application_1_0009", 22.0) == 0.0
    am.attempt.end("over")
    am.world.rounds.all_parts(23.0)
    assert am.world.durations.job_remaining_s(APP, 23.0) == 0.0


def test_nodes_are_told_what_the_jobs_have_left_that_wait_there() -> None:
    am = application(3)
    given(am, 1, 2, 3)
    here = [at_node(1, ContainerState.WAITING), at_node(2, ContainerState.RUNNING)]
    before = am.world.reports.report(node_id(1), report(1, containers=here), 1.0)
    assert before.targets is None, "the sidecar keeps what it had from an earlier proxy"
    am.world.rounds.all_parts(1.0)
    after = am.world.reports.report(node_id(1), report(1, containers=here), 1.0).targets
    assert after is not None and after.job_remaining_s == {APP: 36.0}
    nobody = am.world.reports.report(node_id(1), report(1, containers=here[1:]), 1.0).targets
    assert nobody is not None and nobody.job_remaining_s == {}


def test_running_ones_correct_what_is_expected_of_the_next() -> None:
    am = application(3)
    given(am, 1, 2, 3)
    app = am.world.apps.app(APP)
    assert app is not None
    here = [at_node(1, ContainerState.RUNNING, 60.0), at_node(2, ContainerState.RUNNING, 60.0)]
    am.world.reports.report(node_id(1), report(1, containers=here), 60.0)
    assert am.world.durations.expected(app, 20).mean_s == 60.0
    am.world.rounds.all_parts(61.0)
    assert am.world.durations.expected(app, 20).mean_s == 60.0
    am.world.rounds.all_parts(70.0)
    assert am.world.durations.expected(app, 20).mean_s == 12.0, (
        "the node is silent: nobody knows whether they still run"
    )


def test_the_rerun_of_a_killed_task_is_expected_to_run_longer() -> None:
    am = application(1)
    given(am, 1)
    events = [event(1, EventKind.STARTED, seq=1), event(1, EventKind.KILLED, seq=2, ran_s=50.0)]
    am.world.reports.report(node_id(1), report(1, events=events), 51.0)
    am.asks()
    am.gets(completed=[ended(1, -105)])
    am.asks(row("*", 1))
    (again,) = given(am, 2)
    assert again.sheds == 1 and again.expected_s == pytest.approx(51.2)
    live = am.attempt.live.get(cid(2))
    assert live is not None and (live.source, live.follows) == (EstimateSource.TASK, cid(1))


def test_each_end_tells_how_good_the_estimate_was() -> None:
    am = application(3)
    given(am, 1, 2, 3)
    am.asks(release=[2])
    ends = [
        event(1, EventKind.ENDED, seq=1, ran_s=18.0),
        event(2, EventKind.ENDED, seq=2, ran_s=1.0),
        event(3, EventKind.KILLED, seq=3, ran_s=1.0),
    ]
    am.world.reports.report(node_id(1), report(1, events=ends), 20.0)
    estimated = [effect for effect in am.world.take_effects() if isinstance(effect, Estimated)]
    assert estimated == [Estimated(EstimateSource.DEFAULT, 12.0, 18.0)], (
        "neither one that was given up early nor a killed one"
    )
    app = am.world.apps.app(APP)
    assert app is not None and am.world.durations.expected(app, 20).count == 1


def scheduling(am: Am, *requests: tuple[int, tuple[str, ...]]) -> None:
    """Send SchedulingRequests: priority and allocation tags of each."""
    body = y.AllocateRequestProto(response_id=am.response_id)
    for priority, tags in requests:
        body.scheduling_requests.add(allocationTags=tags).priority.priority = priority
    assert am.attempt.exchange.on_allocate(body.SerializeToString(), am.now_s) is None, "they pass as they came"


def expected_s(am: Am, *priorities: int) -> list[float]:
    app = am.world.apps.app(APP)
    assert app is not None
    return [am.world.durations.expected(app, priority).mean_s for priority in priorities]


def test_scheduling_requests_name_durations_in_their_allocation_tags() -> None:
    """Of several of a priority the longest counts; they come before the tags of the application."""
    am = Am(coordinator(tags=("expected_s:7",)))
    assert expected_s(am, 1, 2, 3) == [7.0, 7.0, 7.0]
    scheduling(am, (1, ("hbase", "Expected_s:12.5")), (2, ("expected_s:3",)), (2, ("expected_s:4",)), (3, ("web",)))
    assert expected_s(am, 1, 2, 3) == [12.5, 4.0, 7.0]
    am.gets()
    scheduling(am, (2, ("expected_s:2",)))
    assert expected_s(am, 1, 2, 3) == [12.5, 2.0, 7.0], "the latest request counts"
    app = am.world.apps.app(APP)
    assert app is not None and am.world.durations.expected(app, 1).source is EstimateSource.TAG
    assert app.tags == {"expected_s:7"}, "rules match the tags of applications alone"
    am.gets(container(1, 1, row("*", 1, 1)))
    (grant,) = (effect.record for effect in am.effects if isinstance(effect, Granted))
    assert (grant.kind, grant.expected_s, grant.expected_by) == (Kind.GUARANTEED, 12.5, "tag")


def test_allocation_tags_are_not_read_where_tags_are_not() -> None:
    am = Am(coordinator({**ALL_Q, "estimate": {"tags": False, "default_s": 9}}))
    scheduling(am, (1, ("expected_s:12",)))
    assert expected_s(am, 1) == [9.0]


def test_allocation_tags_of_a_user_who_lies_are_corrected() -> None:
    am = Am(coordinator())
    estimator = am.world.durations.estimator
    for _ in range(5):
        estimator.honesty.observe("u", 1.0, 10.0)
    scheduling(am, (1, ("expected_s:2",)))
    app = am.world.apps.app(APP)
    assert app is not None
    expects = am.world.durations.expected(app, 1)
    assert expects.source is EstimateSource.DOUBTED_TAG and expects.mean_s > 4.0
    ran = estimator.honesty.of("u").times
    for _ in range(3):
        estimator.observe(app, 1, 2.0, am.world.policies.estimate(app))
    assert estimator.honesty.of("u").times < ran, "a stage of which a request named the duration counts, too"


def test_bad_allocation_tags_are_told_once_each_and_not_for_ever() -> None:
    am = Am(coordinator())
    for _ in range(2):
        scheduling(am, (1, ("expected_s:soon", "expected_s:4")))
        am.gets()
    assert expected_s(am, 1) == [4.0]
    for number in range(30):
        scheduling(am, (1, (f"expected_s:-{number}",)))
        am.gets()
    assert len(am.attempt.exchange._bad_tags) == MAX_BAD_TAGS
    am = Am(coordinator())
    scheduling(am, (1, ("expected_s:soon",)))
    am.gets()
    assert [effect for effect in am.effects if isinstance(effect, BadTags)] == [BadTags(APP, ("expected_s:soon",))]
    scheduling(am, (1, ("expected_s:soon",)))
    am.gets()
    assert not am.effects


def test_durations_that_requests_name_are_bounded() -> None:
    estimator = Estimator()
    for number in range(MAX_KEYS + 5):
        estimator.named(APP, {number: 1.0})
    assert len(estimator._named) == MAX_KEYS


def test_bad_tags_are_told_once() -> None:
    world = coordinator(tags=("expected_s:soon", "expected_s:20:4", "nightly"))
    app = world.apps.app(APP)
    assert app is not None
    mean_s = [world.durations.expected(app, priority).mean_s for priority in (20, 10)]
    assert mean_s == [4.0, 10.0]
    bad = [effect for effect in world.take_effects() if isinstance(effect, BadTags)]
    assert bad == [BadTags(APP, ("expected_s:soon",))]
    world.inventory.update_app(
        AppRecord(APP, "default", "u", "MAPREDUCE", "job", ("expected_s:soon",), 0, 0.0, finished_s=9.0)
    )
    assert not [effect for effect in world.take_effects() if isinstance(effect, BadTags)]


def test_sidecars_are_told_durations_that_they_do_not_know() -> None:
    am = application(4)
    given(am, 1, 2, 3, 4)
    am.world.rounds.all_parts(0.5)

    def news(expected_s: float, **more: Any) -> list[tuple[int, float, float]]:
        here = at_node(1, ContainerState.RUNNING, 1.0).model_copy(update={"expected_s": expected_s} | more)
        ack = am.world.reports.report(node_id(1), report(1, containers=[here]), 1.0)
        assert ack.targets is not None
        return [(each.priority, each.expected_s, round(each.spread_s, 2)) for each in ack.targets.expected]

    assert news(12.0) == []
    ends = [event(n, EventKind.ENDED, seq=n, ran_s=s) for n, s in ((3, 20.0), (4, 30.0))]
    am.world.reports.report(node_id(1), report(1, events=ends), 1.0)
    assert news(12.0) == [], "what is expected is computed once a round"
    am.world.rounds.all_parts(1.5)
    assert news(12.0) == [(20, 25.0, 7.07)]
    assert news(0.0, kind="G") == [(20, 25.0, 7.07)], "a guaranteed one has no estimate otherwise"
    assert news(24.0) == [], "near enough"
    assert news(12.0, am=True) == []
    assert news(12.0, app_id="application_1_0009") == [], "an application that is not known"
