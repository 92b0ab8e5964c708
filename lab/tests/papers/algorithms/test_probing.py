"""Probes, who refuses them, who is next at a node, and where the least work waits."""

from collections import Counter
from heapq import heapify, heapreplace
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.common.least_wait import spread
from policies.common.probing import draw, probes
from policies.common.short_long import is_long, kept_for_short
from policies.model import ContainerView, Kind, Resources
from policies.order.srpt import Srpt, key
from policies.steal.hawk import short_runs
from quicksilver_lab.papers.algorithms.least_work import jittered
from quicksilver_lab.papers.algorithms.sticky import NONE, first, overtake, shortest
from quicksilver_lab.papers.algorithms.succinct_state_sharing import Marks, again, freshest
from sidecar.node.queue.waiting_queue import WaitingQueue, WaitingStart

SECONDS = st.floats(0.5, 100.0)


@pytest.mark.parametrize(
    ("tasks", "ratio", "least", "expected"),
    ((10, 2.0, 0, 20), (3, 2.0, 20, 20), (3, 1.5, 0, 5), (3, 1.0, 0, 3), (0, 2.0, 20, 0)),
)
def test_how_many_probes(tasks: int, ratio: float, least: int, expected: int) -> None:
    assert probes(tasks, ratio, least) == expected


def test_distinct_probes_go_to_all_nodes_before_one_is_drawn_again() -> None:
    drawn = Counter(draw(10, range(4), Random(1), distinct=True))
    assert sorted(drawn) == [0, 1, 2, 3] and sorted(drawn.values()) == [2, 2, 3, 3]
    assert draw(10, [7], Random(1)) == [7] * 10
    for distinct in (False, True):
        with pytest.raises(IndexError):
            draw(1, [], Random(1), distinct)


def test_the_cluster_is_split_and_long_tasks_always_have_a_node() -> None:
    assert [kept_for_short(*case) for case in ((4000, 0.02), (100, 0.29), (1, 0.9), (10, 0.0))] == [80, 29, 0, 0]
    assert [is_long(estimate_s, 90.0) for estimate_s in (89.0, 90.0, 91.0)] == [False, False, True]


def test_refused_probes_go_where_no_long_task_was_and_then_to_the_nodes_kept_for_them() -> None:
    old, new = Marks(1, bytes((0, 1, 0, 0))), Marks(2, bytes((0, 1, 1, 0)))
    assert freshest(old, new) is freshest(new, old) is freshest(None, new) is freshest(new, None) is new
    assert freshest(None, None) is None
    rng = Random(3)
    assert set(again(50, 1, new, range(1), rng)) == {0, 3}
    assert set(again(50, 2, new, range(1), rng)) == set(again(50, 1, None, range(1), rng)) == {0}
    assert set(again(50, 1, Marks(3, bytes((1, 1))), range(1), rng)) == {0}


def test_short_tasks_behind_a_long_one_come_in_groups() -> None:
    """Figure 2.3 of the thesis: a short task runs in the first queue, a long one in the second."""
    assert list(short_runs(bytes((0, 0, 1, 0, 0, 1, 0)), held_up=False)) == [(3, 5), (6, 7)]
    assert list(short_runs(bytes((0, 0, 1, 0, 0, 1, 0)), held_up=True)) == [(0, 2), (3, 5), (6, 7)]
    assert list(short_runs(bytes(2), held_up=False)) == list(short_runs(b"", held_up=True)) == []
    assert list(short_runs(bytes((1, 1)), held_up=True)) == []


def test_the_probe_with_the_least_work_left_is_next_unless_it_overtook_too_much() -> None:
    left_s, task_s = [100.0, 20.0, 0.0, -1.0, 5.0], [10.0, 10.0, 1.0, 200.0, 5.0]
    slack_s = [50.0, 50.0, 5.0, inf, 25.0]
    assert shortest([0, 1, 4], slack_s, left_s, task_s) == 2
    assert shortest([0, 1, 3, 4], slack_s, left_s, task_s) == 1  # nobody overtakes a long one
    assert shortest([2, 3, 0], slack_s, left_s, task_s) == first([2, 3, 0], left_s) == 1
    assert shortest([2, 2], slack_s, left_s, task_s) == first([2], left_s) == NONE
    slack_s = [12.0, 50.0, 25.0]
    overtake(slack_s, 2, 5.0)
    assert slack_s == [7.0, 45.0, 25.0]
    assert shortest([0, 1, 4], slack_s, left_s, task_s) == 2
    overtake(slack_s, 2, 5.0)
    assert shortest([0, 1, 4], slack_s, left_s, task_s) == 0


