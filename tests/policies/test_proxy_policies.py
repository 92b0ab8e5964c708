"""What the proxy decides beside placement: routes, quotas and headroom."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.decisions.quotas import all_within, over_at_binding
from policies.model import AppView, Ask, Kind, ParentView, QueueView, Resources, Route
from policies.quota import queue_share
from policies.quota.queue_share import QueueShare

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


def test_threshold_is_inclusive_and_reasons_have_the_figures() -> None:
    """With an exclusive one the default threshold, 10 s, would keep out a task that takes the default estimate."""
    above = route("hybrid_gq", 10.01, Random(1), td_s=10, pq=100)
    assert (above.kind, above.reason) == (Kind.GUARANTEED, "hybrid_gq: expected 10.01 s, above td 10 s")
    at = route("hybrid_gq", 10, Random(1), td_s=10, pq=100)
    assert at.kind is Kind.QUEUEABLE
    assert at.reason == "hybrid_gq: expected 10 s, not above td 10 s, drew 13.4, below pq 100 %"


def test_an_unknown_duration_counts_as_short_unless_the_setting_says_guaranteed() -> None:
    unknown = replace(ask(60.0), known=False)
    bound = REGISTRY.bind("route", "hybrid_gq", {"td_s": 5})
    short: Route = bound.decide(unknown, bound.cfg, Random(1))
    assert short.kind is Kind.QUEUEABLE
    assert short.reason == (
        "hybrid_gq: its duration is not known, taken for not above td 5 s, drew 13.4, below pq 70 %"
    )
    bound = REGISTRY.bind("route", "hybrid_gq", {"td_s": 100, "pq": 100, "unknown": "G"})
    assert bound.decide(unknown, bound.cfg, Random(1)) == Route(Kind.GUARANTEED, "hybrid_gq: its duration is not known")
    assert bound.decide(ask(60.0), bound.cfg, Random(1)).kind is Kind.QUEUEABLE


@settings(deadline=None)
@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 2**32))
def test_extremes_of_pq_leave_nothing_to_chance(expected_s: float, td_s: float, seed: int) -> None:
    never = route("hybrid_gq", expected_s, Random(seed), td_s=td_s, pq=0)
    assert never.kind is Kind.GUARANTEED
    always = route("hybrid_gq", expected_s, Random(seed), td_s=td_s, pq=100)
    assert (always.kind is Kind.QUEUEABLE) == (expected_s <= td_s)
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


def test_queues_above_limit_too_with_all_below_them() -> None:
    """root.prod is full but for 1024 MB although root.prod.etl has 6144 MB left."""
    prod = ParentView("root.prod", Resources(8192, 8), Resources(4096, 4), Resources(3072, 3))
    root = ParentView("root", Resources(16384, 16), Resources(4096, 4), Resources(3072, 3))
    etl = QueueView("root.prod.etl", Resources(8192, 8), used_q=Resources(2048, 2), parents=(prod, root))
    assert quota("queue_share", ask(), etl) is None
    over = quota("queue_share", ask(memory_mb=2048), etl)
    assert over is not None
    assert over.startswith("queue_share: queueable containers of root.prod use 3072 MB, 3 vcores of 4096 MB, 4 vcores")
    assert quota("queue_share", ask(memory_mb=2048), etl, factor=2) is None
    unknown = QueueView("root.p.q", Resources(8192, 8), parents=(ParentView("root.p"),))
    assert quota("queue_share", ask(), unknown) is None


def test_queueable_ones_of_all_queues_share_the_nodes() -> None:
    queue = QueueView("root.a", Resources(8192, 8), cluster=Resources(8192, 8), cluster_used_q=Resources(4096, 4))
    assert quota("queue_share", ask(), queue) is None
    reason = quota("queue_share", ask(), queue, cluster_ratio=0.5)
    assert reason == (
        "queue_share: queueable containers of all queues use 4096 MB, 4 vcores of 4096 MB, 4 vcores, 0.5 of what the "
        "nodes have; 1024 MB, 1 vcores more do not fit"
    )
    assert quota("queue_share", ask(), queue, cluster_ratio=0.625) is None


def test_a_user_stays_within_what_the_scheduler_allows_one() -> None:
    """Capacity 4096 MB times user-limit-factor 1: 3072 MB of guaranteed ones leave 1024."""
    queue = QueueView(
        "root.a", Resources(8192, 8), user_used_g={"ann": Resources(3072, 3)}, user_limit=Resources(4096, 4)
    )
    assert quota("queue_share", ask(user="ann"), queue) is None
    reason = quota("queue_share", ask(user="ann", memory_mb=1025), queue)
    assert reason is not None and "of 1024 MB, 1 vcores that guaranteed ones leave of the user's limit" in reason
    assert quota("queue_share", ask(user="bob", memory_mb=4096, vcores=4), queue) is None
    assert quota("queue_share", ask(user="ann", memory_mb=1025), queue, user_limit=False) is None


amounts = st.builds(Resources, st.integers(0, 9000), st.integers(0, 9))


@settings(deadline=None)
@given(amounts, amounts, amounts, amounts, amounts, st.sampled_from([0.5, 1.0, float("inf")]))
def test_what_is_left_is_what_the_quota_allows(
    most: Resources, used_g: Resources, used_q: Resources, above: Resources, size: Resources, ratio: float
) -> None:
    """A container goes queueable exactly when it fits into what is left for its user."""
    queue = QueueView(
        "root.p.q",
        most,
        used_g,
        used_q,
        user_used_q={"ann": used_q},
        user_used_g={"ann": used_g},
        user_limit=above,
        parents=(ParentView("root.p", above, used_g, used_q),),
        cluster=Resources(9000, 9),
        cluster_used_q=used_q,
    )
    cfg = QueueShare(cluster_ratio=ratio)
    wanted = ask(user="ann", memory_mb=size.memory_mb, vcores=size.vcores)
    allowed = quota("queue_share", wanted, queue, cluster_ratio=ratio) is None
    overdrawn = quota("queue_share", ask(user="ann", memory_mb=0, vcores=0), queue, cluster_ratio=ratio) is not None
    left = cfg.room_for(queue, "ann")
    assert allowed == (size.fits(left) and not overdrawn)
    assert left.fits(cfg.room(queue))


def test_relative_counts_by_guaranteed_ones() -> None:
    def wanted(live_g: int, live_q: int) -> Ask:
        return Ask(AppView("app1", live_g=live_g, live_q=live_q), 20, Resources(1024, 1))

    assert quota("relative", wanted(8, 15), QUEUE) is None
    reason = quota("relative", wanted(8, 16), QUEUE)
    assert reason == (
        "relative: app1 has 16 queueable containers, its quota is 16 (2 for each of 8 guaranteed ones, at least 10)"
    )
    assert quota("relative", wanted(0, 9), QUEUE) is None
    assert quota("relative", wanted(0, 0), QUEUE, min_q=0) is not None
    assert quota("relative", wanted(3, 3), QUEUE, per_g=1.5, min_q=0) is None
    assert quota("relative", wanted(3, 4), QUEUE, per_g=1.5, min_q=0) is not None


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


@given(
    used=st.lists(st.integers(0, 8), min_size=10, max_size=10),
    wants=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    factor=st.sampled_from((0.5, 1.0, 1.5)),
    count_vcores=st.booleans(),
    user_ratio=st.sampled_from((0.0, 0.25, 0.5, 1.0)),
)
def test_queue_share_is_sure_of_a_fit_exactly_where_each_of_its_rooms_has_it(
    used: list[int], wants: tuple[int, int], factor: float, count_vcores: bool, user_ratio: float
) -> None:
    sizes = [Resources(memory_mb=1024 * gb, vcores=gb) for gb in used]
    queue = QueueView(
        "root.a.b",
        max_capacity=sizes[0] + Resources(1024, 1),
        used_g=sizes[1],
        used_q=sizes[2],
        user_used_q={"ann": sizes[3], "bob": sizes[4]},
        user_used_g={"ann": sizes[5]},
        user_limit=sizes[6] if used[6] else None,
        parents=(ParentView("root.a", sizes[7], used_q=sizes[8]), ParentView("root", Resources(8192, 8))),
        places_ratio=1.0 + used[9] / 4,
    )
    cfg = QueueShare(factor=factor, count_vcores=count_vcores, user_ratio=user_ratio)
    size = Resources(1024 * wants[0], wants[1])
    rooms = queue_share._rooms(queue, cfg)
    rooms += queue_share._user_rooms(queue, "ann", cfg, rooms[0][2])
    fits = all(
        taken.memory_mb + size.memory_mb <= room.memory_mb
        and (not count_vcores or taken.vcores + size.vcores <= room.vcores)
        for _, _, room, taken in rooms
    )
    assert queue_share._fits(size, "ann", queue, cfg) is fits


def test_alike_containers_fit_together_where_each_fits_after_the_other() -> None:
    policies = Policies.load({"quota": [{"policy": "queue_share"}]})
    view, size = QUEUE, Resources(1024, 1)
    for count in range(1, 14):
        queue, fitting = view, 0
        while fitting < count and over_at_binding(policies, ask(), queue) is None:
            queue, fitting = queue.plus("ann", size), fitting + 1
        assert all_within(policies, ask(), count, view) is (fitting == count), count
