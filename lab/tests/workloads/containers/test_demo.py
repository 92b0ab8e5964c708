"""`make docker-demo` as a user runs it: all images, the whole stack, real jobs, and nothing left afterwards."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quicksilver_lab.workloads.containers.compose import busy
from quicksilver_lab.workloads.servers.dockerd import missing
from tests.paths import ROOT

pytestmark = [
    pytest.mark.docker,
    pytest.mark.hadoop,
    pytest.mark.long,
    pytest.mark.alone,
    pytest.mark.timeout(980),
    pytest.mark.skipif(missing() != "", reason=missing()),
]
NET, PORTS = "127.0.79", "222"
DEMO_S, DOWN_S = 840, 120


def left() -> set[str]:
    mounts = {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()}
    folders = {str(path) for path in Path("/tmp").glob("quicksilver-docker-*")}
    groups = {str(path) for path in Path("/sys/fs/cgroup").glob("*/quicksilver*")}
    return {*(mount for mount in mounts if "quicksilver-docker" in mount), *folders, *groups}


def test_the_demo_runs_jobs_and_leaves_nothing() -> None:
    before = left()
    argv = [
        sys.executable,
        "-m",
        "quicksilver_lab.workloads.containers",
        "demo",
        "--private",
        "--net",
        NET,
        "--ports",
        PORTS,
    ]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        try:
            output, _ = demo.communicate(timeout=DEMO_S)
        except subprocess.TimeoutExpired:
            demo.send_signal(signal.SIGINT)  # it takes all down
            output, _ = demo.communicate(timeout=DOWN_S)
    assert demo.returncode == 0, output
    sizes = {name: int(mb) for name, mb in re.findall(r"quicksilver/(\w+):latest +(\d+) MB", output)}
    assert sizes["proxy"] < 400 and sizes["sidecar"] < 400
    queueable = re.search(r"(\d+) queueable", output)
    assert queueable is not None and int(queueable[1]) >= 6, output
    assert "Prometheus scrapes 8 daemons" in output
    assert "proxy 10001, sidecar1 10002, node1 10002" in output
    assert left() == before and busy(NET, PORTS) == []
