"""`quicksilver app ..` with applications that fail, wait, grow and are ended; 1,000 submissions at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner, Result

from quicksilver.cli import cli
from quicksilver_apps.client.records import HOME, ClientRecords
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec

pytestmark = pytest.mark.hadoop
SUBMISSIONS, ROOM = 1000, 700
Program = Callable[..., Result]


def caller(cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.conf_dir))
    monkeypatch.setenv(HOME, str(folder / "home"))
    return lambda *arguments: CliRunner().invoke(cli, ["app", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def program(plain_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return caller(plain_cluster, tmp_path, monkeypatch)


def described(folder: Path, command: str, more: str = "") -> Path:
    path = folder / "app.yaml"
    path.write_text(
        "version: 1\nname: tried\nservices:\n- name: main\n  core: 1\n  elastic: 2\n  main: true\n"
        f"  resources: {{memory_mb: 256}}\n  restart: {{policy: never}}\n  command: {command}\n{more}"
    )
    return path


def test_a_failure_has_its_reason(program: Program, tmp_path: Path) -> None:
    result = program("run", described(tmp_path, "echo all is lost; exit 7"))
    assert result.exit_code == 1
    assert re.search(r"failed after [\d.]+ s: .*main.*exit status 7", result.output), result.output


def test_an_application_is_asked_scaled_and_killed(program: Program, tmp_path: Path) -> None:
    submitted = program("submit", described(tmp_path, "echo begun; sleep 300"), "--name", "other", "--priority", 0)
    assert submitted.exit_code == 0, submitted.output
    app_id = submitted.output.strip()
    early = program("run", described(tmp_path, "sleep 300"), "--timeout", 0.1)
    assert early.exit_code == 4 and "goes on; wait with `quicksilver app wait" in early.output
    assert program("kill", re.findall(r"application_\d+_\d+", early.output)[-1]).exit_code == 0
    assert program("wait", app_id, "--ready", "--timeout", 120).exit_code == 0
    shown = json.loads(program("services", app_id, "--json").output)
    assert (shown["name"], shown["services"][0]["core"]) == ("other", 1)
    assert "main[0]" in program("services", app_id).output
    assert "begun" in program("logs", app_id, "--instance", 0).output
    scaled = program("scale", app_id, "main", 0)
    assert scaled.exit_code == 0 and "1 instances are wanted" in scaled.output
    beyond = program("scale", app_id, "main", 3)
    assert beyond.exit_code == 1 and "count: 3 is not within 0 and 2" in beyond.stderr
    assert ClientRecords().required(app_id).staging
    killed = program("kill", app_id)
    assert killed.output.strip() == f"{app_id} ended in order: killed"
    assert ClientRecords().required(app_id).staging == "", "its files are removed"
    assert program("wait", app_id).exit_code == 3
    assert program("clean", "--forget").exit_code == 0
    assert ClientRecords().all() == []


@pytest.fixture(scope="module")
def small_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """YARN alone, whose scheduler takes ROOM applications and has room for one master."""
    prefix = "yarn.scheduler.capacity"
    spec = ClusterSpec(
        workdir=tmp_path_factory.mktemp("small"),
        base_port=free_base_port(1),
        nodes=1,
        overlay=False,
        yarn_only=True,
        node_memory_mb=512,
        min_allocation_mb=256,
        queues={"default": 100},
        extra_site={"capacity-scheduler": {f"{prefix}.root.default.maximum-applications": str(ROOM)}},
    )
    made = Cluster(spec)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_of_1000_submissions_at_once_none_is_lost(
    small_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUICKSILVER_STAGING", f"file://{tmp_path}/staging")
    program = caller(small_cluster, tmp_path, monkeypatch)
    result = program("submit", described(tmp_path, "sleep 600"), "--count", SUBMISSIONS, "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    accepted = {each["application_id"] for each in lines if each["accepted"]}
    refused = [each for each in lines if not each["accepted"]]
    assert (len(lines), result.exit_code) == (SUBMISSIONS, 1)
    # YARN counts attempts, which its scheduler adds one event later: it may take some more before it refuses.
    assert ROOM <= len(accepted) < SUBMISSIONS
    for each in refused:
        assert re.search(r"Queue root\.default already has 7\d\d applications, cannot accept", each["reason"])
    answer = requests.get(f"{small_cluster.rm_rest}/ws/v1/cluster/apps", timeout=60).json()["apps"]["app"]
    assert {each["id"] for each in answer if each["state"] in ("ACCEPTED", "RUNNING")} == accepted
    assert len(answer) == SUBMISSIONS
    assert {path.name for path in (tmp_path / "staging").glob("*/applications/*")} == accepted
    assert {each.application_id for each in ClientRecords().all()} == accepted
