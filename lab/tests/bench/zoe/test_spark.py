"""The comparison of Spark applications: the cluster of each system, and what an application's record becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver_lab.bench.zoe.spark import SYSTEMS, ZOE, Ran, SparkRun, _add_tasks, spec


@pytest.mark.parametrize("system", SYSTEMS)
def test_both_systems_have_the_same_cluster_but_for_the_overlay(tmp_path: Path, system: str) -> None:
    found = spec(system, tmp_path, 20000)
    assert found.overlay == (system == ZOE)
    assert (found.nodes * found.node_memory_mb, found.queues["team1"]) == (8 * 768, 25)


def test_a_record_tells_when_and_on_how_many_executors_tasks_ran() -> None:
    ran = Ran("application_1_0001", "team1", "SUCCEEDED", 0.0, 90.0, 60.0)
    tasks = [(120.0, 130.0, "a"), (121.0, 131.0, "b"), (130.0, 140.0, "c")]
    _add_tasks(ran, {"ready_s": 118.0, "tasks": tasks}, 100.0)
    assert (ran.ready_s, ran.first_task_s, ran.last_task_s) == (18.0, 20.0, 40.0)
    assert (ran.executors, ran.at_first) == (3, 2)


def test_a_run_has_the_mean_of_its_applications() -> None:
    first = Ran("application_1_0001", "team1", "SUCCEEDED", 0.0, 90.0, 60.0)
    second = Ran("application_1_0002", "team2", "FAILED", 5.0, 110.0, 80.0)
    run = SparkRun("stock", [first, second])
    assert (run.mean_s, run.after_room_s, run.makespan_s, run.succeeded) == (100.0, 70.0, 115.0, False)
    assert run.as_dict()["mean_turnaround_s"] == 100.0
