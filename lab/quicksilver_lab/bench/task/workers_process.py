"""A proxy of several processes (`proxy.workers`), with the CPU time of each; without the clock of its parts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil
import requests

from policies.config.policy_set import Policies
from quicksilver.common.process.logs import configure_logs
from quicksilver_lab.bench.load.child_process import ChildError
from quicksilver_lab.bench.procstat import cpu_s
from quicksilver_lab.bench.task.proxy_process import CpuReading, ProxyPlot, hadoop_conf, proxy_settings
from rm_proxy.service.process import run
from rm_proxy.service.workers.supervisor import NAME_PREFIX

_PATIENCE_S: Final = 120.0
_AGAIN_S: Final = 0.2
_END_S: Final = 30.0
_SUPERVISOR: Final = "supervisor"


def worker_name(number: int) -> str:
    """Return the name of a worker in a reading."""
    return f"worker-{number}"


class WorkersProcess:
    """The supervisor and its children; use it in a with block."""

    def __init__(self, plot: ProxyPlot, log: Path | None = None) -> None:
        """Start. log: gets what they log; None for nothing."""
        self._plot = plot
        text = json.dumps(asdict(plot) | {"folder": str(plot.folder), "policies": dict(plot.policies)})
        with (log or Path("/dev/null")).open("w") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "quicksilver_lab.bench.task.workers_process", text], stderr=stderr
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def start(self) -> None:
        """Wait until each worker serves. Raises ChildError."""
        end_s = time.monotonic() + _PATIENCE_S
        for worker in range(self._plot.workers):
            while not self._serves(worker):
                if self._process.poll() is not None or time.monotonic() > end_s:
                    raise ChildError("it does not serve", place=worker_name(worker))
                time.sleep(_AGAIN_S)

    def _serves(self, worker: int) -> bool:
        try:
            return bool(self.health(worker))
        except requests.RequestException:
            return False

    def health(self, worker: int) -> Mapping[str, Any]:
        """Return what a worker says of itself. Raises requests.RequestException."""
        answer = requests.get(f"http://127.0.0.1:{self._plot.rest}/v1/health?worker={worker}", timeout=_PATIENCE_S)
        answer.raise_for_status()
        health: dict[str, Any] = answer.json()
        return health

    def pids(self) -> dict[str, int]:
        """Return the processes by name: supervisor, front, worker-0 ..."""
        children = psutil.Process(self._process.pid).children()
        return {_SUPERVISOR: self._process.pid} | {
            child.name().removeprefix(NAME_PREFIX): child.pid for child in children
        }

    def reading(self) -> CpuReading:
        """Return what each process spent up to now, under `threads_s`."""
        spent = {name: cpu_s(pid) for name, pid in self.pids().items()}
        return CpuReading(sum(spent.values()), {}, spent)


def main() -> None:
    """Be the proxy of a plot."""
    fields = json.loads(sys.argv[1])
    plot = ProxyPlot(**fields | {"folder": Path(fields["folder"])})
    configure_logs(level="info")
    run(proxy_settings(plot), Policies.load(dict(plot.policies)), hadoop_conf(plot.folder))


if __name__ == "__main__":
    main()
