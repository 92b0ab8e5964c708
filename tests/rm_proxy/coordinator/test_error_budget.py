"""The error budget: who goes to bypass when, what a trial is, and what no single application can do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.messages import EventKind
from rm_proxy.attempt.effects import BudgetTurned, BypassPhase, DropHeld, Refused, Turned
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import MAX_APPS, SLICES, BudgetLimits, ErrorBudget, FaultKind, Sum
from tests.rm_proxy.yarn_messages import (
    APP,
    ATTEMPT,
    Am,
    cid,
    container,
    coordinator,
    ended,
    event,
    granted_rows,
    row,
    shown,
)

LIMITS = BudgetLimits(window_s=60, app_faults=3, faults=5, apps=2, apps_ratio=0.5, quiet_s=100, trial_s=50)
ALIVE = [f"application_1_{n:04}" for n in range(1, 5)]


def spend(budget: ErrorBudget, now_s: float, *apps: str, kind: FaultKind = FaultKind.POLICY) -> None:
    for app_id in apps:
        for _ in range(budget.limits.app_faults):
            budget.note(kind, app_id, now_s)


def turns(budget: ErrorBudget, now_s: float, alive: list[str] = ALIVE) -> list[tuple[str, str]]:
    users = {app_id: f"user of {app_id}" for app_id in alive}
    return [(turn.app_id, turn.phase.value) for turn in budget.round(users, now_s)]


def test_one_application_goes_alone_is_tried_and_comes_back() -> None:
    budget, app = ErrorBudget(LIMITS), ALIVE[0]
    budget.note(FaultKind.PROTOCOL, app, 0)
    budget.note(FaultKind.PROTOCOL, app, 1)
    assert turns(budget, 1) == [] and budget.reason(app) == ""
    budget.note(FaultKind.REFUSED, app, 2)
    assert turns(budget, 2) == [(app, "bypass")]
    assert budget.reason(app) == "its own error budget is spent (2 protocol, 1 refused)"
    assert budget.reason(ALIVE[1]) == "" and budget.phase is BypassPhase.ACTIVE
    assert turns(budget, 101) == []
    assert turns(budget, 102) == [(app, "trial")] and budget.reason(app) == ""
    assert turns(budget, 151) == []
    assert turns(budget, 152) == [(app, "active")]
    assert turns(budget, 153) == [] and budget.apps == {}


def test_a_trial_that_fails_makes_the_next_quiet_time_longer() -> None:
    budget, app = ErrorBudget(LIMITS), ALIVE[0]
    spend(budget, 0, app)
    assert turns(budget, 0) == [(app, "bypass")]
    assert turns(budget, 100) == [(app, "trial")]
    budget.note(FaultKind.POLICY, app, 110)
    assert turns(budget, 110) == [(app, "bypass")], "one fault is enough in a trial"
    assert turns(budget, 309) == [] and turns(budget, 310) == [(app, "trial")]
    for _ in range(5):
        budget.note(FaultKind.POLICY, app, 1000)
        assert turns(budget, 1000) in ([(app, "bypass")], [])
    assert turns(budget, 1399) == [] and turns(budget, 1400) == [(app, "trial")], "doubled twice by now"


def test_faults_in_bypass_keep_it_there() -> None:
    budget, app = ErrorBudget(LIMITS), ALIVE[0]
    spend(budget, 0, app)
    turns(budget, 0)
    budget.note(FaultKind.PROTOCOL, app, 90)
    assert turns(budget, 150) == [] and turns(budget, 190) == [(app, "trial")]


def test_old_faults_are_forgotten() -> None:
    budget = ErrorBudget(LIMITS)
    for now_s in range(0, 1000, 40):
        budget.note(FaultKind.POLICY, ALIVE[0], now_s)
        assert turns(budget, now_s) == []


def test_a_fault_of_our_own_is_enough() -> None:
    budget = ErrorBudget(LIMITS)
    budget.note(FaultKind.INTERNAL, ALIVE[0], 0)
    assert turns(budget, 0) == [(ALIVE[0], "bypass")]


def test_many_applications_take_the_cluster_with_them() -> None:
    budget = ErrorBudget(LIMITS)
    spend(budget, 0, *ALIVE[:2])
    assert ("", "bypass") in turns(budget, 0)
    assert budget.reason("application_1_0099").startswith(
        "2 of 4 applications, of 2 of 4 users, spent their error budgets"
    )
    assert turns(budget, 60) == [], "quiet since 55 s: then the faults had left the window"


def test_few_of_many_do_not() -> None:
    budget = ErrorBudget(LIMITS)
    spend(budget, 0, *ALIVE[:2])
    assert ("", "bypass") not in turns(budget, 0, [f"application_1_{n:04}" for n in range(1, 10)])


USERS = {ALIVE[0]: "ann", ALIVE[1]: "bob", ALIVE[2]: "mallory", ALIVE[3]: "mallory"}


def phases(budget: ErrorBudget, users: dict[str, str]) -> list[str]:
    return [turn.phase.value for turn in budget.round(users, 0) if not turn.app_id]


def test_the_broken_applications_of_one_user_cost_that_user_alone() -> None:
    budget = ErrorBudget(LIMITS)
    spend(budget, 0, *ALIVE[2:])
    assert phases(budget, USERS) == [] and budget.phase is BypassPhase.ACTIVE
    assert all(budget.reason(app_id) for app_id in ALIVE[2:])
    assert not any(map(budget.reason, ALIVE[:2]))
    spend(budget, 0, ALIVE[0])
    assert phases(budget, USERS) == ["bypass"], "two users of three"


def test_the_broken_applications_of_the_only_user_take_the_cluster() -> None:
    budget = ErrorBudget(LIMITS)
    spend(budget, 0, ALIVE[0])
    assert phases(budget, dict.fromkeys(ALIVE, "ann")) == []
    spend(budget, 0, ALIVE[1])
    assert phases(budget, dict.fromkeys(ALIVE, "ann")) == ["bypass"]


def test_one_broken_application_of_many_does_not_make_a_user_count() -> None:
    many = {f"application_1_{n:04}": ("ann" if n < 100 else "mallory") for n in range(150)}
    budget = ErrorBudget(LIMITS)
    spend(budget, 0, *(app_id for app_id, user in many.items() if user == "mallory"), next(iter(many)))
    assert phases(budget, many) == []


def test_what_a_peer_sends_counts_for_it_alone() -> None:
    budget = ErrorBudget(LIMITS)
    spend(budget, 0, *ALIVE, kind=FaultKind.PROTOCOL)
    assert turns(budget, 0) == [(app_id, "bypass") for app_id in ALIVE]


def test_faults_of_nobody_take_the_cluster() -> None:
    budget = ErrorBudget(LIMITS)
    for _ in range(5):
        budget.note(FaultKind.INTERNAL, "", 0)
    assert turns(budget, 0) == [("", "bypass")]


def test_lateness_takes_the_cluster_and_one_pause_does_not() -> None:
    budget = ErrorBudget(LIMITS)
    budget.measure(3600.0, 3600.0, 10)
    assert turns(budget, 10) == []
    budget = ErrorBudget(LIMITS)
    for now_s in range(0, 30, 2):
        budget.measure(1.5, 2.0, now_s)
    assert turns(budget, 30) == [("", "bypass")]
    assert budget.why == "answers were more than 1 s late for 50% of the last 60 s"


def test_what_is_as_late_as_a_healthy_one_counts_for_nothing() -> None:
    budget = ErrorBudget(LIMITS)
    for now_s in range(200):
        budget.measure(0.9, 1.0, now_s)
        assert turns(budget, now_s) == []


def back_on_trial(now_s: float) -> ErrorBudget:
    """A cluster that went to bypass and is tried again at `now_s`."""
    budget = ErrorBudget(BudgetLimits(60, 3, 5, 2, 0.5, quiet_s=100, trial_s=50, trial_ratio=0.5))
    for _ in range(5):
        budget.note(FaultKind.INTERNAL, "", now_s - 200)
    assert turns(budget, now_s - 200) == [("", "bypass")]
    assert turns(budget, now_s - 150) == [], "quiet begins when the faults have left the window"
    assert turns(budget, now_s) == [("", "trial")]
    return budget


def test_a_part_is_tried_first_then_all() -> None:
    many = [f"application_1_{n:04}" for n in range(1000)]
    budget = back_on_trial(300)
    tried = [app_id for app_id in many if not budget.reason(app_id)]
    assert 400 < len(tried) < 600
    assert turns(budget, 349) == [] and turns(budget, 350) == [("", "active")]
    assert not any(map(budget.reason, many))


def test_a_failing_trial_ends_at_once() -> None:
    budget = back_on_trial(300)
    tried = [app_id for app_id in ALIVE if not budget.reason(app_id)]
    assert tried
    spend(budget, 310, *tried)
    assert ("", "bypass") in turns(budget, 310)
    assert ("", "trial") not in turns(budget, 509), "twice as long"
    assert ("", "trial") in turns(budget, 510)


def test_one_that_was_over_its_budget_before_does_not_fail_the_trial() -> None:
    budget = back_on_trial(300)
    tried = next(app_id for app_id in ALIVE if not budget.reason(app_id))
    budget = ErrorBudget(budget.limits)
    for _ in range(5):
        budget.note(FaultKind.INTERNAL, "", 0)
    turns(budget, 0)
    for now_s in range(0, 160, 10):
        spend(budget, now_s, tried)
        assert ("", "bypass") not in turns(budget, now_s)
    assert budget.phase is BypassPhase.TRIAL
    spend(budget, 161, tried)
    assert turns(budget, 161) == []


def test_orders_rule_over_the_budget_and_auto_begins_anew() -> None:
    budget = ErrorBudget(LIMITS)
    assert budget.command("on", 0) == [Turned("", BypassPhase.BYPASS, "ordered")]
    assert budget.reason(ALIVE[0]) == "ordered" and turns(budget, 10_000) == []
    budget.command("off", 10_000)
    spend(budget, 10_000, *ALIVE)
    assert turns(budget, 10_000) == [] and budget.reason(ALIVE[0]) == ""
    budget.command("auto", 10_100)
    assert turns(budget, 10_100) == [] and not any(map(budget.reason, ALIVE))
    spend(budget, 10_100, ALIVE[0])
    assert turns(budget, 10_100) == [(ALIVE[0], "bypass")]


STEPS = st.one_of(
    st.tuples(st.just("fault"), st.sampled_from(list(FaultKind)), st.sampled_from(["", *ALIVE])),
    st.tuples(st.just("late"), st.floats(0, 5), st.floats(0.1, 10)),
    st.tuples(st.just("round"), st.floats(0.1, 200), st.just("")),
    st.tuples(st.just("order"), st.sampled_from(["on", "off", "auto"]), st.just("")),
)


@given(st.lists(STEPS, max_size=80))
def test_turns_tell_all_that_changes_and_a_quiet_cluster_comes_back(steps: list[tuple[str, object, object]]) -> None:
    """Whoever hears of the turns alone knows who is in bypass; after hours without a fault nobody is."""
    budget, now_s = ErrorBudget(LIMITS), 0.0
    cluster, apps = BypassPhase.ACTIVE, dict[str, BypassPhase]()

    def hear(turned: list[Turned]) -> None:
        nonlocal cluster
        for turn in turned:
            if turn.app_id:
                apps[turn.app_id] = turn.phase
            else:
                cluster = turn.phase

    for what, one, other in steps:
        if what == "fault":
            budget.note(one, other, now_s)  # type: ignore[arg-type]
        elif what == "late":
            budget.measure(one, other, now_s)  # type: ignore[arg-type]
        elif what == "round":
            now_s += one  # type: ignore[operator]
            hear(budget.round(dict.fromkeys(ALIVE, "ann"), now_s))
        else:
            hear(budget.command(one, now_s))  # type: ignore[arg-type]
            apps.clear()
        assert cluster is budget.phase
        if budget.order == "auto":
            for app_id in ALIVE:
                alone = apps.get(app_id) is BypassPhase.BYPASS
                assert bool(budget.reason(app_id)) >= alone
                if cluster is BypassPhase.ACTIVE:
                    assert bool(budget.reason(app_id)) == alone
    hear(budget.command("auto", now_s) if budget.order != "auto" else [])
    for _ in range(200):
        now_s += 60
        hear(budget.round(dict.fromkeys(ALIVE, "ann"), now_s))
    assert cluster is BypassPhase.ACTIVE and not any(map(budget.reason, ALIVE)) and not budget.apps


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 5)), max_size=60))
def test_a_sum_holds_a_window_give_or_take_a_part(steps: list[tuple[float, int]]) -> None:
    total, now_s, added = Sum(60.0), 0.0, list[tuple[float, int]]()
    for later_s, amount in steps:
        now_s += later_s
        total.add(amount, now_s)
        added.append((now_s, amount))
        least = sum(a for at, a in added if at > now_s - 60 + 60 / SLICES)
        most = sum(a for at, a in added if at > now_s - 60)
        assert least <= total.total(now_s) <= most


def test_memory_is_bounded() -> None:
    budget = ErrorBudget(LIMITS)
    for number in range(MAX_APPS + 500):
        budget.note(FaultKind.PROTOCOL, f"application_1_{number}", number)
    assert len(budget.faulty) == MAX_APPS
    summed = Sum(60.0)
    for now_s in range(100_000):
        summed.add(1, now_s)
        assert len(summed._parts) <= 2 * SLICES


# At the attempts


def holding(world: Coordinator) -> Am:
    """One container runs, one waits at its node, one is asked for, and one waits for a node."""
    am = Am(world)
    am.asks(row("*", 2))
    am.gets(*(container(n, 1, r) for n, r in enumerate(granted_rows(am.sent.ask).values(), 1)))
    am.attempt.containers.on_event(event(1, EventKind.STARTED), 0.5)
    am.attempt.containers.on_event(event(2, EventKind.HELD, 2), 0.5)
    am.asks(row("*", 2))
    assert len(granted_rows(am.sent.ask)) == 2
    return am


def guaranteed(rows: list[y.ResourceRequestProto]) -> int:
    return sum(count for name, count, kind, _ in shown(rows) if name == "*" and kind == "G")


@pytest.mark.parametrize("alone", [True, False])
def test_bypass_strands_nothing(alone: bool) -> None:
    world = coordinator()
    am = holding(world)
    if alone:
        world.modes.budget.note(FaultKind.INTERNAL, APP, 1.0)
        world.rounds.all_parts(1.0)
    else:
        world.modes.bypass("on", 1.0)
    turned = [e.turned for e in world.take_effects() if isinstance(e, BudgetTurned)]
    assert [t.phase for t in turned] == [BypassPhase.BYPASS]
    am.gets()
    assert guaranteed(am.asks()) == 2, "what was wanted goes out as guaranteed, with all its rows"
    am.gets()
    assert guaranteed(am.asks(row("*", 5))) == 5 and not granted_rows(am.sent.ask), "nothing new is queueable"
    am.attempt.containers.on_event(event(2, EventKind.SHED, 3), 2.0)
    seen = am.gets(completed=[ended(1, -108)])
    assert {(s.container_id.id & 0xFFFFFF, s.exit_status) for s in seen.completed_container_statuses} == {
        (1, -102),
        (2, -102),
    }, "ends are translated as before"
    assert not any(isinstance(e, DropHeld) for e in am.effects), "what is held at nodes goes on"
    world.modes.bypass("off", 3.0)
    am.asks()
    assert len(granted_rows(am.sent.ask)) == 5 and guaranteed(am.asks()) == 0


def test_a_grant_that_comes_late_in_bypass_is_not_lost() -> None:
    world = coordinator()
    am = Am(world)
    am.asks(row("*", 1))
    (asked,) = granted_rows(am.sent.ask).values()
    world.modes.bypass("on", 1.0)
    seen = am.gets(container(1, 1, asked))
    assert [c.id.id & 0xFFFFFF for c in seen.allocated_containers] == [1]
    assert guaranteed(am.asks()) == 0


def test_only_refusals_of_what_was_rewritten_count() -> None:
    world = coordinator()
    am = Am(world)
    am.asks(row("*", 1))
    am.attempt.exchange.on_refused("org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException")
    assert [e for e in am.attempt.take_effects() if isinstance(e, Refused)]
    world.modes.bypass("on", 1.0)
    am.asks()
    am.gets()
    am.asks()
    am.gets()
    am.asks()
    am.attempt.exchange.on_refused("java.lang.NullPointerException")
    assert not [e for e in am.attempt.take_effects() if isinstance(e, Refused)]
    assert cid(1).startswith("container_")


def test_an_opportunistic_ask_that_waits_in_bypass_is_placed_behind_it() -> None:
    world = coordinator()
    am = Am(world)
    world.modes.bypass("on", 0.0)
    assert shown(am.asks(row("*", 2, opportunistic=True))) == [("*", 2, "Q", -1)] and not granted_rows(am.sent.ask)
    am.gets()
    world.modes.bypass("off", 1.0)
    am.asks()
    assert len(granted_rows(am.sent.ask)) == 2
    assert ("*", 0, "Q", -1) in shown(am.sent.ask), "what it went out as is taken back"


@pytest.mark.parametrize("opportunistic", [False, True])
def test_two_thousand_million_containers_cost_no_more_than_one(opportunistic: bool) -> None:
    world = coordinator()
    am = Am(world)
    world.modes.bypass("on", 0.0)
    many = 2**31 - 1
    am.asks(row("*", many, opportunistic=opportunistic))
    am.gets()
    am.asks(row("*", 1, opportunistic=opportunistic))
    am.gets()
    am.asks(row("*", many, opportunistic=opportunistic))
    am.gets()
    world.modes.bypass("off", 1.0)
    am.asks()
    am.gets()
    world.modes.bypass("on", 2.0)
    am.asks()
    am.gets()
    (entry,) = am.attempt.entries
    assert entry.demand == many and entry.undecided == 0


def test_after_a_fault_of_our_own_the_master_registers_and_asks_anew() -> None:
    world = coordinator()
    am = Am(world)
    body = y.RegisterApplicationMasterResponseProto(queue="default")
    am.attempt.on_registered(body.SerializeToString(), 0.0)
    am.asks(row("*", 2))
    am.gets(*(container(n, 1, r) for n, r in enumerate(granted_rows(am.sent.ask).values(), 1)))
    am.asks(row("*", 3))
    last = am.response_id
    world.modes.budget.note(FaultKind.INTERNAL, APP, 1.0)
    assert world.broken(ATTEMPT, 1.0)
    assert [e.turned.phase for e in world.take_effects() if isinstance(e, BudgetTurned)] == [BypassPhase.BYPASS], (
        "at once"
    )
    renewed = world.attempt(ATTEMPT)
    assert renewed is not am.attempt and {live.id for live in renewed.live} == {cid(1), cid(2)}
    assert renewed.refuses(last)
    assert renewed.registration_answer() is not None
    am.attempt, am.response_id = renewed, 0
    assert guaranteed(am.asks(row("*", 3))) == 3 and am.sent.response_id == last, "and is in bypass"
    assert not [r for r in granted_rows(am.sent.ask).values() if r.num_containers]


def test_without_a_registration_an_attempt_stays_as_it_is() -> None:
    world = coordinator()
    am = Am(world)
    world.modes.budget.note(FaultKind.INTERNAL, APP, 1.0)
    assert not world.broken(ATTEMPT, 1.0) and world.attempt(ATTEMPT) is am.attempt
    assert not world.broken("appattempt_1_0009_000001", 1.0)
