"""Each example application, run by `quicksilver app run examples/..` on a real local cluster of stock YARN."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner, Result

from quicksilver.cli import cli
from quicksilver_apps.client.records import HOME
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.workloads.errors import WorkloadError
from quicksilver_lab.workloads.spark import Installation, find_spark

pytestmark = pytest.mark.hadoop
ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
_ID = re.compile(r"application_\d+_\d+")
_LOGS_S = 30.0
Program = Callable[..., Result]


@pytest.fixture
def program(plain_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Return a call of `quicksilver app ..` on the cluster."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(plain_cluster.conf_dir))
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    return lambda *arguments: CliRunner().invoke(cli, ["app", *map(str, arguments)], catch_exceptions=False)


def environment(folder: Path, *packages: str) -> Path:
    """Make an environment of Python with packages; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    subprocess.run(install, check=True, timeout=400)
    return python


def spark() -> Installation:
    try:
        return find_spark(ROOT / ".venv-spark" / "bin" / "python")
    except WorkloadError as error:
        pytest.skip(str(error))


def log(program: Program, result: Result, service: str) -> str:
    """Return what instance 0 of a service printed; logs are aggregated some time after the end."""
    assert result.exit_code == 0, result.output
    found = _ID.search(result.output)
    assert found is not None, result.output
    deadline = time.monotonic() + _LOGS_S
    while True:
        read = program("logs", found[0], "--service", service, "--instance", 0, "--file", "stdout")
        if read.exit_code == 0 or time.monotonic() > deadline:
            assert read.exit_code == 0, read.output
            return read.output
        time.sleep(0.5)


def test_a_pool_of_work_takes_all_workers_of_an_empty_cluster(program: Program) -> None:
    sizes = ("units=60", "unit-s=0.25", "core-workers=2", "elastic-workers=3")
    result = program("run", EXAMPLES / "workpool", *(part for size in sizes for part in ("--set", size)))
    printed = log(program, result, "pool")
    summary = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert summary["most_workers"] == 5, printed
    assert (summary["units"], summary["handed_out_again"]) == (60, 0)
    assert summary["work_s"] >= 60 * 0.25 / 5, "no unit is shorter than it says"
    assert "worker[4] runs" in result.output and "succeeded after" in result.output


def test_the_ranks_of_a_rigid_job_wait_for_each_other(program: Program) -> None:
    result = program("run", EXAMPLES / "mpi-like", "--set", "ranks=3", "--set", "rounds=5")
    assert "rank 0 of 3: 5 sums are right" in log(program, result, "rank")


def test_a_spark_job_gets_elastic_workers(program: Program) -> None:
    found = spark()
    values = (f"spark-home={found.home}", f"python={found.python}", "elastic-workers=1", "samples=200000")
    result = program("run", EXAMPLES / "spark-batch", *(part for value in values for part in ("--set", value)))
    printed = log(program, result, "driver")
    assert re.search(r"pi is about 3\.1\d+; 8000 words; [12] executors", printed), printed
    assert "worker[1] is ready" in result.output


@pytest.mark.long
def test_dask_gets_elastic_workers(program: Program, tmp_path: Path) -> None:
    python = environment(tmp_path / "dask", "dask", "distributed")
    result = program("run", EXAMPLES / "dask", "--set", f"python={python}", "--set", "elastic-workers=2")
    printed = log(program, result, "job")
    assert re.search(r"60 tasks in .* 3 workers at the end; the sum is 70210", printed), printed


@pytest.mark.long
def test_a_notebook_runs_until_it_is_killed(program: Program, tmp_path: Path) -> None:
    python = environment(tmp_path / "notebook", "jupyterlab")
    values = ("--set", f"python={python}", "--set", "token=a-secret")
    submitted = program("submit", EXAMPLES / "notebook", *values)
    assert submitted.exit_code == 0, submitted.output
    app_id = submitted.output.strip()
    try:
        ready = program("wait", app_id, "--ready", "--timeout", 200)
        assert ready.exit_code == 0, ready.output
        shown = json.loads(program("services", app_id, "--json").output)
        url = shown["services"][0]["instances"][0]["links"]["web"].removesuffix("/lab")
        assert requests.get(f"{url}/api/contents", timeout=30).status_code == 403
        assert requests.get(f"{url}/api/contents", params={"token": "a-secret"}, timeout=30).status_code == 200
        assert shown["class"] == "interactive"
    finally:
        killed = program("kill", app_id)
    assert killed.output.strip() == f"{app_id} ended in order: killed"
