"""What an event log says of executors and of tasks that were done twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quicksilver_lab.frameworks.spark_events import history_of, read_history
from quicksilver_lab.frameworks.spark_jobs import SparkRounds
from quicksilver_lab.workloads.errors import OutputError


def stage(number: int, *rdds: int) -> dict[str, Any]:
    data = [{"RDD ID": rdd} for rdd in rdds]
    return {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": number, "RDD Info": data}}


def task(stage_id: int, partition: int, ran_s: float, reason: str = "Success") -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage_id,
        "Task End Reason": {"Reason": reason},
        "Task Info": {"Partition ID": partition, "Launch Time": 1000, "Finish Time": 1000 + round(1000 * ran_s)},
    }


EVENTS: list[dict[str, Any]] = [
    {"Event": "SparkListenerApplicationStart", "Timestamp": 10_000},
    {"Event": "SparkListenerExecutorAdded", "Timestamp": 12_000, "Executor ID": "1"},
    {"Event": "SparkListenerExecutorAdded", "Timestamp": 13_000, "Executor ID": "2"},
    {"Event": "SparkListenerJobStart", "Submission Time": 13_500},
    stage(0, 0, 1),
    task(0, 0, 2.0),
    task(0, 1, 2.0),
    {"Event": "SparkListenerExecutorRemoved", "Timestamp": 20_000, "Executor ID": "1", "Removed Reason": "preempted"},
    {"Event": "SparkListenerExecutorExcluded", "Executor ID": "1"},
    stage(1, 2),
    task(1, 0, 0.5, "ExecutorLostFailure"),
    stage(2, 1, 0),  # the same data as stage 0, in another job
    task(2, 0, 1.5),
    task(1, 0, 1.0),
    {"Event": "SparkListenerExecutorAdded", "Timestamp": 21_000, "Executor ID": "3"},
    {"Event": "SparkListenerApplicationEnd", "Timestamp": 40_000},
]


def test_a_stage_that_makes_the_same_data_again_repeats_its_tasks(tmp_path: Path) -> None:
    (tmp_path / "application_1_0001").write_text("\n".join(map(json.dumps, EVENTS)) + '\n{"Event": "half of a li')
    history = read_history(tmp_path, "application_1_0001")
    assert (history.tasks, history.repeated, history.lost, history.excluded) == (3, 1, 1, 1)
    assert history.repeated_s == 2.0
    assert history.task_s == 7.0
    assert history.wall_s == 30.0
    assert history.lost_reasons == {"ExecutorLostFailure": 1}
    assert history.removed == {"1": (20.0, "preempted")}
    assert history.at_once == 2
    assert history.jobs_s == [13.5]


def test_an_application_without_an_end_has_no_time_yet() -> None:
    assert history_of(map(json.dumps, EVENTS[:-1])).ended_s is None


def test_no_event_log_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="application_1_0002"):
        read_history(tmp_path, "application_1_0002")


def test_the_sums_of_a_job_are_those_of_its_numbers() -> None:
    sums = SparkRounds(tasks=9, rounds=2).sums()
    assert sums[0] == sums[1]
    assert sums[0] == [[0, 0 + 7], [1, 1 + 8], [2, 2], [3, 3], [4, 4], [5, 5], [6, 6]]
