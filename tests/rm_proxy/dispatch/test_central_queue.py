"""Claims on free places: kept for better applications alone, while they heartbeat, and nothing is idle for long."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import AppView, NodeView, Resources
from policies.waiting import WaitingApp
from rm_proxy.coordinator.queue_usage import AllUsage
from rm_proxy.dispatch.central_queue import UNLIMITED, CentralQueue
from rm_proxy.dispatch.free_places import FreePlaces
from rm_proxy.dispatch.group_queue import Demand
from rm_proxy.dispatch.heartbeats import LEAST_S
from rm_proxy.dispatch.shares import EVERYBODY, Shares

ONE, TWO = Resources(1024, 1), Resources(2048, 2)
EMPTY = NodeView("n", capacity=Resources(1 << 20, 1 << 10))


class Stage:
    """One node, and a queue whose policy is each application's own grade (its `held`)."""

    def __init__(self, free: int) -> None:
        self.view = EMPTY
        self.queue = CentralQueue(FreePlaces(lambda node_id: self.view), self._key, Shares(AllUsage()))
        self.to(free)

    @staticmethod
    def _key(applicant: WaitingApp, now_s: float) -> tuple[float, ...]:
        return (float(applicant.container_count), applicant.app.submitted_s) if applicant.container_count < 9 else ()

    def to(self, free: int) -> None:
        """Let the node have so many places."""
        self.view = replace(EMPTY, capacity=Resources(1024 * free, free))
        self.queue.free.changed["n"] = None

    def waits(self, name: str, wanted: int, grade: int, now_s: float = 0.0, size: Resources = ONE, **more: int) -> None:
        app = AppView(name, priority=more.pop("priority", 0))
        demand = Demand(WaitingApp(app, wanted, grade), {("", size): wanted}, more.pop("queue_priority", 0))
        full = [("", size)] if more.pop("full", 0) else []
        self.queue.waits(name, demand, now_s, full=full, **more)

    def may(self, name: str, now_s: float = 0.0, size: Resources = ONE) -> int:
        return self.queue.allowance(name, "", size, now_s)


def test_places_are_kept_for_strictly_better_applications() -> None:
    stage = Stage(10)
    stage.waits("best", 3, 0)
    stage.waits("good", 4, 1)
    stage.waits("equal", 4, 1)
    stage.waits("worst", 50, 2)
    assert [stage.may(name) for name in ("best", "good", "equal", "worst")] == [UNLIMITED, 7, 7, 0]
    stage.queue.waits_no_more("good")
    assert stage.may("worst") == 10 - 3 - 4
    stage.queue.waits_no_more("best")
    stage.queue.waits_no_more("equal")
    assert stage.may("worst") == UNLIMITED


def test_priorities_of_yarn_come_before_the_policy() -> None:
    stage = Stage(10)
    stage.waits("small", 3, 0)
    stage.waits("urgent", 4, 5, priority=1)
    assert stage.may("small") == 6 and stage.may("urgent") == UNLIMITED
    stage.waits("of a better queue", 2, 5, queue_priority=1)
    assert stage.may("small") == 4 and stage.may("urgent") == 8


def test_without_an_order_nobody_has_claims() -> None:
    stage = Stage(2)
    stage.waits("a", 5, 9)
    stage.waits("b", 5, 9)
    assert stage.may("a") == stage.may("b") == UNLIMITED


def test_an_application_that_stops_to_heartbeat_loses_its_claims() -> None:
    stage = Stage(4)
    for at_s in (-2.0, -1.0, 0.0):
        stage.waits("small", 4, 0, now_s=at_s)
    stage.waits("wide", 9, 1, now_s=0.0)
    assert stage.may("wide", LEAST_S) == 0
    assert stage.may("wide", LEAST_S + 0.1) == UNLIMITED


@pytest.mark.parametrize("interval_s", [0.2, 1.0, 2.0, 3.0, 4.5])
def test_claims_last_until_the_next_heartbeat_whatever_the_interval(interval_s: float) -> None:
    stage = Stage(4)
    for number in range(3):
        stage.waits("small", 4, 0, now_s=number * interval_s)
    stage.waits("wide", 9, 1, now_s=0.0)
    last_s = 2 * interval_s
    assert stage.may("wide", last_s + 1.9 * interval_s) == 0, "one heartbeat comes almost an interval too late"
    assert stage.may("wide", last_s + max(LEAST_S, 2 * interval_s) + 0.1) == UNLIMITED


