"""The central queue between groups: shares of queues and users first, then the order of applications."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import AppView, NodeView, Resources
from policies.waiting import WaitingApp
from rm_proxy.coordinator.queue_usage import AllUsage, right_of
from rm_proxy.dispatch.central_queue import STARVE_S, UNLIMITED, CentralQueue
from rm_proxy.dispatch.free_places import FreePlaces
from rm_proxy.dispatch.group_queue import Demand, WantedPlaces
from rm_proxy.dispatch.heartbeats import ASSUMED_S, INTERVALS
from rm_proxy.dispatch.shares import Group, Shares
from rm_proxy.yarn.models import YarnQueue

ONE, LARGE = Resources(1024, 1), Resources(4096, 4)
EMPTY = NodeView("n", capacity=Resources(1 << 20, 1 << 10))
MOST = 300
ALIVE_S = INTERVALS * ASSUMED_S
"""After a first heartbeat."""


def yarn_queue(path: str, percent: int, user_ratio: float = 1.0, leaf: bool = True) -> YarnQueue:
    size, most = Resources(1024 * percent, percent), Resources(1024 * MOST, MOST)
    return YarnQueue(path, leaf, "RUNNING", most, Resources(), frozenset(), "", capacity=size, user_ratio=user_ratio)


QUEUES = (yarn_queue("root", 100, leaf=False), yarn_queue("root.default", 60, 0.5), yarn_queue("root.prod", 40))


class Stage:
    """A cluster of 100 places, which queues may exceed, on one node; an application's grade is its `held`."""

    def __init__(self, free: int, queues: tuple[YarnQueue, ...] = QUEUES) -> None:
        self.view, self.usage = EMPTY, AllUsage()
        self.usage.report(queues)
        self.shares = Shares(self.usage)
        self.shares.update(right_of(one) for one in queues)
        places = FreePlaces(lambda node_id: self.view)
        self.queue = CentralQueue(
            places, lambda one, now_s: (float(one.container_count), one.app.submitted_s), self.shares
        )
        self.to(free)

    def to(self, free: int) -> None:
        self.view = replace(EMPTY, capacity=Resources(1024 * free, free))
        self.queue.free.changed["n"] = None

    def has(self, user: str, places: int, queue: str = "root.default") -> None:
        """Let a user have so many queueable containers."""
        self.usage.charge(f"of {user}", queue, user, Resources(1024 * places, places), Resources())

    def waits(
        self,
        name: str,
        user: str,
        wanted: int,
        grade: int = 0,
        *,
        queue: str = "root.default",
        now_s: float = 0.0,
        size: Resources = ONE,
        placed: int = 0,
        asked_g: int = 0,
        label: str = "",
        strict: int = 0,
    ) -> None:
        app = AppView(name, queue, user)
        sizes = {(label, size): wanted} if wanted else {}
        asked = Resources(1024 * asked_g, asked_g)
        demand = Demand(WaitingApp(app, wanted + strict, grade), sizes, asked_g=asked)
        self.queue.waits(name, demand, now_s, placed)

    def may(self, name: str, now_s: float = 0.0, size: Resources = ONE, label: str = "") -> int:
        return self.queue.allowance(name, label, size, now_s)

    def starved(self, user: str, now_s: float, asked_s: float = 0.0, label: str = "") -> int:
        return self.queue.starved(AppView("app", "root.default", user), label, ONE, asked_s, now_s)


def flooded(free: int) -> Stage:
    """Alice has 80 places and wants more with small jobs, Bob has 10 and wants more with a wide one."""
    stage = Stage(free)
    stage.has("alice", 80)
    stage.has("bob", 10)
    stage.waits("small", "alice", 50, grade=0)
    stage.waits("wide", "bob", 60, grade=5)
    return stage


def test_a_user_behind_his_share_goes_before_small_jobs_of_one_who_has_more() -> None:
    stage = flooded(10)
    assert (stage.may("small"), stage.may("wide")) == (0, UNLIMITED)
    stage.to(90)
    assert (stage.may("small"), stage.may("wide")) == (90 - 60, 60), "what is spare is lent"


