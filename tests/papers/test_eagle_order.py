"""Worked numbers of Eagle (thesis §3.4.3 and §3.5) for SRPT at a node and its bound on starvation."""

from __future__ import annotations

from policies.config.policy_set import Policies
from policies.model import ContainerView, Kind, Resources
from sidecar.node.queue.waiting_queue import WaitingQueue, WaitingStart


def task(job: str, number: int, arrived_s: float, each_s: float, tasks: int) -> WaitingStart:
    view = ContainerView(
        f"{job}-{number}",
        job,
        Kind.QUEUEABLE,
        Resources(1024, 1),
        arrived_s=arrived_s,
        expected_s=each_s,
        job_remaining_s=each_s * tasks,
    )
    return WaitingStart(view, "attempt", 1e9, 1)


def queue() -> WaitingQueue:
    srpt = Policies.load({"order": {"policy": "srpt"}}).node
    return WaitingQueue(srpt.order_key, 1000, 10**6, srpt.bypass_limit_s)


def starts(line: WaitingQueue, count: int) -> list[str]:
    found = []
    for _ in range(count):
        head = line.head(0.0)
        assert head is not None
        found.append(line.launch(head.view.id).view.id)
    return found


def test_the_job_with_the_least_left_starts_first() -> None:
    """§3.4.3: the node picks the job of the shortest remaining time, not the shortest task."""
    line = queue()
    line.add(task("many", 1, 1, 10, 20))  # 200 s left
    line.add(task("few", 1, 2, 30, 2))  # 60 s left
    assert starts(line, 2) == ["few-1", "many-1"]


def test_five_times_the_tasks_duration_may_pass() -> None:
    """§3.5: the threshold is 5 times the estimated duration of a task: five tasks as long as it, not six."""
    line = queue()
    line.add(task("long", 1, 0, 10, 100))
    for number in range(1, 8):
        line.add(task("short", number, number, 10, 7))
    assert starts(line, 8) == [*(f"short-{n}" for n in range(1, 6)), "long-1", "short-6", "short-7"]


def test_a_task_beyond_the_threshold_does_not_pass() -> None:
    """§3.4.3: T may not pass when its duration would make the counter exceed the threshold, here 50 s."""
    line = queue()
    line.add(task("long", 1, 0, 10, 100))
    line.add(task("exact", 1, 1, 50, 2))
    line.add(task("beyond", 1, 2, 51, 1))
    assert starts(line, 3) == ["exact-1", "long-1", "beyond-1"]


def test_remaining_work_that_falls_moves_a_job_ahead() -> None:
    """§3.4.3: the scheduler renews the remaining tasks at all nodes that hold its probes."""
    line = queue()
    line.add(task("a", 1, 1, 10, 8))
    line.add(task("b", 1, 2, 10, 9))
    line.job_sizes({"a": 80.0, "b": 20.0})
    assert starts(line, 2) == ["b-1", "a-1"]
