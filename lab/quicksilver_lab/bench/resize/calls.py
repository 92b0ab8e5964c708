"""How long single calls of the resizers take, beside a bare write of the same control file.

Runs by itself in a machine whose kernel has another kind of groups:
`python -m quicksilver_lab.bench.resize.calls ROUNDS ATTACHES` writes the raw samples as one JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from quicksilver_lab.bench.resize.stand_ins import ResizeStandIn, StandInError, name, sleeping
from quicksilver_lab.bench.stats import percentile
from quicksilver_lab.workloads.servers.dockerd import BUSYBOX_IMAGE, Dockerd, running_dockerd
from sidecar.resizer.base import Leader, Resizer, ResizeRefusedError
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.cgroup.v1_groups import PERIOD_US
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from sidecar.resizer.cgroup.v2 import Cgroup2
from sidecar.resizer.cgroup.v2_mount import unified
from sidecar.resizer.docker.resizer import DockerResizer
from sidecar.resizer.signals import Signals

Samples = dict[str, list[float]]
MIN_CORES: Final = 0.05
"""As `preempt: las` has it by default."""
_PARENT: Final = f"quicksilver-bench-{os.getpid()}/node1"
_KINDS: Final[tuple[type[Cgroup1] | type[Cgroup2], ...]] = (Cgroup2, Cgroup1)
_IDLE: Final = "while :; do sleep 1000; done"


def figure(samples: list[float], digits: int = 1) -> dict[str, float]:
    """Return median and p99, and of how many samples. Raises ValueError without samples."""
    return {
        "median": round(percentile(samples, 50), digits),
        "p99": round(percentile(samples, 99), digits),
        "samples": len(samples),
    }


def figures(samples: Mapping[str, list[float]], digits: int = 1) -> dict[str, dict[str, float]]:
    """Return the figure of each kind of call."""
    return {kind: figure(values, digits) for kind, values in samples.items()}


def both(samples: Mapping[str, list[float]], before: str = "", unit: str = "us") -> list[float]:
    """Return the samples of shrinking and restoring together."""
    return [*samples[f"{before}shrink_{unit}"], *samples[f"{before}restore_{unit}"]]


@contextmanager
def cgroup_resizer() -> Iterator[Resizer]:
    """Yield the resizer by cgroups that works here, as the sidecar would choose; nothing is left. Raises BenchError."""
    refused = []
    for kind in _KINDS:
        try:
            resizer = kind(_PARENT)
            resizer.attempt()
        except ResizeRefusedError as error:
            refused.append(f"{kind.name}: {error}")
            continue
        try:
            yield resizer
        finally:
            resizer.close()
        return
    raise StandInError("no cgroups can be written here", place="; ".join(refused))


def measure_cgroup(rounds: int, attaches: int) -> tuple[str, Samples]:
    """Return which cgroups these are, and samples: of the resizer, and of bare writes to another group's quota."""
    with sleeping(2) as (first, second), cgroup_resizer() as resizer:
        samples = attach_and_detach(resizer, first, attaches)
        for stand_in in (first, second):
            resizer.attach(stand_in.id, stand_in.leader)
        samples |= resize(resizer, first, second, rounds)
        return resizer.name, samples


def attach_and_detach(resizer: Resizer, stand_in: ResizeStandIn, times: int) -> Samples:
    """Return milliseconds of taking into hand and letting go; the container stays out of hand."""
    samples: Samples = {"attach_ms": [], "detach_ms": []}
    for _ in range(times):
        samples["attach_ms"].append(_us(lambda: resizer.attach(stand_in.id, stand_in.leader)) / 1e3)
        samples["detach_ms"].append(_us(lambda: resizer.detach(stand_in.id)) / 1e3)
    return samples


