"""The words that policies share: what a node has room for, and what a queue uses when one more is asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.common.node_candidates import load
from policies.model import NodeView, ParentView, QueueView, Resources

NODE = NodeView(
    "n:1",
    capacity=Resources(4096, 4),
    used_g=Resources(1024, 1),
    used_q=Resources(1024, 2),
    containers=3,
    queue_length=0,
)


@pytest.mark.parametrize(
    ("memory_mb", "vcores", "room"),
    [(2048, 1, True), (2049, 1, False), (2048, 1.5, False), (1, 1, True), (2049, 0, False)],
)
def test_room_is_what_nobody_uses(memory_mb: int, vcores: float, room: bool) -> None:
    assert NODE.has_room(Resources(memory_mb, vcores)) is room


def test_where_cores_are_shared_slots_count() -> None:
    def node(slots: int, used_mb: int = 1024) -> NodeView:
        return NodeView("n:1", capacity=Resources(4096, 4), used_q=Resources(used_mb, 4), containers=3, slots=slots)

    assert node(4).has_room(Resources(1024, 2))
    assert not node(3).has_room(Resources(1024, 2))
    assert not node(4, 3500).has_room(Resources(1024, 2))


def test_load_is_the_larger_share() -> None:
    assert load(NODE) == 0.75
    assert (
        load(NodeView("n:1", capacity=Resources(4096, 8), used_g=Resources(2048, 1), used_q=Resources(1024, 1))) == 0.75
    )
    assert load(NodeView("n:1")) == 0


def test_one_more_counts_for_the_queue_its_parents_its_user_and_the_cluster() -> None:
    before = QueueView(
        "root.a.b",
        used_q=Resources(100, 1),
        user_used_q={"eve": Resources(60, 1)},
        parents=(ParentView("root.a", used_q=Resources(300, 3)), ParentView("root", used_q=Resources(700, 7))),
        cluster_used_q=Resources(900, 9),
    )
    after = before.plus("eve", Resources(50, 2)).plus("bob", Resources(1, 1))
    assert after.used_q == Resources(151, 4)
    assert after.user_used_q == {"eve": Resources(110, 3), "bob": Resources(1, 1)}
    assert [parent.used_q for parent in after.parents] == [Resources(351, 6), Resources(751, 10)]
    assert after.cluster_used_q == Resources(951, 12)
    assert after.plus("bob", Resources(-1, -1)).used_q == Resources(150, 3)
    assert before.user_used_q == {"eve": Resources(60, 1)}, "views do not change"


@given(
    used=st.lists(st.integers(0, 5), min_size=4, max_size=4),
    capacity=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    size=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    queue=st.integers(0, 1),
    slots=st.sampled_from((0, 2, 12)),
    containers=st.integers(0, 3),
    limit_q=st.none() | st.integers(0, 8),
)
def test_the_load_where_it_starts_is_that_of_the_node(
    used: list[int],
    capacity: tuple[int, int],
    size: tuple[int, int],
    queue: int,
    slots: int,
    containers: int,
    limit_q: int | None,
) -> None:
    view = NodeView(
        "n:1",
        usable=True,
        capacity=Resources(*capacity),
        used_g=Resources(*used[:2]),
        used_q=Resources(*used[2:]),
        queue_length=queue,
        slots=slots,
        containers=containers,
        limit_q=None if limit_q is None else Resources(limit_q, limit_q),
    )
    resources = Resources(*size)
    assert view.load_where_it_starts(resources) == (view.load if view.starts(resources) else None)
