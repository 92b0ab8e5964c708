"""Free places go where the ResourceManager's own weights say: by queue, then by user; spare ones are lent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import Resources
from rm_proxy.coordinator.queue_usage import AllUsage, right_of
from rm_proxy.dispatch.shares import EVERYBODY, Claimant, Group, Shares, divide, fill
from rm_proxy.yarn.models import YarnQueue

ONE = Resources(1024, 1)


def amount(places: float) -> Resources:
    return Resources(int(1024 * places), places)


def queue(path: str, capacity: float, maximum: float = 100, leaf: bool = True, **more: Any) -> YarnQueue:
    size, most = amount(capacity), amount(maximum)
    return YarnQueue(path, leaf, "RUNNING", most, Resources(), frozenset(), "", capacity=size, **more)


def shares(*queues: YarnQueue, uses: Mapping[tuple[str, str], float] | None = None) -> Shares:
    """Return the shares of a cluster of 100 places; uses: places that queueable containers have, by queue and user."""
    usage = AllUsage()
    all_queues = (queue("root", 100, leaf=False), *queues)
    usage.report(all_queues)
    for number, ((path, user), places) in enumerate((uses or {}).items()):
        usage.charge(f"a{number}", path, user, amount(places), Resources())
    found = Shares(usage)
    found.update(right_of(one) for one in all_queues)
    return found


DEFAULT, PROD = queue("root.default", 60, user_ratio=0.5), queue("root.prod", 40)
ALICE, BOB, OTHERS = Group("root.default", "alice"), Group("root.default", "bob"), Group("root.prod")


def split(one: Shares, places: int, **wanted: int) -> dict[str, float]:
    names = {"alice": ALICE, "bob": BOB, "prod": OTHERS}
    found = one.split(places, ONE, {names[name]: count for name, count in wanted.items()})
    return {name: round(found[names[name]], 6) for name in wanted}


def test_users_are_groups_where_the_resource_manager_gives_them_shares() -> None:
    one = shares(DEFAULT, PROD)
    assert [one.group("root.default", "alice"), one.group("root.prod", "carol")] == [ALICE, OTHERS]
    assert str(ALICE) == "queue root.default, user alice" and str(OTHERS) == "queue root.prod"
    assert shares().known and Shares(AllUsage()).group("root.default", "alice") == EVERYBODY, "FIFO has no shares"


def test_the_next_places_go_to_the_queue_and_user_with_the_least_use_for_its_weight() -> None:
    one = shares(DEFAULT, PROD, uses={("root.default", "alice"): 60, ("root.default", "bob"): 10})
    assert split(one, 30, alice=99, bob=99, prod=99) == {"alice": 0, "bob": 0, "prod": 30}
    assert split(one, 10, alice=99, bob=99) == {"alice": 0, "bob": 10}
    assert split(one, 30, alice=99, bob=99, prod=10) == {"alice": 0, "bob": 20, "prod": 10}
    assert split(one, 30, alice=99) == {"alice": 30}, "what nobody else wants is lent"


def test_from_an_empty_cluster_each_gets_its_weight() -> None:
    assert split(shares(DEFAULT, PROD), 100, alice=99, bob=99, prod=99) == {"alice": 30, "bob": 30, "prod": 40}
    assert split(shares(DEFAULT, PROD), 100, alice=99, bob=10, prod=99) == {"alice": 50, "bob": 10, "prod": 40}


def test_queues_below_others_share_what_their_parent_gets() -> None:
    tree = (
        queue("root.a", 50, leaf=False),
        queue("root.a.x", 40),
        queue("root.a.y", 10),
        queue("root.b", 50),
    )
    names = [Group("root.a.x"), Group("root.a.y"), Group("root.b")]
    found = shares(*tree).split(100, ONE, dict.fromkeys(names, 99))
    assert [round(found[name], 6) for name in names] == [40, 10, 50]
    lent = shares(*tree).split(100, ONE, {names[1]: 99, names[2]: 20})
    assert [round(lent[name], 6) for name in names[1:]] == [80, 20]


def test_a_higher_priority_goes_first_up_to_what_is_guaranteed_then_again_with_loans() -> None:
    queues = queue("root.a", 30, priority=1), queue("root.b", 70)
    a, b = Group("root.a"), Group("root.b")
    one = shares(*queues, uses={("root.a", "u"): 20, ("root.b", "u"): 0})
    assert one.split(5, ONE, {a: 99, b: 99}) == pytest.approx({a: 5, b: 0})
    assert one.split(30, ONE, {a: 99, b: 99}) == pytest.approx({a: 10, b: 20})
    late = shares(*queues, uses={("root.a", "u"): 30, ("root.b", "u"): 60})
    assert late.split(8, ONE, {a: 99, b: 99}) == pytest.approx({a: 0, b: 8}), "guarantees come before loans"
    assert late.split(8, ONE, {a: 99, b: 5}) == pytest.approx({a: 3, b: 5})


def test_maximum_capacity_and_the_limit_of_a_user_bound_loans() -> None:
    tight = queue("root.default", 60, 70, user_ratio=0.5), PROD
    one = shares(*tight, uses={("root.default", "alice"): 50, ("root.default", "bob"): 10})
    assert split(one, 40, alice=99, bob=99, prod=1) == {"alice": 0, "bob": 10, "prod": 1}
    limited = queue("root.default", 60, user_ratio=0.5, user_limit=amount(60))
    one = shares(limited, PROD, uses={("root.default", "alice"): 60})
    assert split(one, 40, alice=99, bob=10) == {"alice": 0, "bob": 10}


def test_users_have_weights_and_queues_of_the_fair_scheduler_too() -> None:
    weighted = queue("root.default", 60, user_ratio=0.5, user_weights={"alice": 2.0})
    assert split(shares(weighted), 90, alice=99, bob=99) == {"alice": 60, "bob": 30}
    fair = shares(queue("root.users.x", 75), queue("root.users.y", 25))
    x, y = fair.group("root.users.x", "x"), fair.group("root.users.y", "y")
    assert fair.split(40, ONE, {x: 99, y: 99}) == pytest.approx({x: 30, y: 10}), "their parent is not known"


def test_limits_grow_by_the_places_that_nodes_have_beyond_their_cores() -> None:
    """Else nobody has a right to the next place where all cores are in use, and whoever asks first gets it."""
    one = shares(DEFAULT, PROD, uses={("root.default", "alice"): 60, ("root.default", "bob"): 45})
    assert split(one, 10, alice=99, bob=99) == {"alice": 0, "bob": 0}, "105 of 100 places"
    one.places_ratio = 1.25
    assert split(one, 10, alice=99, bob=99) == {"alice": 0, "bob": 10}
    limited = shares(
        queue("root.default", 60, user_ratio=0.5, user_limit=amount(40)), uses={("root.default", "bob"): 40}
    )
    assert split(limited, 10, bob=99) == {"bob": 0}
    limited.places_ratio = 1.25
    assert split(limited, 10, bob=99) == {"bob": 10}


def test_a_queue_without_capacity_gets_what_others_leave_and_so_does_one_that_is_not_known() -> None:
    one = shares(PROD, queue("root.none", 0))
    none, new = Group("root.none"), Group("root.new")
    assert one.split(10, ONE, {OTHERS: 99, none: 99, new: 99})[OTHERS] == pytest.approx(10)
    found = one.split(10, ONE, {OTHERS: 4, none: 99, new: 99})
    assert found == pytest.approx({OTHERS: 4, none: 3, new: 3})


def reported(places: float) -> list[YarnQueue]:
    """Return a report in which user u has so many places in a queue."""
    return [YarnQueue("root.q", True, "RUNNING", ONE, amount(places), frozenset(), "", {"u": amount(places)})]


def test_guaranteed_containers_count_as_held_now_and_beside_them_what_reports_have_beyond() -> None:
    usage = AllUsage()
    usage.report(reported(3))
    usage.charge("a", "root.q", "u", amount(2), amount(1))
    assert usage.used("root.q") == usage.used_by("root.q", "u") == amount(3 + 2 + 1), "nobody here held those three"
    usage.report(reported(3))
    assert usage.used("root.q") == usage.used_by("root.q", "u") == amount(2 + 2 + 1), "one of the three is ours"
    usage.charge("a", "root.q", "u", amount(2), amount(7))
    assert usage.used_g("root.q") == amount(2 + 7) and dict(usage.used_g_by("root.q")) == {"u": amount(9)}
    usage.discharge("a")
    assert usage.used("root.q") == amount(2) and not usage.users_q("root.q")


def test_a_report_that_finds_containers_on_their_way_does_not_count_until_the_next_one() -> None:
    usage = AllUsage()
    usage.charge("a", "root.q", "u", amount(0), amount(40))
    usage.report(reported(40))
    usage.report(reported(81))  # 41 more were granted; their application has not got them yet
    assert usage.used_g("root.q") == amount(40)
    usage.charge("a", "root.q", "u", amount(0), amount(81))
    usage.report(reported(81))
    assert usage.used_g("root.q") == amount(81)
    usage.charge("a", "root.q", "u", amount(0), amount(41))  # they ended; the ResourceManager hears of it later
    usage.report(reported(81))
    assert usage.used_g("root.q") == amount(41)
    usage.report(reported(81))
    assert usage.used_g("root.q") == amount(81), "two reports in a row: they are not ours"


def test_queueable_containers_that_ended_use_nothing_though_they_are_held_still() -> None:
    usage = AllUsage()
    usage.charge("a", "root.q", "u", amount(5), amount(0), over_q=amount(2))
    assert usage.used("root.q") == usage.used_by("root.q", "u") == amount(3)


# What is guaranteed


def lacks(one: Shares, group: Group, user: str, asked_g: float = 0.0, waiting: tuple[str, ...] = ()) -> int:
    return one.lacks(group, ONE, user, amount(asked_g), waiting)


def test_a_user_lacks_his_part_of_the_queue_while_another_one_has_more() -> None:
    one = shares(DEFAULT, PROD, uses={("root.default", "alice"): 95, ("root.default", "bob"): 5})
    assert lacks(one, BOB, "bob") == 25
    assert lacks(one, BOB, "bob", asked_g=5) == 20, "what is asked for already counts"
    assert lacks(one, BOB, "bob", waiting=("alice", "bob", "dave")) == 15, "a third one waits"
    assert lacks(one, ALICE, "alice") == 0
    assert lacks(one, OTHERS, "carol") == 40, "the other queue lends nothing any more"


def test_nothing_is_owed_while_nobody_has_more_than_his_own() -> None:
    within = shares(DEFAULT, PROD, uses={("root.default", "alice"): 30, ("root.default", "bob"): 5})
    assert lacks(within, BOB, "bob") == lacks(within, OTHERS, "carol") == 0
    gone = shares(DEFAULT, PROD, uses={("root.default", "alice"): 90})
    assert lacks(gone, Group("root.gone"), "carol") == 0, "no such queue"
    assert Shares(AllUsage()).lacks(EVERYBODY, ONE, "u", Resources(), ()) == 0
    limited = shares(DEFAULT, queue("root.prod", 40, user_limit=amount(10)), uses={("root.default", "alice"): 90})
    assert lacks(limited, OTHERS, "carol") == 10, "one user may not have all of it"


# Always


def claimants(draw: Any) -> list[Claimant]:
    number = st.floats(0, 100)
    return [
        Claimant(
            str(n),
            draw(number),
            draw(st.floats(0.01, 10)),
            draw(number),
            guaranteed=draw(number),
            limit=draw(st.sampled_from([float("inf"), draw(number)])),
            priority=draw(st.integers(0, 1)),
        )
        for n in range(draw(st.integers(1, 6)))
    ]


ALL = st.composite(lambda draw: claimants(draw))()


def room(one: Claimant) -> float:
    return min(one.demand, max(0.0, one.limit - one.used))


@given(st.floats(0, 300), ALL, st.sampled_from([fill, divide]))
def test_all_places_are_given_while_somebody_wants_them_and_never_more(
    places: float, found: list[Claimant], give: Any
) -> None:
    give(places, found)
    assert all(-1e-6 <= one.gets <= room(one) + 1e-6 for one in found)
    assert sum(one.gets for one in found) == pytest.approx(min(places, sum(map(room, found))), abs=1e-5)


@given(st.floats(0, 300), ALL)
def test_nobody_gets_a_place_while_another_one_with_less_for_its_weight_wants_it(
    places: float, found: list[Claimant]
) -> None:
    fill(places, found)
    level = {one.name: (one.used + one.gets) / one.weight for one in found}
    unmet = [level[one.name] for one in found if one.gets < room(one) - 1e-6]
    for one in found:
        if one.gets > 1e-6:
            assert all(level[one.name] <= other * (1 + 1e-6) + 1e-3 for other in unmet)


def test_groups_of_a_time_with_shares_get_equal_places_while_none_are_known() -> None:
    one = shares(DEFAULT, PROD)
    one.update([])
    assert not one.known
    assert split(one, 30, alice=99, bob=5, prod=99) == {"alice": 12.5, "bob": 5, "prod": 12.5}