def test_a_loan_comes_back_with_the_next_places() -> None:
    stage = Stage(10)
    stage.has("alice", 90)
    stage.waits("small", "alice", 50)
    assert stage.may("small") == UNLIMITED, "nobody else waits"
    stage.waits("carols", "carol", 40, queue="root.prod")
    assert (stage.may("small"), stage.may("carols")) == (0, UNLIMITED)
    stage.has("alice", 60)
    stage.has("carol", 40, "root.prod")
    stage.to(5)
    assert (stage.may("small"), stage.may("carols")) == (3, 2), "in equal parts of their weights from then on"


def test_the_order_of_applications_acts_within_a_group() -> None:
    stage = flooded(10)
    stage.waits("narrow", "bob", 4, grade=1)
    assert [stage.may(name) for name in ("small", "narrow", "wide")] == [0, UNLIMITED, 6]


def test_silent_masters_and_forgotten_ones_claim_nothing() -> None:
    stage = flooded(10)
    stage.waits("small", "alice", 50, now_s=ALIVE_S + 1)
    assert stage.may("small", ALIVE_S) == 0 and stage.may("small", ALIVE_S + 0.1) == UNLIMITED
    stage = flooded(10)
    stage.queue.waits_no_more("wide")
    assert stage.may("small") == UNLIMITED


def test_the_place_beyond_the_cores_goes_to_the_group_whose_turn_it_is() -> None:
    stage = flooded(0)
    assert (stage.may("small"), stage.may("wide")) == (0, UNLIMITED)


def test_labelled_places_know_the_order_alone() -> None:
    stage = flooded(10)
    stage.view = replace(stage.view, label="gpu")
    stage.to(10)
    stage.view = replace(stage.view, label="gpu")
    stage.waits("small", "alice", 50, label="gpu")
    stage.waits("wide", "bob", 60, grade=5, label="gpu")
    assert (stage.may("small", label="gpu"), stage.may("wide", label="gpu")) == (UNLIMITED, 0)


def test_without_shares_the_order_acts_across_all() -> None:
    stage = Stage(10, (replace(yarn_queue("root.default", 0)),))
    stage.has("alice", 80)
    stage.waits("small", "alice", 50, grade=0)
    stage.waits("wide", "bob", 60, grade=5)
    assert (stage.may("small"), stage.may("wide")) == (UNLIMITED, 0)


def test_containers_that_do_not_fit_anywhere_keep_nothing_from_others() -> None:
    stage = flooded(3)
    stage.queue.waits_no_more("wide")
    stage.waits("large", "bob", 5, size=LARGE)
    assert stage.may("small") == UNLIMITED
    stage.to(9)
    assert stage.may("small") == 1, "two large ones take eight of them"


def test_one_that_wants_certain_nodes_alone_has_its_part() -> None:
    stage = flooded(10)
    stage.waits("strict", "bob", 0, grade=0, strict=2)
    stage.queue.waits_no_more("wide")
    assert stage.may("strict") >= 2 and stage.may("small") == UNLIMITED


def test_why_names_the_groups_for_which_places_are_kept() -> None:
    stage = flooded(10)
    stage.waits("carols", "carol", 40, queue="root.prod")
    assert stage.queue.why("small", 1.0).endswith("; places kept for queue root.prod")
    assert "kept" not in stage.queue.why("carols", 1.0)
    stage.queue.waits_no_more("carols")
    text = "50 containers wait for a place, 1 s without a new one; places kept for queue root.default, user bob"
    assert stage.queue.why("small", 1.0) == text


