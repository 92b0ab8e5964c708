"""Algorithm 3 of Kairos (thesis of P. Delgado, §4.3.3) written down as it stands, against the policy `variance`."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from policies.model import AppView, Ask, NodeView, Resources
from policies.place.variance import Variance, place

CORES, EXTRA = 4, 4
"""N and Q of the thesis' own test bed (§4.5.2)."""
TASK = Ask(AppView("job"), 20, Resources(1024, 1))


def algorithm_3(central: int, nodes: dict[str, tuple[int, float]]) -> tuple[list[str], int]:
    """Return where `central` waiting tasks go, in order, and how many stay in the central queue.

    nodes: by id the number of its tasks and the spread of their attained service. Lines 11 to 17, one main loop.
    """
    tasks = {name: count for name, (count, _) in nodes.items()}
    assigned: list[str] = []
    for i in range(CORES + EXTRA):
        level = {name for name, count in tasks.items() if count == i}
        while level and len(assigned) < central:
            m = min(level, key=lambda name: (nodes[name][1], name))
            assigned.append(m)
            tasks[m] += 1
            level.remove(m)
    return assigned, central - len(assigned)


def one_by_one(central: int, views: Sequence[NodeView]) -> tuple[list[str], int]:
    """Return the same by asking the policy for each task, own placements counted."""
    by_id = {view.id: view for view in views}
    assigned: list[str] = []
    for _ in range(central):
        answer = place(TASK, list(by_id.values()), Variance(), Random(0))
        if answer.node is None:
            assert answer.wait
            break
        by_id[answer.node] = replace(by_id[answer.node], containers=by_id[answer.node].containers + 1)
        assigned.append(answer.node)
    return assigned, central - len(assigned)


def view(name: str, containers: int, spread_s: float) -> NodeView:
    size = Resources(2**20, CORES)
    return NodeView(name, name, capacity=size, containers=containers, slots=CORES + EXTRA, attained_sd_s=spread_s)


def test_rounds_by_hand() -> None:
    """Two idle nodes take one each, least spread first; then all have one, and so on."""
    nodes = {"a": (1, 30.0), "b": (0, 0.0), "c": (0, 0.0), "d": (1, 5.0)}
    wanted = ["b", "c", "b", "c", "d", "a", "b"]
    assert algorithm_3(7, nodes) == (wanted, 0)
    assert one_by_one(7, [view(name, *known) for name, known in nodes.items()]) == (wanted, 0)


def test_at_most_n_and_q_tasks_go_to_a_worker() -> None:
    """§4.3.3: "assigns to each worker at most Q + N tasks at any moment in time"; the rest stays central."""
    views = [view("a", 7, 1.0), view("b", 8, 0.0), view("c", 5, 9.0)]
    assert one_by_one(10, views) == (["c", "c", "a", "c"], 6)


@given(
    st.integers(0, 40),
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.tuples(st.integers(0, CORES + EXTRA + 1), st.sampled_from([0.0, 1.5, 60.0]))
    ),
)
def test_as_the_algorithm_assigns(central: int, nodes: dict[str, tuple[int, float]]) -> None:
    if nodes:
        assert one_by_one(central, [view(name, *known) for name, known in nodes.items()]) == algorithm_3(central, nodes)