def _view(at: int, task_s: float, left_s: float) -> ContainerView:
    return ContainerView(
        f"c{at}", f"a{at}", Kind.QUEUEABLE, Resources(1), arrived_s=at, expected_s=task_s, job_remaining_s=left_s
    )


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 20)), min_size=1, max_size=12))
def test_the_sidecars_queue_with_srpt_starts_them_in_the_same_order(jobs: list[tuple[int, int]]) -> None:
    task_s = [float(task) for task, _ in jobs]
    left_s = [float(task * tasks) for task, tasks in jobs]
    cfg = Srpt()
    queue = WaitingQueue(lambda view, now_s: key(view, cfg, now_s), 100, 100, cfg.limit_s)
    views = [_view(at, task, left) for at, (task, left) in enumerate(zip(task_s, left_s, strict=True))]
    for view in views:
        queue.add(WaitingStart(view, "attempt", inf, size=1))
    waiting, slack_s = list(range(len(jobs))), [cfg.limit_s(view) for view in views]
    while waiting:
        at = shortest(waiting, slack_s, left_s, task_s, min(task_s))
        head = queue.head(0.0)
        assert head is not None and head.view.id == f"c{waiting[at]}"
        queue.launch(head.view.id)
        overtake(slack_s, at, task_s[waiting[at]])
        del waiting[at], slack_s[at]


@given(st.lists(SECONDS, min_size=1, max_size=20), st.integers(0, 60), SECONDS)
def test_each_task_goes_where_the_least_work_waits(waits_s: list[float], tasks: int, task_s: float) -> None:
    heap = [(wait_s, node) for node, wait_s in enumerate(waits_s)]
    by_wait = sorted(heap)
    heapify(heap)
    ends_s = []
    for _ in range(tasks):
        ends_s.append(heap[0][0])
        heapreplace(heap, (heap[0][0] + task_s, heap[0][1]))
    chosen = spread(tasks, task_s, by_wait)
    idle = [node for wait_s, node in by_wait if not wait_s]
    assert spread(tasks, task_s, by_wait[len(idle) :], idle) == chosen
    got = sorted(waits_s[node] + task_s * at for node, count in Counter(chosen).items() for at in range(count))
    assert got == pytest.approx(sorted(ends_s)) and len(chosen) == tasks


def test_without_a_node_no_task_can_be_placed() -> None:
    with pytest.raises(IndexError):
        spread(1, 1.0, [])


@given(st.lists(st.sampled_from((0.0, 1.0, 5.0, 5.5, 40.0)), max_size=30), st.floats(0, 20), st.integers())
def test_jitter_adds_to_each_wait_and_keeps_the_order(waits_s: list[float], most_s: float, seed: int) -> None:
    by_wait = sorted((wait_s, node) for node, wait_s in enumerate(waits_s))
    idle = [node for wait_s, node in by_wait if not wait_s]
    got = list(jittered(by_wait[len(idle) :], most_s, Random(seed), idle))
    assert got == sorted(got, key=lambda one: one[0])
    assert sorted(node for _, node in got) == list(range(len(waits_s)))
    assert all(waits_s[node] - 1e-9 <= sum_s <= waits_s[node] + most_s + 1e-9 for sum_s, node in got)


@pytest.mark.parametrize("idle", [(1, 2, 3, 4), ()])
def test_jitter_is_equally_likely_everywhere_and_reads_no_further_than_it_must(idle: tuple[int, ...]) -> None:
    rng, drawn, firsts = Random(4), list[float](), Counter[int]()
    for _ in range(2000):
        read = iter([*((0.0, node) for node in (1, 2, 3, 4) if node not in idle), (50.0, 5), (50.1, 6)])
        some = jittered(read, 10.0, rng, idle)
        got = [next(some) for _ in range(4)]
        assert list(read) == [(50.1, 6)]
        drawn += [sum_s for sum_s, _ in got]
        firsts[got[0][1]] += 1
    assert sum(drawn) / len(drawn) == pytest.approx(5.0, rel=0.02)
    assert sum(drawn[::4]) / 2000 == pytest.approx(10.0 / 5, rel=0.04)  # the lowest of four
    assert sum(drawn[3::4]) / 2000 == pytest.approx(40.0 / 5, rel=0.02)
    assert all(count == pytest.approx(500, rel=0.15) for count in firsts.values())


def test_jitter_mixes_idle_nodes_with_those_that_wait_less_than_it() -> None:
    rng, first, behind = Random(7), 0, 0
    for _ in range(4000):
        order = [node for _, node in jittered([(5.0, 9)], 10.0, rng, range(3))]
        first += order[0] == 9
        behind += order[-1] == 9
    assert first / 4000 == pytest.approx(1 / 64, rel=0.3)  # the integral of (1 - x)**3 / 2 where x goes from 1/2 to 1
    assert behind / 4000 == pytest.approx(1 / 2 + 15 / 64, rel=0.05)
