"""Whether queues and users get, while queueable work floods the cluster, what the ResourceManager alone gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from quicksilver_lab.bench.emulator.jobs import WARM, WARM_S
from quicksilver_lab.bench.emulator.model import JobRecord, JobSpec, RunResult, TaskRecord, TaskSpec
from quicksilver_lab.bench.stats import percentile

WINDOW_S: Final = 30
SHORTFALL: Final = 0.05
"""Of what the ResourceManager's own scheduler gives, over any WINDOW_S."""
WAIT_ADDED_S: Final = 0.3
"""By so much longer a guaranteed container may wait."""
GUARANTEED: Final = "prod"
QUEUES: Final[Mapping[str, int]] = {"default": 60, GUARANTEED: 40}
SITE: Final[Mapping[str, str]] = {"yarn.scheduler.capacity.root.default.minimum-user-limit-percent": "50"}
"""Two users of a queue have half of it each; as shipped the first one may have it all."""
_LEAST_SHARE: Final = 0.05
"""Of the slots; who gets less in a window has too few tasks for a ratio."""
_LASTS_S: Final = 120.0


def jobs(slots: int, seed: int) -> list[JobSpec]:
    """Return a flood of one user, then steady work of another in the same queue, then guaranteed work in a second one.

    By slots offered: 1.2 times the cluster, 0.4 from 20 s on, 0.4 from 50 s on. Each has more than its right.
    """
    rng = Random(f"guarantees {seed}")
    specs: list[JobSpec] = []

    def offer(user: str, queue: str, from_s: float, every_s: float, task_s: float, share: float) -> None:
        width = max(1, round(slots * share * every_s / task_s))
        at_s = from_s
        while at_s < _LASTS_S:
            arrives_s = at_s + rng.uniform(0.0, every_s / 2)
            specs.append(JobSpec(0, arrives_s, user, (TaskSpec(task_s),) * width, queue, user))
            at_s += every_s

    offer("alice", "default", 0.0, 5.0, 5.0, 1.2)
    offer("bob", "default", 20.0, 3.0, 5.0, 0.4)
    offer("carol", GUARANTEED, 50.0, 4.0, 10.0, 0.4)
    specs.sort(key=lambda job: job.arrives_s)
    return [replace(job, number=number) for number, job in enumerate(specs, start=1)]


def routed(policies: Mapping[str, Any], queues: Sequence[str]) -> Mapping[str, Any]:
    """Return policies under which the applications of some queues have guaranteed containers alone."""
    if not queues:
        return policies
    first = {"policy": "only_g", "match": {"queue": list(queues)}}
    return dict(policies) | {"routes": [first, *policies.get("routes", [{"policy": "only_q"}])]}


# What each had

Label = tuple[str, str]
"""("queue" or "user", its name)."""


def labels(run: RunResult) -> list[Label]:
    """Return the queues and users of a run's jobs."""
    counted = [job for job in run.jobs if job.klass != WARM]
    return sorted({("queue", job.queue) for job in counted} | {("user", job.user) for job in counted})


def _tasks(run: RunResult, label: Label) -> list[TaskRecord]:
    def has(job: JobRecord) -> bool:
        return job.klass != WARM and (job.queue if label[0] == "queue" else job.user) == label[1]

    return [task for job in run.jobs if has(job) for task in job.tasks]


def _each_second(intervals: Iterable[tuple[float, float]], until_s: int) -> list[int]:
    """Return how many intervals hold each whole second."""
    steps = [0] * (until_s + 1)
    for from_s, to_s in intervals:
        steps[min(until_s, max(0, int(from_s) + 1))] += 1
        steps[min(until_s, max(0, int(to_s) + 1))] -= 1
    levels, level = [], 0
    for step in steps[:until_s]:
        level += step
        levels.append(level)
    return levels


def occupancy(tasks: Sequence[TaskRecord], until_s: int) -> list[int]:
    """Return how many of the tasks run at each second."""
    running = [(task.started_s, _or(task.ended_s, until_s)) for task in tasks if task.started_s is not None]
    return _each_second(running, until_s)


def wanting(tasks: Sequence[TaskRecord], until_s: int) -> list[int]:
    """Return how many of the tasks wait for their start at each second."""
    return _each_second(((task.wanted_s, _or(task.started_s, until_s)) for task in tasks), until_s)


def _or(at_s: float | None, until_s: int) -> float:
    return float(until_s) if at_s is None else at_s


def shortfall(label: Label, stock: RunResult, own_run: RunResult) -> float:
    """Return by which share of what stock YARN gave a queue or user it had less here, in the worst WINDOW_S.

    Only what it wanted counts: an owner whose work is all done by then has no shortfall.
    """
    until_s = until(stock, own_run)
    stock_counts = occupancy(_tasks(stock, label), until_s)
    own_tasks = _tasks(own_run, label)
    own_counts, wishes = occupancy(own_tasks, until_s), wanting(own_tasks, until_s)
    missing = [
        min(theirs, own + more) - own if theirs > own else theirs - own
        for theirs, own, more in zip(stock_counts, own_counts, wishes, strict=True)
    ]
    worst = 0.0
    for start in range(int(WARM_S), until_s - WINDOW_S + 1):
        total = sum(stock_counts[start : start + WINDOW_S])
        if total >= _LEAST_SHARE * own_run.slots * WINDOW_S:
            worst = max(worst, sum(missing[start : start + WINDOW_S]) / total)
    return round(worst, 4)


def wait_added_s(stock: RunResult, own_run: RunResult) -> float:
    """Return by how many seconds guaranteed tasks wait longer than on stock YARN: at p50, p95 or p100, the worst."""
    both = [
        [task.started_s - task.wanted_s for task in _tasks(run, ("queue", GUARANTEED)) if task.started_s is not None]
        for run in (stock, own_run)
    ]
    if not all(both):
        return 0.0
    return round(max(percentile(both[1], q) - percentile(both[0], q) for q in (50, 95, 100)), 4)


def until(*runs: RunResult) -> int:
    """Return up to when windows are compared: the last arrival, in whole seconds of the runs' clock."""
    return int(min(max(job.submitted_s for job in run.jobs) for run in runs))


def compared(stock: Sequence[RunResult], own_runs: Sequence[RunResult]) -> dict[str, Any]:
    """Return the worst shortfall by queue and user, and of guaranteed waits, over the seeds that both have."""
    by_seed = {run.seed: run for run in stock}
    pairs = [(by_seed[run.seed], run) for run in own_runs if run.seed in by_seed]
    if not pairs:
        return {}

    def worst(measure: Callable[[RunResult, RunResult], float]) -> float:
        return max(measure(first, second) for first, second in pairs)

    return {
        "shortfall": {f"{label[0]} {label[1]}": worst(partial(shortfall, label)) for label in labels(pairs[0][1])},
        "wait_added_s": worst(wait_added_s),
        "pairs": len(pairs),
    }


def goals(comparison: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the goals of what `compared` has, by name."""
    verdicts = {
        f"guarantees.shortfall.{label}": (value, SHORTFALL) for label, value in comparison.get("shortfall", {}).items()
    }
    if "wait_added_s" in comparison:
        verdicts["guarantees.wait_added_s"] = (comparison["wait_added_s"], WAIT_ADDED_S)
    return {
        name: {"value": value, "goal": goal, "at_most": True, "met": value <= goal}
        for name, (value, goal) in verdicts.items()
    }