def test_places_that_an_application_did_not_take_are_not_kept_for_it() -> None:
    """It may have blacklisted the node, or insist on others in a way that nobody knows here."""
    stage = Stage(2)
    stage.waits("picky", 4, 0, full=1)
    stage.waits("wide", 9, 1)
    assert stage.may("wide") == UNLIMITED
    stage.to(3)
    assert stage.may("wide") == 2, "one is new"
    stage.waits("picky", 4, 0, now_s=1.0)
    assert stage.may("wide", 1.0) == 0


def test_a_place_that_comes_free_after_others_took_what_was_left_is_new() -> None:
    """It was taken for one of those that had been left, and went to the wide application, too."""
    stage = Stage(2)
    stage.waits("picky", 4, 0, full=1)
    stage.waits("wide", 9, 1)
    assert stage.may("wide") == UNLIMITED
    stage.to(0)
    stage.waits("wide", 7, 1, placed=2)
    stage.to(2)
    assert stage.may("wide") == 0
    stage.waits("picky", 4, 0, now_s=0.5, full=1)
    assert stage.may("wide", 0.5) == UNLIMITED, "these it left, too"


def test_the_next_place_is_new_for_one_that_left_all_before() -> None:
    """Of two queues, while nothing is free: whose turn is next."""
    stage = Stage(2)
    stage.waits("picky", 4, 0, full=1)
    key = ("", ONE)
    assert stage.queue._groups[EVERYBODY].claims(*key, stage.queue._budgets.stock) == 0
    stage.to(0)
    assert stage.queue._groups[EVERYBODY].claims(*key, stage.queue._budgets._next) == 1


def test_claims_of_another_size_count_by_what_they_take() -> None:
    stage = Stage(9)
    stage.waits("large", 2, 0, size=TWO)
    stage.waits("small", 9, 1)
    assert stage.may("small") == 5
    stage.to(1)
    assert stage.may("small") == UNLIMITED, "no large one fits"
    stage.waits("small", 9, 0)
    stage.waits("large", 2, 1, size=TWO)
    stage.to(12)
    assert stage.may("large", size=TWO) == 2, "nine small ones leave three cores, begun places count"


def test_what_is_idle_for_a_claim_is_counted_and_explained() -> None:
    stage = Stage(5)
    stage.waits("small", 2, 0)
    stage.waits("wide", 9, 1)
    alone = "2 containers wait for a place, 1 s without a new one"
    before = "9 containers wait for a place, 1 s without a new one; 2 of 1 applications that go before it"
    assert [stage.queue.why(name, 1.0) for name in ("small", "wide", "unknown")] == [alone, before, ""]
    assert stage.queue.claimed_idle(0.0) == 5 and stage.queue.claimed_idle(9.0) == 0


def test_time_without_a_new_place_goes_on_until_there_is_one() -> None:
    since: list[float] = []
    queue = CentralQueue(
        FreePlaces(lambda node_id: None),
        lambda one, now_s: since.append(one.waits_since_s) or (0.0,),
        Shares(AllUsage()),
    )
    demand = Demand(WaitingApp(AppView("a"), 5), {("", ONE): 5})
    for now_s, placed in ((1.0, 0), (2.0, 0), (3.0, 1), (4.0, 0)):
        queue.waits("a", demand, now_s, placed)
    assert since == [1.0, 1.0, 3.0, 3.0]
    queue.clear()
    assert len(queue) == 0


APPS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 4), st.booleans()), min_size=1, max_size=8
)  # wanted, grade, whether it heartbeats


@given(st.integers(0, 20), APPS, st.randoms(use_true_random=False))
def test_nothing_is_idle_that_somebody_wants_and_no_better_one_claims(
    free: int, apps: list[tuple[int, int, bool]], rng: object
) -> None:
    """Each that lives heartbeats once, in any order, and takes what it may: then all is taken, or nobody wants more."""
    stage = Stage(free)
    wants = {str(number): wanted for number, (wanted, _, _) in enumerate(apps)}
    grades = {str(number): grade for number, (_, grade, _) in enumerate(apps)}
    lives = {str(number): alive for number, (_, _, alive) in enumerate(apps)}
    for name, wanted in wants.items():
        stage.waits(name, wanted, grades[name], now_s=10.0 if lives[name] else 0.0)
    order = [name for name in wants if lives[name]]
    rng.shuffle(order)  # type: ignore[attr-defined]
    for name in order:
        better = sum(wants[other] for other in order if grades[other] < grades[name])
        may = stage.may(name, 10.0)
        assert min(may, free) >= min(free, max(0, free - better)), "kept for better ones alone"
        takes = min(wants[name], may, free)
        assert free - takes >= min(free, better), "what better ones want is left"
        wants[name] -= takes
        free -= takes
        stage.to(free)
        stage.queue.waits_no_more(name)
        if wants[name]:
            stage.waits(name, wants[name], grades[name], now_s=10.0)
    assert free == 0 or not any(wants[name] for name in order)
