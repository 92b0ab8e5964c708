"""Placement by the number of containers and the spread of their service: locality, full nodes, what always holds."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.model import Ask, NodeView, Placement, Resources
from policies.place.variance import POLICY, Variance, place
from tests.policies.place.test_place import ask, asks, node_lists


def node(name: str, containers: int = 0, spread_s: float = 0.0, rack: str = "/r1", **more: object) -> NodeView:
    fields = {"slots": 6, "capacity": Resources(8192, 2), "containers": containers, "attained_sd_s": spread_s} | more
    return NodeView(f"{name}:8041", name, rack, **fields)  # type: ignore[arg-type]


def chosen(wanted: Ask, *nodes: NodeView, rng: Random | None = None, **cfg: object) -> Placement:
    return place(wanted, nodes, Variance(**cfg), rng or Random(1))  # type: ignore[arg-type]


def test_fewest_containers_then_least_spread_then_id() -> None:
    answer = chosen(ask(), node("a", 3, 0.0), node("c", 2, 4.0), node("d", 2, 1.5), node("b", 2, 1.5))
    assert answer.node == "b:8041"
    assert answer.scores == (("b:8041", 2), ("d:8041", 2), ("c:8041", 2), ("a:8041", 3))
    assert (answer.unit, answer.wait) == ("containers", False)
    assert (
        answer.reason
        == "variance: the fewest containers (2) of 4 candidate nodes (off-switch), spread of attained service 1.5 s"
    )


def test_ties_by_the_sum_of_service_or_by_chance() -> None:
    nodes = [node("a", 2, 0.0, attained_sum_s=30.0), node("b", 2, 9.0, attained_sum_s=10.0), node("c", 3)]
    assert chosen(ask(), *nodes).node == "a:8041"
    answer = chosen(ask(), *nodes, ties="sum")
    assert (answer.node, answer.reason.rpartition(", ")[2]) == ("b:8041", "sum of attained service 10.0 s")
    rng = Random(2)
    drawn = [chosen(ask(), *nodes, rng=rng, ties="random").node for _ in range(40)]
    assert set(drawn) == {"a:8041", "b:8041"} and 10 <= drawn.count("a:8041") <= 30


def test_a_nearer_node_may_have_more_containers_but_not_many() -> None:
    far = node("b", 1, rack="/r2")
    assert chosen(ask("a"), node("a", 2), far).node == "a:8041"
    assert chosen(ask("a"), node("a", 3), far).node == "b:8041"
    assert chosen(ask("a"), node("a", 3), far, locality_containers=2).node == "a:8041"
    assert chosen(ask("a", racks=("/r1",)), node("a", 5), node("c", 2), far).node == "c:8041"


def test_full_nodes_are_passed_by_and_when_all_are_the_ask_waits() -> None:
    assert chosen(ask("a"), node("a", 6), node("b", 5)).node == "b:8041"
    answer = chosen(ask("a"), node("a", 6), node("b", 7), node("c", 0, usable=False))
    assert (answer.node, answer.wait) == (None, True)
    assert answer.reason == "variance: all 2 nodes that may take it are full"


def test_an_ask_that_insists_on_its_host_waits_for_it() -> None:
    answer = chosen(ask("a", anywhere=False), node("a", 6), node("b"))
    assert (answer.node, answer.wait) == (None, True)


def test_an_ask_that_no_node_may_ever_take_does_not_wait() -> None:
    answer = chosen(ask(blacklist=frozenset("a")), node("a"), node("b", label="gpu"))
    assert (answer.node, answer.wait) == (None, False)
    assert "none of 2 usable nodes may take it" in answer.reason


def test_slots_count_not_vcores_but_memory_does() -> None:
    crowded = Resources(4096, 5)
    assert chosen(ask(), node("a", 5, used_q=crowded)).node == "a:8041"
    assert chosen(ask(), node("a", 1, used_q=Resources(7169, 1))).wait
    assert chosen(ask(), node("a", 1, used_q=Resources(7168, 1))).node == "a:8041"


@pytest.mark.parametrize(
    ("used", "queue_length", "takes"),
    [
        (Resources(7168, 1), 0, True),
        (Resources(1024, 2), 0, False),
        (Resources(7169, 1), 0, False),
        (Resources(), 1, False),
    ],
)
def test_a_node_without_slots_takes_what_starts_at_once(used: Resources, queue_length: int, takes: bool) -> None:
    answer = chosen(ask(), node("a", 9, slots=0, used_g=used, queue_length=queue_length))
    assert (answer.node, answer.wait) == (("a:8041", False) if takes else (None, True))


def test_the_object_is_what_the_registry_wants() -> None:
    assert (POLICY.name, POLICY.config, POLICY.decide) == ("variance", Variance, place)


CONTAINERS = {
    "queue_length": st.integers(0, 1),
    "containers": st.integers(0, 4),
    "slots": st.integers(0, 4),
    "attained_sd_s": st.sampled_from([0.0, 1.0, 2.5]),
}


@settings(deadline=None)
@given(asks(), node_lists(**CONTAINERS), st.integers(0, 2), st.randoms(use_true_random=False))
def test_always(wanted: Ask, nodes: list[NodeView], slack: int, shuffler: Random) -> None:
    answer = chosen(wanted, *nodes, locality_containers=slack)
    allowed = {n.id: n for n in nodes if wanted.tier(n) is not None}
    free = {n.id: n for n in allowed.values() if n.has_room(wanted.resources) and (n.slots or not n.queue_length)}
    assert (answer.node in free) if free else answer.node is None
    assert answer.wait == (bool(allowed) and not free)
    if answer.node is not None:
        assert free[answer.node].containers <= min(n.containers for n in free.values()) + 2 * slack
    shuffled = list(nodes)
    shuffler.shuffle(shuffled)
    assert chosen(wanted, *shuffled, locality_containers=slack) == answer
