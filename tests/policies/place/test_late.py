"""Late binding by example: only where a container starts at once; one place beyond the cores where a wide job runs."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.common.service_levels import level
from policies.config.registry import Registry
from policies.model import AppView, Ask, NodeView, Placement, Resources

REGISTRY = Registry()


def node(name: str, used_q: int = 0, used_g: int = 0, slots: int = 0, rack: str = "/r1", **more: object) -> NodeView:
    """Return a node of 4 cores; where containers share them (slots), with memory for all slots."""
    return NodeView(
        name,
        name,
        rack,
        capacity=Resources(1024 * max(4, slots), 4),
        used_q=Resources(1024 * used_q, used_q),
        used_g=Resources(1024 * used_g, used_g),
        containers=used_q + used_g,
        slots=slots,
        **more,  # type: ignore[arg-type]
    )


def ask(work_s: float = 10.0, **more: object) -> Ask:
    return Ask(AppView("application_1_1"), 20, Resources(1024, 1), work_s=work_s, **more)  # type: ignore[arg-type]


def place(wanted: Ask, *nodes: NodeView, **chosen: object) -> Placement:
    bound = REGISTRY.bind("place", "late", chosen)
    answer = bound.decide(wanted, nodes, bound.cfg, Random(1))
    assert isinstance(answer, Placement)
    return answer


def test_the_least_loaded_node_with_room() -> None:
    answer = place(ask(), node("a", 3), node("b", 1), node("c", 2))
    assert (answer.node, answer.scores[0]) == ("b", ("b", 0.25))


def test_a_near_node_with_room_before_an_emptier_one_and_any_before_waiting() -> None:
    near = ask(hosts=frozenset({"a"}), racks=frozenset({"/r1"}))
    assert place(near, node("a", 3), node("b")).node == "a"
    assert place(near, node("a", 4), node("b", 2), node("c", rack="/r2")).node == "b"
    assert place(near, node("a", 4), node("b", 4), node("c", rack="/r2")).node == "c"


def test_nothing_waits_at_a_node() -> None:
    answer = place(ask(), node("a", 4), node("b", 2, queue_length=1))
    assert (answer.node, answer.wait) == (None, True)


def test_each_choice_has_its_reason_in_words() -> None:
    """They were `late: off-switch, 2 nodes with a core that comes free, one ends in 0.5 s` and the like."""
    assert place(ask(), node("a", 3), node("b", 1)).reason == (
        "late: the least used of 2 candidate nodes (off-switch) with room, 25% used"
    )
    assert place(ask(), node("a", 4, slots=6, yields_level=9.0, frees_s=2.04)).reason == (
        "late: no free core; a container of a job with more work is shrunk for it; "
        "of 1 candidate node (off-switch) this one is expected to have one first, in 2.0 s"
    )
    assert place(ask(), node("a", 4, slots=6, frees_s=0.5), ahead_s=1.5).reason == (
        "late: no free core; of 1 candidate node (off-switch) this one is expected to have one first, in 0.5 s"
    )
    assert place(ask(), node("a", 4)).reason == "late: the only node that may take it is full"
    assert place(ask(), node("a", 4), node("b", 4)).reason == "late: all 2 nodes that may take it are full"


def test_an_ask_that_no_node_may_ever_take_does_not_wait() -> None:
    assert not place(ask(blacklist=frozenset({"a"})), node("a", 4)).wait


def test_one_place_beyond_the_cores_where_a_container_of_a_much_wider_job_gives_way() -> None:
    full, over = node("a", 4, slots=6, yields_level=3.0), node("b", 5, slots=6, yields_level=9.0)
    assert place(ask(20.0), full, over).node == "a"
    assert place(ask(20.0), over).wait, "one place, not one for each slot"
    assert place(ask(20.0), node("c", 4, slots=6)).wait, "where nothing gives way"
    assert place(ask(20.0), node("c", used_g=4, slots=6, yields_level=3.0)).wait, "guaranteed containers do not shrink"
    assert place(ask(20.0), full, node("d", 3, slots=6)).node == "d", "a whole core is better"


@pytest.mark.parametrize(("work_s", "own_level"), [(20.0, 0), (20.1, 1), (80.0, 1), (320.0, 2), (1e9, 13)])
def test_the_gap_in_levels(work_s: float, own_level: int) -> None:
    wide, less = (node("a", 4, slots=6, yields_level=float(own_level + gap)) for gap in (3, 2))
    assert place(ask(work_s), wide).node == "a"
    assert place(ask(work_s), less).wait
    assert place(ask(work_s), less, front_gap=2).node == "a"
    assert place(ask(work_s), wide, front_gap=float("inf")).wait


def test_an_application_of_unknown_work_takes_no_front_place() -> None:
    assert place(ask(float("inf")), node("a", 4, slots=6, yields_level=50.0), front_gap=0).wait


def test_the_widest_job_gives_way_first_and_nearness_comes_before() -> None:
    wide, widest = node("a", 4, slots=6, yields_level=4.0), node("b", 4, slots=6, yields_level=6.0)
    assert place(ask(), wide, widest).node == "b"
    assert place(ask(hosts=frozenset({"a"})), wide, widest).node == "a"


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 2), st.sampled_from([0, 5])), max_size=5),
    st.floats(0, 100),
    st.sampled_from([-1.0, 0.0, 3.0, 4.0]),
)
def test_a_chosen_node_starts_the_container_at_once(
    given_nodes: list[tuple[int, ...]], work_s: float, yields: float
) -> None:
    nodes = [
        node(str(n), q, g, slots, queue_length=waiting, yields_level=yields if slots else -1.0)
        for n, (q, g, waiting, slots) in enumerate(given_nodes)
    ]
    answer, one = place(ask(work_s), *nodes), Resources(1024, 1)
    roomy = [n for n in nodes if n.queue_length == 0 and n.containers < 4 and n.has_room(one)]
    if answer.node is None:
        assert not roomy
    else:
        chosen = nodes[int(answer.node)]
        assert chosen in roomy or not roomy
        assert chosen.queue_length == 0 and chosen.has_room(one)
        assert chosen.containers <= (4 if chosen.slots and yields >= level(work_s) + 3 else 3)


def test_a_front_place_is_taken_where_a_container_is_expected_to_end_first() -> None:
    soon, later = (node(name, 4, slots=6, yields_level=4.0, frees_s=s) for name, s in (("a", 2.0), ("b", 30.0)))
    answer = place(ask(), later, soon)
    assert (answer.node, answer.scores, answer.unit) == ("a", (("a", 2.0), ("b", 30.0)), "s")
    wider = node("c", 4, slots=6, yields_level=9.0, frees_s=2.0)
    assert place(ask(), soon, wider).node == "c", "of two that free a core at once the wider job gives way"
    assert place(ask(hosts=frozenset({"b"})), later, soon).node == "b", "nearness comes before"


def test_one_may_wait_at_a_full_node_for_a_core_that_comes_free_in_a_moment() -> None:
    soon, later = node("a", 4, frees_s=1.2), node("b", 4, frees_s=9.0)
    answer = place(ask(), later, soon, ahead_s=1.5)
    assert (answer.node, answer.ahead, answer.scores) == ("a", True, (("a", 1.2),))
    assert place(ask(), soon).wait, "none by default"
    assert place(ask(), later, ahead_s=1.5).wait
    assert place(ask(), node("c", 5, slots=6, frees_s=0.1), ahead_s=1.5).wait, "one is there already"
    assert place(ask(), node("c", 4, queue_length=1, frees_s=0.1), ahead_s=1.5).wait
    assert place(ask(), soon, node("d", 3), ahead_s=1.5).node == "d", "a free core is better"
    front = node("e", 4, slots=6, yields_level=9.0, frees_s=5.0)
    answer = place(ask(), node("f", 4, slots=6, frees_s=1.0), front, ahead_s=1.5)
    assert (answer.node, answer.ahead) == ("e", False), "a front place is given at once"


def test_a_front_place_is_taken_beside_a_container_that_waits_for_a_core() -> None:
    full = node("a", 4, slots=5, yields_level=9.0, frees_s=5.0, queue_length=1)
    assert place(ask(), full).wait, "it waits for the place beyond the cores"
    ahead = replace(full, ahead=1)
    assert place(ask(), ahead).node == "a"
    assert place(ask(), replace(ahead, queue_length=2, containers=ahead.containers + 1)).wait, "another waits, too"
    assert place(ask(), replace(ahead, used_q=Resources(5120, 5), containers=6)).wait, "the place is taken"
    assert place(ask(), replace(ahead, frees_s=0.1, yields_level=-1.0), ahead_s=1.5).wait, "one waits for that core"
