"""What the central scheduler knows of nodes is what a plain sort of all of them says, at any time."""

from heapq import heapify, heapreplace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from policies.common.least_wait import spread
from quicksilver_lab.papers.systems.central import LATE_S, Central, Reported

NODES = 12
TASKS = st.integers(1, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("job"), TASKS, st.sampled_from((0.5, 3.0, 40.0, 2000.0)), st.integers(0, 3)),
        st.tuples(st.just("begin"), st.integers(0, NODES - 1)),
        st.tuples(st.just("end"), st.integers(0, NODES - 1)),
        st.tuples(st.just("wait"), st.sampled_from((0.25, 8.0, 500.0))),
        st.tuples(st.just("report")),
    ),
    max_size=60,
)


class Plain:
    """The same by lists of tasks and a sort of all nodes."""

    def __init__(self) -> None:
        self.queued = [list[float]() for _ in range(NODES)]
        self.end_s: list[float | None] = [None] * NODES

    def wait_s(self, node: int, now_s: float) -> float:
        queued_s, end_s = sum(self.queued[node]), self.end_s[node]
        return queued_s if end_s is None else max(end_s + queued_s - now_s, queued_s + LATE_S)

    def busy(self, node: int) -> bool:
        return bool(self.queued[node]) or self.end_s[node] is not None

    def by_wait(self, now_s: float, first: int) -> list[tuple[float, int]]:
        return sorted((self.wait_s(node, now_s), node) for node in range(first, NODES) if self.busy(node))

    def idle(self, first: int) -> list[int]:
        return [node for node in range(first, NODES) if not self.busy(node)]

    def spread(self, tasks: int, task_s: float, now_s: float, first: int) -> list[float]:
        """Return what each task waits, when each goes where the least work waits."""
        heap = [self.wait_s(node, now_s) for node in range(first, NODES)]
        heapify(heap)
        return sorted(heapreplace(heap, heap[0] + task_s) for _ in range(tasks))

    def copy(self) -> "Plain":
        other = Plain()
        other.queued, other.end_s = [tasks.copy() for tasks in self.queued], self.end_s.copy()
        return other


def _same(known: Central | Reported, plain: Plain, now_s: float, first: int) -> None:
    assert list(known.by_wait(now_s, first)) == plain.by_wait(now_s, first)
    assert known.idle_from(first) == plain.idle(first)


def _place(central: Central, plain: Plain, tasks: int, task_s: float, first: int, now_s: float) -> None:
    nodes = spread(tasks, task_s, central.by_wait(now_s, first), central.idle_from(first))
    count = {node: nodes.count(node) for node in nodes}
    waits_s = [plain.wait_s(node, now_s) + at * task_s for node, many in count.items() for at in range(many)]
    expected_s = plain.spread(tasks, task_s, now_s, first)  # adds task by task, and rounds each time
    assert sorted(waits_s) == pytest.approx(expected_s, rel=1e-12)
    _put(central, plain, nodes, task_s)


def _put(central: Central, plain: Plain, nodes: list[int], task_s: float) -> None:
    central.placed(nodes, task_s)
    for node in nodes:
        plain.queued[node].append(task_s)


def _step(central: Central, plain: Plain, step: tuple[str, int], now_s: float) -> None:
    kind, node = step
    if kind == "begin" and plain.queued[node] and plain.end_s[node] is None:
        task_s = plain.queued[node].pop(0)
        plain.end_s[node] = now_s + task_s
        central.began(node, task_s, now_s)
    elif kind == "end" and plain.end_s[node] is not None:
        plain.end_s[node] = None
        central.ended(node)


@settings(deadline=None)
@given(STEPS)
@example([("job", 5, 40.0, 3), ("begin", 3), ("wait", 500.0), ("job", 15, 3.0, 3)])
def test_tasks_go_where_a_sort_of_all_nodes_says_that_the_least_work_waits(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    central, plain, now_s = Central(NODES), Plain(), 0.0
    for step in steps:
        if step[0] == "job":
            _place(central, plain, *step[1:], now_s)
        elif step[0] == "wait":
            now_s += step[1]
        elif step[0] != "report":
            _step(central, plain, step, now_s)
    for first in (0, 5):
        _same(central, plain, now_s, first)


@settings(deadline=None)
@given(STEPS)
def test_reports_say_how_nodes_were_when_they_were_made(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    central, reported, plain, now_s = Central(NODES), Reported(NODES), Plain(), 0.0
    told = plain.copy()
    for step in steps:
        if step[0] == "job":
            _put(central, plain, [at % NODES for at in range(step[1])], step[2])
        elif step[0] == "wait":
            now_s += step[1]
        elif step[0] == "report":
            reported.hear(central)
            told = plain.copy()
        else:
            _step(central, plain, step, now_s)
        _same(reported, told, now_s, 0)
