"""The benchmark itself, small, with real control groups, a real sidecar and a real Docker daemon."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quicksilver_lab.bench.resize import rate
from quicksilver_lab.bench.resize.calls import cgroup_resizer
from quicksilver_lab.bench.resize.stand_ins import StandInError
from quicksilver_lab.workloads.servers.dockerd import missing

pytestmark = [pytest.mark.alone, pytest.mark.long]
_V1 = Path("/sys/fs/cgroup/cpu")


def _groups() -> list[str]:
    return sorted(path.name for path in _V1.glob("quicksilver-bench-*")) + sorted(
        path.name for path in (_V1 / "quicksilver").glob("127.0.0.1-*")
    )


def _run(folder: Path, parts: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the line that the benchmark printed, and the samples that it kept."""
    command = [
        sys.executable,
        "-m",
        "quicksilver_lab.bench.resize",
        "--quick",
        "--parts",
        parts,
        "--results",
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    [kept] = folder.glob("resize-*.json")
    assert result["broken"] == {} and result["skipped"] == {}
    return result, json.loads(kept.read_text())["raw"]


@pytest.fixture(autouse=True)
def _clean() -> Any:
    before = _groups()
    yield
    assert _groups() == before


@pytest.fixture
def cgroups() -> None:
    try:
        with cgroup_resizer():
            return
    except StandInError as error:
        pytest.skip(str(error))


@pytest.mark.cgroup
@pytest.mark.usefixtures("cgroups")
def test_calls_rate_and_waking_are_measured(tmp_path: Path) -> None:
    result, raw = _run(tmp_path, "cgroup,signals,rate,waking")
    assert 0 < result["write_us_cgroup"] < result["resize_us_cgroup"] < 100_000, "a resize is more than one write"
    assert result["calls_cgroup"]["attach_ms"]["samples"] == 5 and len(raw["cgroup"]["write_restore_us"]) == 50
    assert result["resize_us_signals"] > 0
    assert result["resizes_per_s"] > 10 and result["resizes_per_s_halves"] > 10
    assert result["cpu_us_per_resize"] > result["resize_us_cgroup"] / 2
    assert result["restore_to_run_ms"] > 0 and len(raw["waking"]["from_0.01_ms"]) == 3
    assert result["waking"]["from_0.05_cores_after"]["median"] > 0.1, "it is no longer bound"


@pytest.mark.cgroup
@pytest.mark.usefixtures("cgroups")
def test_every_turn_resizes() -> None:
    stretches = rate.measure(6, 3, 1.0)
    assert stretches and all(one.resizes == 3 * one.events for one in stretches), "3 give way to 3, in 2 events"


@pytest.mark.cgroup
@pytest.mark.usefixtures("cgroups")
def test_a_sidecar_with_20_containers_is_measured_and_gives_them_back(tmp_path: Path) -> None:
    result, raw = _run(tmp_path, "crowd")
    assert (result["containers"], result["shrunk"]) == (20, 10)
    assert 10 < result["guardian_rss_mb"] < result["sidecar_rss_mb"] < 500
    assert result["sidecar_pss_mb"] <= result["sidecar_rss_mb"] and 0 <= result["sidecar_cpu_ratio"] < 1
    assert len(raw["crowd"]["cpu_s"]["sidecar"]) == len(raw["crowd"]["cpu_s"]["guardian"]) >= 3


@pytest.mark.docker
def test_docker_is_measured(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    result, raw = _run(tmp_path, "docker")
    assert result["resize_ms_docker"] > 0 and len(raw["docker"]["shrink_ms"]) == 5
