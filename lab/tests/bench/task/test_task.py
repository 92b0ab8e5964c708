"""`bench task` from end to end with two nodes, and what its stand-ins answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest

from quicksilver_lab.bench.task.cluster import Load
from quicksilver_lab.bench.task.parts import LOOP, PARTS
from quicksilver_lab.bench.task.proxy_process import CpuReading
from quicksilver_lab.bench.task.rates import RunReading, rates
from quicksilver_lab.bench.task.run import TaskError, TaskPlan, check, figures, measure, median_round
from quicksilver_lab.bench.task.traffic import Ports, Volume, volumes
from quicksilver_lab.bench.task.yarn import ClusterLog, RestStandIn, TaskCluster, app_id
from rm_proxy.yarn.client import YarnRest

SIZE = TaskCluster(nodes=2, slots=8, masters=2)
LOAD = Load(rate=20, task_s=0.2, beat_s=0.2)


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


def test_rates_are_of_a_second_by_process_and_by_end_of_each_connection() -> None:
    nodes, masters, rm = Ports(5000, 80), Ports(5001, 81), Ports(82, 5002)
    before = RunReading(
        10,
        CpuReading(1, {}, {"worker-0": 1.0}),
        Counter(reports=10),
        {nodes: Volume(100, 50), Ports(1, 9): Volume(1, 1)},
    )
    after = RunReading(
        20,
        CpuReading(3, {}, {"worker-0": 3.0, "worker-1": 0.5}),
        Counter(reports=60, own_granted=5),
        {nodes: Volume(1100, 250), masters: Volume(300, 0), rm: Volume(20, 10), Ports(1, 9): Volume(9, 9)},
    )
    result = rates(before, after, {80: "nodes", 81: "masters", 82: "rm"}, ("worker-0", "worker-1"))
    assert result["cores"] == {"worker-0": 0.2, "worker-1": 0.05}
    assert result["per_s"] == {"own_granted": 0.5, "reports": 5}
    ways = {"from_masters": 30, "from_nodes": 100, "from_rm": 2, "to_masters": 0, "to_nodes": 20, "to_rm": 1}
    assert result["seconds"] == 10 and result["bytes_per_s"] == ways
    assert "report_us" not in result, "no part has a clock"


def test_reports_and_rounds_have_their_cpu_time_where_the_parts_have_a_clock() -> None:
    spent_s = {"report_frames": 0.1, "report_state": 0.3, "rounds": 0.05}
    before, after = RunReading(0, CpuReading(0, {}, {}), Counter(), {}), CpuReading(1, spent_s, {})
    result = rates(before, RunReading(10, after, Counter(reports=200), {}), {}, ["proxy"])
    assert (result["cores"], result["report_us"], result["round_ms"]) == ({"proxy": 0.1}, 2000, 5)


async def test_the_kernel_counts_the_bytes_of_each_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 1000)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await reader.readexactly(1000)
    own = writer.get_extra_info("sockname")[1]
    assert volumes()[Ports(own, port)].received == 1000
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    ("own_grants", "counts", "fault", "why"),
    [
        (False, Counter(completed=1), "", None),
        (True, Counter(completed=1, own_granted=1), "", None),
        (False, Counter(completed=1), "host0: lost", "host0: lost"),
        (False, Counter(), "", "no task ended"),
        (True, Counter(completed=1), "", "granted no container itself"),
        ("ahead", Counter(completed=1, own_granted=1), "", "ahead of the ResourceManager"),
    ],
)
def test_a_run_that_did_something_else_has_no_figures(
    own_grants: bool | Literal["ahead"], counts: Counter[str], fault: str, why: str | None
) -> None:
    plan = TaskPlan(SIZE, LOAD, seconds=4, warm_up_s=2, own_grants=own_grants)
    log = ClusterLog(faults=[fault] if fault else [])
    if why is None:
        check(plan, counts, log)
    else:
        with pytest.raises(TaskError, match=why):
            check(plan, counts, log)


@pytest.mark.long
def test_a_small_run(tmp_path: Path) -> None:
    result = asyncio.run(measure(TaskPlan(SIZE, LOAD, seconds=4, warm_up_s=2), tmp_path))
    assert result["tasks"] > 0 and result["cpu_us_per_task"] > 0
    assert result["parts_us_per_task"].keys() == {LOOP, *PARTS}
    assert all(spent > 0 for spent in result["parts_us_per_task"].values())
    assert result["per_task"].keys() == {"announced", "heartbeats", "reports"}, "no container went guaranteed"
    assert result["cores"]["proxy"] > 0 and result["memory_mb"]["proxy"] > 10 and result["per_s"]["reports"] >= 1
    assert {way for way, count in result["bytes_per_s"].items() if count} == {
        f"{way}_{end}" for way in ("from", "to") for end in ("nodes", "masters", "rm")
    }


@pytest.mark.long
@pytest.mark.parametrize(("own_grants", "workers"), [(True, 1), ("ahead", 1), (True, 2)])
def test_the_proxy_grants_the_containers_itself(
    tmp_path: Path, own_grants: bool | Literal["ahead"], workers: int
) -> None:
    plan = TaskPlan(SIZE, LOAD, 4, 2, timers=False, workers=workers, own_grants=own_grants)
    result = asyncio.run(measure(plan, tmp_path))
    assert result["per_task"]["own_granted"] > 0.8, "the ResourceManager grants next to nothing"
    expected = {"proxy"} if workers == 1 else {"supervisor", "front", "worker-0", "worker-1"}
    assert result["cores"].keys() == result["memory_mb"].keys() == expected