def resize(resizer: Resizer, first: ResizeStandIn, second: ResizeStandIn, rounds: int) -> Samples:
    """Return microseconds of shrinking and restoring the first, in between of writing only the quota of the second."""
    path, small, full = quota_file(resizer.name, second)
    calls: tuple[tuple[str, Callable[[], object]], ...] = (
        ("shrink_us", lambda: resizer.shrink(first.id, MIN_CORES)),
        ("write_shrink_us", lambda: _write(path, small)),
        ("restore_us", lambda: resizer.restore(first.id)),
        ("write_restore_us", lambda: _write(path, full)),
    )
    samples: Samples = {kind: [] for kind, _ in calls}
    for number in range(rounds):
        order = (0, 1, 2, 3) if number % 2 == 0 else (1, 0, 3, 2)
        for at in order:
            kind, call = calls[at]
            samples[kind].append(_us(call))
    return samples


def quota_file(kind: str, stand_in: ResizeStandIn) -> tuple[Path, bytes, bytes]:
    """Return the file of an attached container's quota, with what bounds it and what frees it."""
    quota_us = round(MIN_CORES * PERIOD_US)
    if kind == Cgroup2.name:
        group = unified().folder(stand_in.groups()[""])
        name_, small, full = "cpu.max", f"{quota_us} {PERIOD_US}", f"max {PERIOD_US}"
    else:
        group = hierarchies()["cpu"].folder(stand_in.groups()["cpu"])
        name_, small, full = "cpu.cfs_quota_us", str(quota_us), "-1"
    if group is None:
        raise StandInError("its group is not below what is mounted here", place=stand_in.id)
    return group / name_, small.encode(), full.encode()


def measure_signals(rounds: int) -> Samples:
    """Return microseconds of stopping a process and letting it go on."""
    with sleeping(1) as (stand_in,):
        resizer = Signals()
        resizer.attach(stand_in.id, stand_in.leader)
        try:
            return _shrink_and_restore(resizer, stand_in, rounds, "us")
        finally:
            resizer.close()


def measure_docker(rounds: int, attaches: int) -> Samples:
    """Return milliseconds of the same by a Docker daemon of the benchmark's own. Raises WorkloadError."""
    with tempfile.TemporaryDirectory(prefix="qs-") as folder, running_dockerd(Path(folder) / "docker") as daemon:
        daemon.import_image()
        with _in_docker(daemon) as stand_in:
            resizer = DockerResizer(daemon.url, Path(folder) / "records")
            try:
                samples = attach_and_detach(resizer, stand_in, attaches)
                resizer.attach(stand_in.id, stand_in.leader)
                return samples | _shrink_and_restore(resizer, stand_in, rounds, "ms")
            finally:
                resizer.close()


@contextmanager
def _in_docker(daemon: Dockerd) -> Iterator[ResizeStandIn]:
    container = name(2)
    daemon.docker("run", "-d", "--network=none", f"--name={container}", BUSYBOX_IMAGE, "sh", "-c", _IDLE)
    try:
        pid = int(daemon.docker("inspect", "--format", "{{.State.Pid}}", container))
        yield ResizeStandIn(container, Leader(pid, psutil.Process(pid).create_time()))
    finally:
        daemon.docker("rm", "--force", container)


def _shrink_and_restore(resizer: Resizer, stand_in: ResizeStandIn, rounds: int, unit: str) -> Samples:
    samples: Samples = {f"shrink_{unit}": [], f"restore_{unit}": []}
    scale = 1.0 if unit == "us" else 1e3
    for _ in range(rounds):
        samples[f"shrink_{unit}"].append(_us(lambda: resizer.shrink(stand_in.id, MIN_CORES)) / scale)
        samples[f"restore_{unit}"].append(_us(lambda: resizer.restore(stand_in.id)) / scale)
    return samples


def _us(call: Callable[[], object]) -> float:
    begun_ns = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - begun_ns) / 1e3


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(descriptor, content)
    os.close(descriptor)


def main() -> None:
    """Measure, and write one line."""
    kind, samples = measure_cgroup(int(sys.argv[1]), int(sys.argv[2]))
    shown: dict[str, Any] = {call: [round(value, 2) for value in values] for call, values in samples.items()}
    print(json.dumps({"cgroup": kind, "samples": shown}))


if __name__ == "__main__":
    main()
