"""Real workloads on a real cluster: on plain YARN, then through proxy and sidecars."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads import clients, mapreduce, spark
from quicksilver_lab.workloads.distributed_shell import run_opportunistic_maps, run_shells, shell_is_right
from quicksilver_lab.workloads.environment import ROUTES, Environment, Where
from quicksilver_lab.workloads.gridmix_run import GridmixPlan, run_at
from quicksilver_lab.workloads.gridmix_site import LocalSite
from quicksilver_lab.workloads.history import JOB_COUNTERS, JobHistory
from quicksilver_lab.workloads.mapreduce import JobOptions, JobResult
from quicksilver_lab.workloads.records import GUARANTEED, OPPORTUNISTIC, RecordsWatch
from quicksilver_lab.workloads.rest import get_json
from quicksilver_lab.workloads.rumen import make_trace
from tests.paths import ROOT

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(960)]
"""More than a client's own limit (`clients.TIMEOUT_S`), which shows the end of what it printed."""
TEXT = mapreduce.make_text(500)
SOURCE = "/workloads/text"
SPARK = ROOT / spark.DEFAULT_PYTHON


def counted(cluster: Cluster, name: str, maps: int, reduces: int, options: JobOptions) -> JobResult:
    """Run a wordcount whose output must be right."""
    target = f"/workloads/{name}-{time.time_ns()}"
    mapreduce.put_text(cluster, SOURCE, TEXT)
    job = mapreduce.start_wordcount(cluster, SOURCE, target, maps=maps, reduces=reduces, options=options).wait(300)
    assert mapreduce.differences(mapreduce.read_counts(cluster, target), mapreduce.count_words(TEXT)) == {}
    return job


def check_log_links(cluster: Cluster, job: JobResult) -> None:
    """Follow the history server's links to the logs of all attempts and find there what each attempt itself wrote."""
    history = JobHistory(cluster)
    links = history.log_links(job.job_id)
    containers = {attempt.id: attempt.container for attempt in history.attempts(job.job_id)}
    assert links.keys() <= containers.keys()
    assert len(links) == job.maps + job.reduces
    for attempt, link in links.items():
        assert f"/{containers[attempt]}/" in link
        assert f"Task '{attempt}' done." in history.log_text(link)


@pytest.fixture(scope="session")
def plain_job(hadoop_cluster: Cluster) -> JobResult:
    """Run a job on plain YARN, whose history stays for later tests."""
    if hadoop_cluster.spec.overlay:
        hadoop_cluster.restart_yarn(overlay=False)
    options = JobOptions(queue="batch", tags=("one", "two"), properties={"mapreduce.map.speculative": "false"})
    return counted(hadoop_cluster, "plain", maps=3, reduces=2, options=options)


def test_a_job_on_plain_yarn_is_what_was_asked_for(plain_job: JobResult, plain_cluster: Cluster) -> None:
    assert (plain_job.maps, plain_job.reduces, plain_job.failed_attempts) == (3, 2, 0)
    assert plain_job.counters[JOB_COUNTERS]["TOTAL_LAUNCHED_MAPS"] == 3
    assert 0 < plain_job.job_s < plain_job.wall_s
    app = get_json(f"{plain_cluster.rm_rest}/ws/v1/cluster/apps/{plain_job.application_id}")["app"]
    assert app["queue"].endswith("batch")
    assert set(app["applicationTags"].split(",")) == {"one", "two"}
    check_log_links(plain_cluster, plain_job)


@pytest.fixture(scope="module")
def env(plain_job: JobResult, overlay_cluster: Cluster) -> Iterator[Environment]:
    """Proxy and sidecars that make all containers queueable; after the job on plain YARN, whose history they use."""
    stack = LocalDaemons(overlay_cluster, {"queues": "*", "routes": [dict(ROUTES["only_q"])]})
    stack.start()
    try:
        yield Environment(overlay_cluster, stack, clients.silent)
    finally:
        stack.stop()


WHERE = Where(Path(), 0, plain=False, keep=False, route="only_q")


def test_logs_of_queueable_containers_are_linked(env: Environment) -> None:
    with RecordsWatch(env.cluster) as watch:
        job = counted(env.cluster, "linked", maps=2, reduces=1, options=JobOptions())
    records = watch.tally(job.application_id)
    assert records.rm_opportunistic == records.granted >= 3
    assert records.nm_opportunistic == records.ran >= 3
    assert records.disagreeing == ()
    check_log_links(env.cluster, job)


def test_gridmix_runs_the_trace_of_a_history(env: Environment, plain_job: JobResult) -> None:
    trace = make_trace(env.cluster, [plain_job.job_id])
    with RecordsWatch(env.cluster) as watch:
        plan = GridmixPlan(jobs=1, policy="SERIAL", job_type="SLEEPJOB", data_mb=0)
        outcome = run_at(LocalSite(env.cluster), plan, trace, env.progress)
    assert outcome.summary.all_successful
    assert (outcome.summary.maps, outcome.summary.reduces) == (3, 2)
    ((job, how),) = outcome.outcomes.values()
    assert how == "success"
    records = watch.tally(job.replace("job_", "application_"))
    assert records.rm_opportunistic >= 5
    assert records.disagreeing == ()


def test_distributed_shell_with_both_types(env: Environment) -> None:
    shells = run_shells(env, [GUARANTEED, OPPORTUNISTIC], containers=2)
    for shell in shells:
        assert shell_is_right(env, WHERE, shell), shell


def test_mapreduces_own_opportunistic_maps(env: Environment) -> None:
    job, records = run_opportunistic_maps(env, percent=100, maps=2)
    assert job.failed_attempts == 0
    assert records.rm_opportunistic >= 2
    assert records.disagreeing == ()


@pytest.mark.skipif(not SPARK.exists(), reason="`make spark` has not installed pyspark in .venv-spark")
def test_spark_executors_are_queueable(env: Environment) -> None:
    outcome = spark.run(env, spark.find_spark(SPARK), executors=3, lines=2000)
    assert spark.is_right(env, WHERE, outcome, executors=3), outcome
