"""What the proxy decides beside placement: routes, quotas and headroom."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model import AppView, Ask, Kind, QueueView, Resources, Route
from policies.registry import Registry

REGISTRY = Registry()


def ask(expected_s: float = 1.0, user: str = "ann", memory_mb: int = 1024, vcores: float = 1, live_q: int = 0) -> Ask:
    app = AppView("application_1_1", "root.batch", user, live_q=live_q)
    return Ask(app, 20, Resources(memory_mb, vcores), expected_s=expected_s)


def route(name: str, expected_s: float, rng: Random, **chosen: object) -> Route:
    bound = REGISTRY.bind("route", name, chosen)
    answer: Route = bound.decide(ask(expected_s), bound.cfg, rng)
    return answer


def quota(name: str, wanted: Ask, queue: QueueView, **chosen: object) -> str | None:
    bound = REGISTRY.bind("quota", name, chosen)
    answer: str | None = bound.decide(wanted, queue, bound.cfg)
    return answer


def headroom(name: str, limit: Resources, app: AppView, **chosen: object) -> Resources:
    bound = REGISTRY.bind("headroom", name, chosen)
    answer: Resources = bound.decide(limit, app, bound.cfg)
    return answer


def test_pure_routes() -> None:
    assert route("only_g", 1, Random(1)).kind is Kind.GUARANTEED
    assert route("only_q", 1, Random(1)).kind is Kind.QUEUEABLE


def test_threshold_is_exclusive_and_reasons_have_the_figures() -> None:
    at = route("hybrid_gq", 10, Random(1), td_s=10, pq=100)
    assert (at.kind, at.reason) == (Kind.GUARANTEED, "hybrid_gq: expected 10 s, not below td 10 s")
    below = route("hybrid_gq", 9.99, Random(1), td_s=10, pq=100)
    assert below.kind is Kind.QUEUEABLE
    assert below.reason == "hybrid_gq: expected 9.99 s < td 10 s, drew 13.4, below pq 100 %"


@settings(deadline=None)
@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 2**32))
def test_extremes_of_pq_leave_nothing_to_chance(expected_s: float, td_s: float, seed: int) -> None:
    never = route("hybrid_gq", expected_s, Random(seed), td_s=td_s, pq=0)
    assert never.kind is Kind.GUARANTEED
    always = route("hybrid_gq", expected_s, Random(seed), td_s=td_s, pq=100)
    assert (always.kind is Kind.QUEUEABLE) == (expected_s < td_s)
    again = route("hybrid_gq", expected_s, Random(seed), td_s=td_s, pq=50)
    assert again == route("hybrid_gq", expected_s, Random(seed), td_s=td_s, pq=50)


QUEUE = QueueView("root.batch", Resources(10240, 10), used_g=Resources(4096, 4))


def test_queue_share_leaves_guaranteed_ones_their_room() -> None:
    assert quota("queue_share", ask(memory_mb=6144, vcores=6), QUEUE) is None
    reason = quota("queue_share", ask(memory_mb=6145, vcores=6), QUEUE)
    assert reason == (
        "queue_share: queueable containers of root.batch use 0 MB, 0 vcores of 6144 MB, 6 vcores that guaranteed ones "
        "leave; 6145 MB, 6 vcores more do not fit"
    )
    assert quota("queue_share", ask(memory_mb=9216, vcores=9), QUEUE, factor=1.5) is None


def test_queue_share_by_vcores_only_when_counted() -> None:
    full = QueueView("root.batch", Resources(10240, 4), used_g=Resources(4096, 4))
    assert quota("queue_share", ask(), full) is not None
    assert quota("queue_share", ask(), full, count_vcores=False) is None


def test_users_share_what_is_there() -> None:
    both = QueueView(
        "root.batch",
        Resources(10240, 10),
        used_q=Resources(5120, 5),
        user_used_q={"ann": Resources(4096, 4), "bob": Resources(1024, 1), "gone": Resources()},
    )
    assert quota("queue_share", ask(user="ann"), both) is None
    more = quota("queue_share", ask(user="ann", memory_mb=2048), both)
    assert more is not None
    assert "user ann in root.batch use 4096 MB" in more
    assert "a share of 5120 MB, 5 vcores (2 users hold some)" in more
    assert quota("queue_share", ask(user="ann", memory_mb=2048), both, user_ratio=1) is None
    alone = QueueView("root.batch", Resources(10240, 10), user_used_q={"ann": Resources(9216, 9)})
    assert quota("queue_share", ask(user="ann"), alone) is None


def test_queue_of_unknown_capacity_gets_none() -> None:
    reason = quota("queue_share", ask(), QueueView("root.new"))
    assert reason == "queue_share: the maximum capacity of root.new is 0 or not known yet"


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3000), st.integers(0, 3)), max_size=30))
def test_queue_share_never_exceeds_the_maximum_capacity(wanted: list[tuple[str, int, int]]) -> None:
    used: dict[str, Resources] = {}
    for user, memory_mb, vcores in wanted:
        total = sum(used.values(), Resources())
        queue = QueueView("root.batch", Resources(10240, 10), Resources(2048, 2), total, user_used_q=used)
        if quota("queue_share", ask(user=user, memory_mb=memory_mb, vcores=vcores), queue) is None:
            used = used | {user: used.get(user, Resources()) + Resources(memory_mb, vcores)}
    assert (sum(used.values(), Resources()) + Resources(2048, 2)).fits(Resources(10240, 10))


def test_no_quota() -> None:
    assert quota("none", ask(memory_mb=10**9), QueueView("root.batch")) is None


@pytest.mark.parametrize(
    ("kind", "limit", "expected"),
    [
        ("MAPREDUCE", Resources(8192, 8), Resources(5120, 5)),
        ("MAPREDUCE", Resources(1024, 1), Resources(0, 0)),
        ("mapreduce", Resources(8192, 8), Resources(5120, 5)),
        ("TEZ", Resources(8192, 8), Resources(8192, 8)),
        ("TEZ", Resources(512, 0), Resources(2048, 2)),
        ("TEZ", Resources(-1024, -1), Resources(2048, 2)),
        ("SPARK", Resources(8192, 8), Resources(8192, 8)),
        ("SPARK", Resources(-1, -1), Resources(0, 0)),
    ],
)
def test_headroom_by_framework(kind: str, limit: Resources, expected: Resources) -> None:
    app = AppView("a", type=kind, used_q=Resources(3072, 3), next_q=Resources(2048, 2))
    assert headroom("by_framework", limit, app) == expected


def test_headroom_rules_may_be_set() -> None:
    app = AppView("a", type="FLINK", used_q=Resources(3072, 3))
    assert headroom("by_framework", Resources(8192, 8), app, rules={"flink": "less_queueable"}) == Resources(5120, 5)


def test_headroom_as_is_is_never_negative() -> None:
    app = AppView("a", type="MAPREDUCE", used_q=Resources(3072, 3))
    assert headroom("as_is", Resources(8192, 8), app) == Resources(8192, 8)
    assert headroom("as_is", Resources(-5, 8), app) == Resources(0, 8)
