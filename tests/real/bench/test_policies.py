"""bench-policies on a real cluster: the workload, its figures, and one run."""

import subprocess
from pathlib import Path

import pytest

from policies.config.policy_set import Policies
from quicksilver_lab.bench.las.master import Counts
from quicksilver_lab.bench.policies import real
from quicksilver_lab.bench.policies.jobs import BATCH, PRODUCTION
from quicksilver_lab.bench.policies.real import RealJob, RealLife, RealPlan, draw, metrics, spec, variants, wrong
from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port


def life(job: RealJob, began: list[float | None], ended: list[float | None], **counts: int) -> RealLife:
    return RealLife(job, 100.0, began, ended, Counts(**counts))


def test_jobs_are_the_same_for_equal_seeds() -> None:
    plan = RealPlan()
    jobs = draw(plan, 1)
    assert jobs == draw(plan, 1) != draw(plan, 2)
    assert [job.arrives_s for job in jobs if job.queue == PRODUCTION] == list(plan.g_at_s)
    batch = [job for job in jobs if job.queue == BATCH]
    assert len(batch) == plan.jobs and all(0 <= job.arrives_s <= plan.arrivals_s for job in batch)
    assert max(task for job in batch for task in job.tasks_s) <= 1.5 * plan.long_s


def test_figures_are_of_batch_tasks_and_of_guaranteed_ones_apart() -> None:
    batch = life(RealJob(BATCH, 0.0, (1.0, 1.0)), [101.0, 103.0], [102.0, 104.0], granted=4, opportunistic=3, killed=1)
    production = life(RealJob(PRODUCTION, 0.0, (1.0,)), [100.5], [101.5], granted=1)
    found = metrics([batch, production])
    assert found["tasks_per_s"] == 0.5 and found["wait_mean_s"] == 2.0 and found["completion_mean_s"] == 4.0
    assert found["g_wait_p95_s"] == 0.5 and found["again_per_1000"] == 500 and found["queueable_ratio"] == 0.75


def test_a_job_that_is_not_over_is_told() -> None:
    late = life(RealJob(BATCH, 0.0, (1.0,)), [None], [None])
    late.broken = "not over in time"
    failed = life(RealJob(BATCH, 0.0, (1.0,)), [1.0], [2.0], failed=1)
    failed.counts.reasons.append("exit 1")
    assert wrong([late, failed]) == ["not over in time", "a task failed: exit 1"]


def test_variants_load_and_are_all_against_the_baseline() -> None:
    found, absent = variants()
    assert found[0].name == "baseline" and {one.against for one in found} == {"baseline"}
    assert {one.name for one in found} | set(absent) == set(real.NAMES)
    for one in found:
        Policies.load(real.section(RealPlan(), one))
    assert variants(["nope"]) == ([], ["nope"])


def test_tasks_sleep_and_tell_begin_and_end(tmp_path: Path) -> None:
    told = tmp_path / "pipe"
    words = real.sleeping("container_1", ["python", "burn.py", str(told), "container_1", "0.01"])
    assert words[-3:] == [str(told), "container_1", "0.01"]
    script = Path(words[1]).read_text()
    assert script.count('>"$1"') == 2
    told.write_text("")
    subprocess.run([words[0], "-c", script.replace('>"$1"', '>>"$1"'), "task", *words[2:]], check=True)
    begin, end = (line.split() for line in told.read_text().splitlines())
    assert (begin[:2], end[:2]) == (["begin", "container_1"], ["end", "container_1"])
    assert float(end[2]) - float(begin[2]) >= 0.01


@pytest.mark.hadoop
@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_run_ends_well(tmp_path: Path) -> None:
    plan = RealPlan(nodes=1, jobs=2, arrivals_s=1.0, tasks=(2, 3), g_at_s=(0.5,), g_tasks=1)
    (baseline,), _ = variants(["baseline"])
    cluster = Cluster(spec(plan, tmp_path, free_base_port(1)))
    cluster.start()
    try:
        with real.stack(cluster, real.section(plan, baseline), "baseline"):
            lives = real.run_once(cluster, plan, 1)
    finally:
        cluster.stop()
    assert wrong(lives) == []
    found = metrics(lives)
    assert found["queueable_ratio"] == 1.0 and found["wait_p50_s"] > 0
    assert all(ended - began >= 0.5 for one in lives for began, ended in zip(one.began_s, one.ended_s, strict=True))
