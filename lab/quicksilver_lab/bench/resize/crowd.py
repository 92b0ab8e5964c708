"""A sidecar, as users run it, with many real containers in hand: its memory, and its CPU while nothing happens.

The containers are opportunistic ones that ran before the sidecar came: it finds them in the NodeManager's list and
takes them into hand by their pid files, as it does when it is started again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import requests
from ruamel.yaml import YAML

from quicksilver_lab.bench.procstat import cpu_s
from quicksilver_lab.bench.resize.stand_ins import ResizeStandIn, StandInError, sleeping
from quicksilver_lab.bench.resize.surroundings import MEMORY_MB, NODE_ID, serving
from quicksilver_lab.cluster.ports import free_port

_READY_S: Final = 90.0
_SETTLE_S: Final = 5.0
_STOP_S: Final = 30.0
_STEP_S: Final = 1.0
_GUARDIAN: Final = "sidecar.service.guardian"


@dataclass(frozen=True, slots=True)
class CrowdRun:
    """A sidecar with all containers in hand."""

    pids: Mapping[str, int]
    """Of `sidecar` and `guardian`."""
    rest: str
    attach_s: float
    """From its start until all were in hand."""

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        text = requests.get(f"{self.rest}/metrics", timeout=10).text
        matches = re.findall(rf"^quicksilver_sidecar_{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, matches))


@dataclass(slots=True)
class Crowd:
    """What was measured. `cpu_s`: per process, the CPU seconds of each step of a second."""

    containers: int
    shrunk: int
    attach_s: float
    seconds: float = 0.0
    resizes: int = 0
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    memory_mb: dict[str, dict[str, float]] = field(default_factory=dict)

    def result(self) -> dict[str, Any]:
        """Return the figures."""
        figures: dict[str, Any] = {}
        for process, steps in self.cpu_s.items():
            memory = self.memory_mb[process]
            figures |= {f"{process}_rss_mb": memory["rss"], f"{process}_pss_mb": memory["pss"]}
            figures[f"{process}_cpu_ratio"] = round(sum(steps) / self.seconds, 4)
        about = {"containers": self.containers, "shrunk": self.shrunk, "attach_all_s": round(self.attach_s, 2)}
        return figures | about | {"seconds": round(self.seconds, 1), "resizes_meanwhile": self.resizes}


def measure(containers: int, vcores: int, seconds: float) -> Crowd:
    """Measure a sidecar that lets `vcores` of the containers run. Raises BenchError; nothing is left behind."""
    with sleeping(containers) as stand_ins:
        before = {stand_in.id: stand_in.groups() for stand_in in stand_ins}
        with (
            tempfile.TemporaryDirectory(prefix="qs-") as folder,
            serving(stand_ins) as port,
            _sidecar(Path(folder), stand_ins, port, vcores) as running,
        ):
            crowd = _watch(running, containers, seconds)
        moved = [stand_in.id for stand_in in stand_ins if stand_in.groups() != before[stand_in.id]]
        if moved:
            raise StandInError(f"{len(moved)} containers are not back in their groups", place=moved[0])
    return crowd


def _watch(running: CrowdRun, containers: int, seconds: float) -> Crowd:
    time.sleep(_SETTLE_S)
    crowd = Crowd(containers, int(running.metric("shrunk")), running.attach_s)
    resizes = running.metric("resizes_total")
    begun_s = time.monotonic()
    last = {name: cpu_s(pid) for name, pid in running.pids.items()}
    crowd.cpu_s = {name: [] for name in running.pids}
    while crowd.seconds < seconds:
        time.sleep(_STEP_S)
        for name, pid in running.pids.items():
            now = cpu_s(pid)
            crowd.cpu_s[name].append(round(now - last[name], 2))
            last[name] = now
        crowd.seconds = time.monotonic() - begun_s
    crowd.memory_mb = {name: _memory_mb(pid) for name, pid in running.pids.items()}
    crowd.resizes = int(running.metric("resizes_total") - resizes)
    return crowd


def _memory_mb(pid: int) -> dict[str, float]:
    full = psutil.Process(pid).memory_full_info()
    return {"rss": round(full.rss / 2**20, 1), "pss": round(full.pss / 2**20, 1)}


@contextmanager
def _sidecar(folder: Path, stand_ins: Sequence[ResizeStandIn], port: int, vcores: int) -> Iterator[CrowdRun]:
    rest = f"127.0.0.1:{free_port()}"
    config = _write_settings(folder, rest, port, vcores, len(stand_ins))
    for stand_in in stand_ins:
        stand_in.write_pid_file(folder / "local")
    log, begun_s = folder / "sidecar.log", time.monotonic()
    command = [sys.executable, "-m", "quicksilver", "sidecar", "run", "--config", str(config)]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("QUICKSILVER_", "HADOOP_"))}
    with log.open("ab") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, env=env)
    try:
        yield _await_all(process, f"http://{rest}", len(stand_ins), begun_s, log)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise StandInError(f"the sidecar did not end within {_STOP_S:g} s", place=str(process.args)) from None


def _await_all(process: subprocess.Popen[bytes], rest: str, count: int, begun_s: float, log: Path) -> CrowdRun:
    running = CrowdRun({"sidecar": process.pid}, rest, 0.0)
    while (spent_s := time.monotonic() - begun_s) < _READY_S and process.poll() is None:
        try:
            if running.metric("attached_total") >= count:
                return CrowdRun({"sidecar": process.pid, "guardian": _guardian(process.pid)}, rest, spent_s)
        except requests.ConnectionError:  # it does not listen yet
            pass
        time.sleep(0.1)
    tail = " / ".join(log.read_text(errors="replace").splitlines()[-3:])
    raise StandInError(f"the sidecar had not all containers in hand within {_READY_S:g} s: {tail}", place=rest)


def _guardian(pid: int) -> int:
    for child in psutil.Process(pid).children():
        if _GUARDIAN in child.cmdline():
            return child.pid
    raise StandInError("the sidecar has no guardian", place=str(pid))


def _write_settings(folder: Path, rest: str, port: int, vcores: int, containers: int) -> Path:
    """Write what an admin would: quicksilver.yaml, and a yarn-site.xml that names the local directories."""
    conf = folder / "conf"
    conf.mkdir()
    local = f"<property><name>yarn.nodemanager.local-dirs</name><value>{folder / 'local'}</value></property>"
    (conf / "yarn-site.xml").write_text(f"<configuration>{local}</configuration>")
    sidecar = {
        "listen": f"127.0.0.1:{free_port()}",
        "upstream": f"127.0.0.1:{free_port()}",
        "web_listen": f"127.0.0.1:{free_port()}",
        "web_upstream": f"127.0.0.1:{port}",
        "proxy_url": f"http://127.0.0.1:{port}",
        "rest_listen": rest,
        "node_id": NODE_ID,
        "memory_mb": MEMORY_MB * containers,
        "vcores": vcores,
        "reserve_mb": 0,
    }
    policies = {"queues": "*", "routes": [{"policy": "only_q"}], "preempt": {"policy": "las"}}
    path = folder / "quicksilver.yaml"
    with path.open("w") as file:
        YAML().dump({"policies": policies, "sidecar": sidecar, "hadoop_conf_dir": str(conf)}, file)
    return path
