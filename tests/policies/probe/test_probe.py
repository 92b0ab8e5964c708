"""Which nodes the `probe` policies choose."""

from collections import Counter
from random import Random

from policies.model import AppView, JobClass, NodeView
from policies.probe.batch import Batch
from policies.probe.batch import probe as batch
from policies.probe.completion_time import CompletionTime
from policies.probe.completion_time import probe as completion_time
from policies.probe.succinct import Succinct
from policies.probe.succinct import probe as succinct
from policies.probes import NewTasks, ProbedNode


def node(name: str, *slots_s: float, long_ahead: bool = False, kept: bool = False) -> ProbedNode:
    return ProbedNode(NodeView(name), slots_s or (0.0,), long_ahead, kept)


def new(count: int, job_class: JobClass = JobClass.SHORT, *, expected_s: float = 10.0, more: bool = False) -> NewTasks:
    return NewTasks(AppView("a", job_class=job_class), count, expected_s, more)


def test_two_probes_for_each_task_at_different_nodes() -> None:
    nodes = [node(str(number)) for number in range(10)]
    chosen = batch(new(4), nodes, Batch(), Random(1))
    assert len(chosen) == len(set(chosen)) == 8
    assert Counter(batch(new(10), nodes, Batch(), Random(1))) == {str(number): 2 for number in range(10)}


def test_a_long_job_has_a_probe_for_each_task_where_it_waits_least() -> None:
    """Two slots come free at 0 and 4 s, one at 3 s: tasks of 5 s then wait until 4 and 5 s."""
    nodes = [node("two", 0.0, 4.0), node("one", 3.0)]
    assert batch(new(4, JobClass.LONG, expected_s=5.0), nodes, Batch(), Random(1)) == ["two", "one", "two", "two"]
    sampled = batch(new(1, JobClass.LONG), nodes, Batch(long_by_wait=False), Random(1))
    assert sorted(sampled) == ["one", "two"]


def test_short_jobs_avoid_nodes_with_long_tasks_ahead() -> None:
    nodes = [node("long", long_ahead=True), node("kept", kept=True), *(node(str(number)) for number in range(3))]
    chosen = succinct(new(1), nodes, Succinct(), Random(1))
    assert len(chosen) == 20, "at least 20 probes for a job"
    assert set(chosen) == {"kept", "0", "1", "2"}
    assert len(succinct(new(1, more=True), nodes, Succinct(), Random(1))) == 2, "not for each further task"


def test_with_long_tasks_everywhere_the_kept_nodes_are_probed() -> None:
    busy = [node(str(number), long_ahead=True) for number in range(5)]
    kept = node("kept", long_ahead=True, kept=True)
    assert set(succinct(new(3), [*busy, kept], Succinct(), Random(1))) == {"kept"}
    assert set(succinct(new(3), busy, Succinct(), Random(1))) == set("01234"), "any, where none is kept"


def test_each_task_queues_where_it_is_over_first() -> None:
    """Tasks of 10 s: over at 10, 20 at `two`, at 13 at `one`; `slow` takes 25 s, `lossy` counts 1.5 times."""
    slow = ProbedNode(NodeView("slow", slow_ratio=2.5))
    lossy = ProbedNode(NodeView("lossy", success_ratio=0.5), (1.0,))
    nodes = [slow, node("two", 0.0, 10.0), lossy, node("one", 3.0)]
    chosen = completion_time(new(6), nodes, CompletionTime(noise_s=0.0), Random(1))
    assert chosen == ["two", "one", "lossy", "two", "two", "one"]
    assert completion_time(new(2), [], CompletionTime(), Random(1)) == []


def test_almost_equal_nodes_are_not_all_the_first() -> None:
    nodes = [node(str(number)) for number in range(20)]
    chosen = {completion_time(new(1), nodes, CompletionTime(), Random(seed))[0] for seed in range(20)}
    assert len(chosen) > 5
