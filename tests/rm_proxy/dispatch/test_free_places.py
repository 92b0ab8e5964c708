"""Free places are counted by label and size, and follow each change of a node's view."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import NodeView, Resources
from rm_proxy.dispatch import free_places
from rm_proxy.dispatch.free_places import FreePlaces, places

ONE = Resources(1024, 1)
SIZES = (ONE, Resources(2048, 1), Resources(1024, 3), Resources(4096, 0.5))
EMPTY = NodeView("n", capacity=Resources(8192, 4))


class Nodes:
    def __init__(self, *views: NodeView) -> None:
        self.views: dict[str, NodeView] = {}
        self.free = FreePlaces(self.views.get)
        for number, view in enumerate(views):
            self.set(number, view)

    def set(self, number: int, view: NodeView | None) -> None:
        node_id = f"node{number}"
        if view is None:
            self.views.pop(node_id, None)
        else:
            self.views[node_id] = replace(view, id=node_id)
        self.free.changed[node_id] = None


def test_places_of_a_node() -> None:
    assert [places(EMPTY, size) for size in SIZES] == [4, 4, 1, 2]
    assert places(replace(EMPTY, used_q=Resources(1024, 3), used_g=Resources(1024, 1)), ONE) == 0
    assert places(replace(EMPTY, usable=False), ONE) == places(replace(EMPTY, queue_length=1), ONE) == 0
    assert places(replace(EMPTY, slots=6), ONE) == 4, "no place beyond the cores"
    assert places(replace(EMPTY, slots=6, containers=5), ONE) == 1
    assert places(replace(EMPTY, limit_q=Resources(2048, 4)), ONE) == 2
    assert places(EMPTY, Resources()) == 1


def test_counts_follow_changes() -> None:
    nodes = Nodes(EMPTY, EMPTY, replace(EMPTY, label="gpu"))
    assert (nodes.free.count("", ONE), nodes.free.count("gpu", ONE), nodes.free.count("fast", ONE)) == (8, 4, 0)
    nodes.set(0, replace(EMPTY, used_q=Resources(4096, 4)))
    assert nodes.free.count("", ONE) == 4 and nodes.free.nodes("", ONE) == ["node1"]
    nodes.set(1, None)
    assert nodes.free.count("", ONE) == 0 and nodes.free.nodes("", ONE) == []


def test_places_that_came_free_are_counted_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken ones are not taken off, and no count is lower than before when its size was forgotten meanwhile."""
    nodes, used = Nodes(EMPTY), replace(EMPTY, used_q=Resources(4096, 4))
    assert nodes.free.stock("", ONE) == (4, 4)
    nodes.set(0, used)
    assert nodes.free.stock("", ONE) == (0, 4)
    nodes.set(0, replace(EMPTY, used_q=Resources(1024, 1)))
    assert nodes.free.stock("", ONE) == (3, 7)
    monkeypatch.setattr(free_places, "MAX_SIZES", 1)
    nodes.free.count("", SIZES[1])
    assert nodes.free.stock("", ONE) == (3, 10)
    nodes.free.bind_ahead(1.0)
    assert nodes.free.stock("", ONE) == (3, 13)


def test_a_full_node_has_one_place_ahead_while_a_container_is_about_to_end() -> None:
    full = replace(EMPTY, used_q=Resources(4096, 4), frees_s=1.0)
    nodes = Nodes(full, replace(full, frees_s=5.0), replace(full, queue_length=1), EMPTY)
    assert nodes.free.count("", ONE) == 4, "none unless it is asked for"
    nodes.free.bind_ahead(1.5)
    assert nodes.free.count("", ONE) == 5 and nodes.free.nodes("", ONE) == ["node0", "node3"]
    assert nodes.free.count("", Resources(2048, 1)) == 5, "memory has to be free only when it starts"
    nodes.free.bind_ahead(0.0)
    assert nodes.free.count("", ONE) == 4


def test_few_sizes_are_counted_at_once() -> None:
    nodes = Nodes(EMPTY)
    for memory_mb in range(1, 200):
        assert nodes.free.count("", Resources(memory_mb, 1)) == 4
    assert len(nodes.free.counted) == free_places.MAX_SIZES


VIEWS = st.builds(
    lambda used, label, usable, waiting: replace(
        EMPTY, used_q=Resources(1024 * used, used), label=label, usable=usable, queue_length=waiting
    ),
    st.integers(0, 5),
    st.sampled_from(["", "gpu"]),
    st.booleans(),
    st.integers(0, 1),
)


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | VIEWS, st.sampled_from(SIZES)), max_size=30))
def test_counts_are_those_of_the_nodes_as_they_are(changes: list[tuple[int, NodeView | None, Resources]]) -> None:
    nodes = Nodes()
    for number, view, size in changes:
        nodes.set(number, view)
        for label in ("", "gpu"):
            room = {n: places(v, size) for n, v in nodes.views.items() if v.label == label and places(v, size)}
            assert nodes.free.count(label, size) == sum(room.values())
            assert set(nodes.free.nodes(label, size)) == set(room)
