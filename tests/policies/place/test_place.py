"""Placement: examples of locality and load, and what always holds."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.registry import Registry
from policies.model import AppView, Ask, NodeView, Placement, Resources

REGISTRY = Registry()
APP = AppView("application_1_1")
ALL = [("topk_wait", {}), ("topk_wait", {"k": 2, "max_ratio": 1.0}), ("least_queue", {"k": 3}), ("random", {})]


def node(name: str, rack: str = "/r1", **more: object) -> NodeView:
    return NodeView(f"{name}:8041", name, rack, capacity=Resources(8192, 8), **more)  # type: ignore[arg-type]


def ask(*hosts: str, racks: tuple[str, ...] = (), **more: object) -> Ask:
    return Ask(APP, 20, Resources(1024, 1), hosts=frozenset(hosts), racks=frozenset(racks), **more)  # type: ignore[arg-type]


def place(name: str, wanted: Ask, nodes: list[NodeView], seed: int = 1, **chosen: object) -> Placement:
    bound = REGISTRY.bind("place", name, chosen)
    answer = bound.decide(wanted, nodes, bound.cfg, Random(seed))
    assert isinstance(answer, Placement)
    return answer


def test_least_delay_wins_on_a_small_cluster() -> None:
    full = Resources(0, 8)
    nodes = [node("a", queued_s=4), node("b", queued_s=1, remaining_s=1), node("c", since_queueable_s=3, used_g=full)]
    answer = place("topk_wait", ask(), nodes)
    assert answer.node == "b:8041"
    assert answer.scores == (("b:8041", 2), ("c:8041", 3), ("a:8041", 4))
    assert answer.unit == "s"


def test_a_node_that_nobody_needed_for_long_is_not_busy() -> None:
    """Tl says that guaranteed containers leave no room; it says nothing of a node where the next one finds room."""
    busy = {"queued_s": 30.0, "queue_length": 4, "used_q": Resources(8192, 8)}
    nodes = [node("idle", since_queueable_s=3600), node("busy", **busy)]
    assert place("topk_wait", ask(), nodes).node == "idle:8041"
    held_by_g = node("g", since_queueable_s=3600, used_g=Resources(8192, 8))
    assert place("topk_wait", ask(), [held_by_g, nodes[1]]).node == "busy:8041"


def test_what_a_task_runs_longer_on_a_slow_node_counts_as_waiting() -> None:
    nodes = [node("slow", slow_ratio=3.0), node("busy", queued_s=4, queue_length=1)]
    assert place("topk_wait", ask(expected_s=2.1), nodes).node == "busy:8041"
    assert place("topk_wait", ask(expected_s=1.9), nodes).node == "slow:8041"


def test_equal_delays_go_to_the_emptier_node_then_by_id() -> None:
    nodes = [node("b"), node("a", used_q=Resources(1024, 1)), node("c")]
    assert place("topk_wait", ask(), nodes).node == "b:8041"


def test_local_node_is_taken_until_its_delay_exceeds_the_wait() -> None:
    def chosen(local_s: float) -> str | None:
        nodes = [node("a", queued_s=local_s), node("b", "/r2", queued_s=2)]
        return place("topk_wait", ask("a"), nodes, locality_wait_s=3).node

    assert chosen(5) == "a:8041"
    assert chosen(5.1) == "b:8041"


def test_rack_comes_before_off_switch() -> None:
    nodes = [node("a", queued_s=100), node("b", queued_s=2), node("c", "/r2")]
    assert place("topk_wait", ask("a", racks=("/r1",)), nodes).node == "b:8041"


def test_strict_locality_waits_at_its_host_however_long() -> None:
    nodes = [node("a", queued_s=1000), node("b")]
    assert place("topk_wait", ask("a", anywhere=False), nodes).node == "a:8041"


@pytest.mark.parametrize("place_named", ["h1", "/r1", "h1:8041"])
def test_hosts_and_racks_are_blacklisted_by_any_name_that_yarn_knows(place_named: str) -> None:
    """SchedulerAppUtils.isPlaceBlacklisted: node name (with its port, where YARN is set so) and rack name."""
    wanted = ask("h1", racks=("/r1",), blacklist=frozenset({place_named}))
    assert wanted.tier(node("h1")) is None
    assert wanted.tier(node("h2", "/r2")) == 2


@pytest.mark.parametrize(
    ("hosts", "racks", "anywhere", "tiers"),
    [
        ((), (), True, (2, 2, 2)),
        (("a",), (), True, (0, 2, 2)),
        (("a",), ("/r1",), True, (0, 1, 2)),
        (("a",), (), False, (0, None, None)),  # the rack's row is relaxed off: it is no hint
        (("a",), ("/r1",), False, (0, 1, None)),
        ((), ("/r1",), False, (1, 1, None)),
        ((), (), False, (None, None, None)),  # relaxLocality off on ANY, and no row is left: nowhere
    ],
)
def test_relax_locality(
    hosts: tuple[str, ...], racks: tuple[str, ...], anywhere: bool, tiers: tuple[int | None, ...]
) -> None:
    """Tiers of a (on /r1), b (on /r1) and c (on /r2), as RegularContainerAllocator would look at them."""
    wanted = ask(*hosts, racks=racks, anywhere=anywhere)
    assert tuple(wanted.tier(n) for n in (node("a"), node("b"), node("c", "/r2"))) == tiers


@pytest.mark.parametrize(("name", "settings"), ALL)
def test_nobody_may_take_it(name: str, settings: dict[str, object]) -> None:
    nodes = [
        node("a", usable=False),
        node("b", label="gpu"),
        node("c"),
        NodeView("d:1", "d", capacity=Resources(512, 8)),
    ]
    answer = place(name, ask(blacklist=frozenset({"c"})), nodes, **settings)
    assert answer.node is None
    assert "3 usable nodes" in answer.reason
    assert "1024 MB" in answer.reason


def test_shortest_queue() -> None:
    nodes = [node("a", queue_length=3), node("b", queue_length=1), node("c", queue_length=2)]
    answer = place("least_queue", ask(), nodes)
    assert answer.node == "b:8041"
    assert (answer.scores[0], answer.unit) == (("b:8041", 1), "containers")
    assert place("least_queue", ask("c"), nodes).node == "c:8041"
    assert place("least_queue", ask("a"), nodes).node == "b:8041"


def test_random_prefers_near_nodes_unless_told_otherwise() -> None:
    nodes = [node("a"), node("b"), node("c", "/r2")]
    assert {place("random", ask("a"), nodes, seed).node for seed in range(20)} == {"a:8041"}
    everywhere = {place("random", ask("a"), nodes, seed, prefer_local=False).node for seed in range(40)}
    assert everywhere == {"a:8041", "b:8041", "c:8041"}


def test_max_ratio_keeps_k_from_being_the_whole_cluster() -> None:
    nodes = [node(f"n{number:03}", queued_s=number) for number in range(100)]
    drawn = {place("topk_wait", ask(), nodes, seed).node for seed in range(400)}
    assert drawn == {f"n{number:03}:8041" for number in range(20)}
    assert {place("topk_wait", ask(), nodes, seed, k=1).node for seed in range(20)} == {"n000:8041"}


def test_the_drawn_node_is_among_the_scores() -> None:
    nodes = [node(f"n{number:03}", queued_s=number) for number in range(300)]
    for seed in range(30):
        answer = place("topk_wait", ask(), nodes, seed)
        assert answer.node in [name for name, _ in answer.scores]
        assert len(answer.scores) == 10
        assert list(answer.scores) == sorted(answer.scores, key=lambda score: score[1])


def node_lists(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[NodeView]]:
    """Lists of nodes with these further fields."""
    one = st.builds(
        NodeView,
        id=st.from_regex(r"h[0-9]:[12]", fullmatch=True),
        host=st.sampled_from(["h0", "h1", "h2", "h3"]),
        rack=st.sampled_from(["/r1", "/r2"]),
        label=st.sampled_from(["", "", "gpu"]),
        usable=st.booleans(),
        capacity=st.builds(Resources, st.sampled_from([0, 512, 4096]), st.integers(0, 4)),
        used_g=st.builds(Resources, st.integers(0, 4096), st.integers(0, 4)),
        **fields,
    )
    return st.lists(one, max_size=12, unique_by=lambda n: n.id)


QUEUES = {
    "queue_length": st.integers(0, 3),
    "queued_s": st.floats(0, 10),
    "remaining_s": st.sampled_from([0.0, 1.0]),
    "since_queueable_s": st.sampled_from([0.0, 2.5]),
}


def asks() -> st.SearchStrategy[Ask]:
    return st.builds(
        Ask,
        st.just(APP),
        st.just(20),
        st.builds(Resources, st.sampled_from([256, 1024]), st.integers(0, 3)),
        hosts=st.frozensets(st.sampled_from(["h0", "h1"])),
        racks=st.frozensets(st.sampled_from(["/r1"])),
        anywhere=st.booleans(),
        label=st.sampled_from(["", "gpu"]),
        blacklist=st.frozensets(st.sampled_from(["h1", "h2"])),
    )


@settings(deadline=None)
@given(st.sampled_from(ALL), asks(), node_lists(**QUEUES), st.integers(0, 99), st.randoms(use_true_random=False))
def test_always(
    policy: tuple[str, dict[str, object]], wanted: Ask, nodes: list[NodeView], seed: int, shuffler: Random
) -> None:
    name, settings = policy
    answer = place(name, wanted, nodes, seed, **settings)
    allowed = {n.id for n in nodes if wanted.tier(n) is not None}
    assert (answer.node in allowed) if allowed else answer.node is None
    assert {scored for scored, _ in answer.scores} <= allowed
    shuffled = list(nodes)
    shuffler.shuffle(shuffled)
    assert place(name, wanted, shuffled, seed, **settings) == answer
