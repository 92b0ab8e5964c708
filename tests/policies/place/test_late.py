"""Late binding by example: only where a container starts at once; one place beyond the cores for small applications."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

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


def ask(open_s: float = 10.0, **more: object) -> Ask:
    return Ask(AppView("application_1_1"), 20, Resources(1024, 1), open_s=open_s, **more)  # type: ignore[arg-type]


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


def test_an_ask_that_no_node_may_ever_take_does_not_wait() -> None:
    assert not place(ask(blacklist=frozenset({"a"})), node("a", 4)).wait


def test_one_place_beyond_the_cores_for_small_applications() -> None:
    full, over = node("a", 4, slots=6), node("b", 5, slots=6)
    assert place(ask(20.0), full, over).node == "a"
    assert place(ask(21.0), full).wait
    assert place(ask(20.0), over).wait, "one place, not one for each slot"
    assert place(ask(20.0), full, front_s=0).wait
    assert place(ask(20.0), node("c", 4)).wait, "where nothing is shrunk"
    assert place(ask(20.0), node("c", used_g=4, slots=6)).wait, "guaranteed containers do not shrink"
    assert place(ask(20.0), full, node("d", 3, slots=6)).node == "d", "a whole core is better"


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 2), st.sampled_from([0, 5])), max_size=5),
    st.floats(0, 100),
)
def test_a_chosen_node_starts_the_container_at_once(given_nodes: list[tuple[int, ...]], open_s: float) -> None:
    nodes = [node(str(n), q, g, slots, queue_length=waiting) for n, (q, g, waiting, slots) in enumerate(given_nodes)]
    answer, one = place(ask(open_s), *nodes), Resources(1024, 1)
    roomy = [n for n in nodes if n.queue_length == 0 and n.containers < 4 and n.has_room(one)]
    if answer.node is None:
        assert not roomy
    else:
        chosen = nodes[int(answer.node)]
        assert chosen in roomy or not roomy
        assert chosen.queue_length == 0 and chosen.has_room(one)
        assert chosen.containers <= (4 if chosen.slots and open_s <= 20 else 3)
