"""`bench task` from end to end with two nodes, and what its stand-ins answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from quicksilver_lab.bench.task.cluster import Load
from quicksilver_lab.bench.task.parts import LOOP, PARTS
from quicksilver_lab.bench.task.proxy_process import CpuReading
from quicksilver_lab.bench.task.run import TaskError, TaskPlan, figures, measure, median_round
from quicksilver_lab.bench.task.yarn import RestStandIn, TaskCluster, app_id
from rm_proxy.yarn.client import YarnRest

SIZE = TaskCluster(nodes=2, slots=8, masters=2)


async def test_the_proxy_reads_what_the_stand_in_answers() -> None:
    with RestStandIn(SIZE) as url:
        yarn = YarnRest(url, timeout_s=30)
        try:
            nodes, apps, queues = await yarn.nodes(), await yarn.apps(), await yarn.queues()
            app, cluster = await yarn.app(app_id(2)), await yarn.cluster()
            assert await yarn.why_no_grants() == ""
        finally:
            await yarn.close()
    assert [(node.id, node.running, node.capacity.vcores) for node in nodes] == [
        ("host0:8041", True, 8),
        ("host1:8041", True, 8),
    ]
    assert [record.id for record in apps] == [app_id(1), app_id(2)] and app in apps
    assert [(queue.path, queue.capacity.vcores) for queue in queues] == [("root", 16), ("root.default", 16)]
    assert cluster.active and cluster.version == "3.4.2"


def test_figures_are_of_the_time_between_two_readings_for_each_task() -> None:
    before = CpuReading(1.0, {"sockets": 0.5}, {"store-writer": 0.1})
    after = CpuReading(1.4, {"sockets": 0.6, LOOP: 0.1}, {"store-writer": 0.2, "rest": 0.0001})
    result = figures(before, after, Counter(completed=200, reports=300, heartbeats=100))
    assert result["cpu_us_per_task"] == pytest.approx(2000)
    assert result["parts_us_per_task"] == pytest.approx({"sockets": 500, LOOP: 500})
    assert result["threads_us_per_task"] == pytest.approx({"store-writer": 500})
    assert result["tasks"] == 200 and result["per_task"] == {"heartbeats": 0.5, "reports": 1.5}


def test_a_round_of_a_starved_machine_counts_for_nothing() -> None:
    rounds = [{"cpu_us_per_task": cost, "completed_ratio": ratio} for cost, ratio in ((9, 0.1), (3, 0.9), (2, 1.0))]
    assert median_round(rounds) == {"cpu_us_per_task": 2, "completed_ratio": 1.0}
    with pytest.raises(TaskError, match="50% of the tasks"):
        median_round(rounds[:1])


@pytest.mark.long
def test_a_small_run(tmp_path: Path) -> None:
    plan = TaskPlan(SIZE, Load(rate=20, task_s=0.2, beat_s=0.2), seconds=4, warm_up_s=2)
    result = asyncio.run(measure(plan, tmp_path))
    assert result["tasks"] > 0 and result["cpu_us_per_task"] > 0
    assert result["parts_us_per_task"].keys() == {LOOP, *PARTS}
    assert all(spent > 0 for spent in result["parts_us_per_task"].values())
    assert result["per_task"].keys() == {"announced", "heartbeats", "reports"}, "no container went guaranteed"