def test_what_is_guaranteed_is_owed_after_a_second_in_which_the_group_got_nothing() -> None:
    stage = flooded(0)
    stage.queue.free.changed |= dict.fromkeys(map(str, range(8)))
    assert stage.starved("bob", STARVE_S) == 0 and stage.starved("bob", STARVE_S + 0.1) == 9, "no more than nodes"
    assert stage.starved("bob", 5.0, asked_s=4.5) == 0 and stage.starved("bob", 5.0, label="gpu") == 0
    assert stage.starved("alice", 5.0) == 0, "she has more than her share"
    stage.waits("wide", "bob", 50, grade=5, now_s=5.0, placed=1)
    assert stage.starved("bob", 5.5) == 0 and stage.starved("bob", 6.1) == 9
    stage.waits("wide", "bob", 43, grade=5, now_s=5.0, asked_g=7)
    assert stage.starved("bob", 6.1) == 2, "seven are on their way"
    stage.has("bob", 25)
    assert stage.starved("bob", 6.1) == 0, "30 are guaranteed to him, 7 asked for"
    stage.queue.waits_no_more("wide", placed=3, now_s=7.0)
    stage.has("bob", 10)
    assert stage.starved("bob", 7.9) == 0, "the last ones got their places now"


def test_thousands_of_applications_cost_as_much_as_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(7)
    for number in range(3_000):
        stage.waits(f"a{number}", f"u{number % 20}", 3, grade=number % 5)
    asked: list[WantedPlaces] = []
    claims = WantedPlaces.claims
    monkeypatch.setattr(WantedPlaces, "claims", lambda self, stock: asked.append(self) or claims(self, stock))
    assert stage.may("a2") == 1, "twenty users with nothing yet share seven places, each begun one counts"
    assert len(asked) <= 20 + 5
    monkeypatch.undo()
    for number in range(3_000):
        stage.queue.waits_no_more(f"a{number}")
    stage.waits("last", "u1", 3, now_s=9.0)
    assert len(stage.queue) == 1 and stage.queue.why("last", 9.0).startswith("3 containers wait")
    assert stage.queue.claimed_idle(9.0) == 3 and stage.queue.claimed_idle(9.0 + 2 * ALIVE_S) == 0


APPS = st.lists(
    st.tuples(st.sampled_from(["alice", "bob", "carol", "dave"]), st.integers(1, 30), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)
HELD = st.fixed_dictionaries(dict.fromkeys(("alice", "bob", "carol", "dave"), st.integers(0, 30)))
IN = {"alice": "root.default", "bob": "root.default", "carol": "root.prod", "dave": "root.prod"}


@given(st.integers(0, 40), APPS, HELD, st.randoms(use_true_random=False))
def test_each_round_of_heartbeats_fills_all_places_by_their_shares(
    free: int, apps: list[tuple[str, int, int]], held: dict[str, int], rng: object
) -> None:
    """In any order of heartbeats: never more than free, all taken while somebody wants, each group has its share."""
    stage = Stage(free)
    has = dict(held)
    for user, places in has.items():
        stage.has(user, places, IN[user])
    wants = {str(n): wanted for n, (_, wanted, _) in enumerate(apps)}
    user_of = {str(n): user for n, (user, _, _) in enumerate(apps)}
    grade_of = {str(n): grade for n, (_, _, grade) in enumerate(apps)}

    def beats(name: str) -> None:
        user = user_of[name]
        stage.waits(name, user, wants[name], grade_of[name], queue=IN[user])

    wanted: Counter[Group] = Counter()
    for name in wants:
        beats(name)
        wanted[stage.shares.group(IN[user_of[name]], user_of[name])] += wants[name]
    exact = stage.shares.split(free, ONE, wanted)
    order = list(wants)
    for _ in range(2):
        rng.shuffle(order)  # type: ignore[attr-defined]
        for name in order:
            user = user_of[name]
            if not wants[name]:
                continue
            takes = min(wants[name], free, stage.may(name))
            has[user] += takes
            wants[name] -= takes
            free -= takes
            assert free >= 0
            stage.has(user, has[user], IN[user])
            stage.to(free)
            if wants[name]:
                beats(name)
            else:
                stage.queue.waits_no_more(name)
    assert free == 0 or not any(wants.values())
    for group, places in exact.items():
        users = [group.user] if group.user else [user for user in has if IN[user] == group.queue]
        gained = sum(has[user] - held[user] for user in users)
        assert abs(gained - places) <= len(exact), "a begun place each"
