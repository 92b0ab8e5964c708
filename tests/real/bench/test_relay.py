"""The benchmark itself, small, against a real ResourceManager and a real proxy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from quicksilver_lab.cluster.ports import free_base_port

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.alone]


def test_the_last_line_has_every_figure(tmp_path: Path) -> None:
    base_port = free_base_port(nodes=1)
    options = ["--masters", "2,6", "--rounds", "1", "--seconds", "0.5", "--base-port", str(base_port)]
    command = [sys.executable, "-m", "quicksilver_lab.bench.relay", *options]
    command += ["--dir", str(tmp_path / "cluster"), "--results", str(tmp_path / "results")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    result = json.loads(run.stdout.splitlines()[-1])
    assert 0.05 < result["throughput_ratio"] < 2
    assert -5 < result["added_p50_ms"] < 100 and -500 < result["added_p99_ms"] < 5000
    assert 5 < result["cpu_us_per_allocate"] < 10_000
    assert set(result["by_masters"]) == {"2", "6"}
    for figures in result["by_masters"].values():
        assert figures["direct"]["rate_per_s"]["median"] > 10
        assert figures["proxied"]["cpu_us"]["rm"]["median"] > 0
    [kept] = (tmp_path / "results").glob("relay-*.json")
    raw = json.loads(kept.read_text())["raw"]["6"]
    assert len(raw["heartbeat"][0]["latency_us"][1]) > 3
