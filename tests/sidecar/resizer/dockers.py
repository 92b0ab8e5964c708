"""What tests with Docker containers share."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import psutil
import pytest

from quicksilver_lab.workloads.servers.dockerd import BUSYBOX_IMAGE, Dockerd
from sidecar.resizer.base import Leader, ResizeRefusedError
from sidecar.resizer.cgroup.files import keyed
from sidecar.resizer.docker.group import ContainerGroup, group_of

BURN = "while :; do :; done"
_numbers = itertools.count(1)


class Run(Protocol):
    """Begins a container with a shell script and options of `docker run`."""

    def __call__(self, script: str, *options: str) -> tuple[str, Leader]: ...


def new_name() -> str:
    return f"container_1700000000000_0001_01_{next(_numbers):06d}"


def begin(daemon: Dockerd, script: str, *options: str, name: str = "") -> tuple[str, Leader]:
    name = name or new_name()
    daemon.docker("run", "-d", "--network=none", f"--name={name}", *options, BUSYBOX_IMAGE, "sh", "-c", script)
    return name, leader_of(daemon, name)


def leader_of(daemon: Dockerd, name: str) -> Leader:
    pid = int(daemon.docker("inspect", "--format", "{{.State.Pid}}", name))
    return Leader(pid, psutil.Process(pid).create_time())


@contextmanager
def beginning(daemon: Dockerd) -> Iterator[Run]:
    """Remove afterwards what was begun."""
    names: list[str] = []

    def run(script: str, *options: str) -> tuple[str, Leader]:
        names.append(new_name())
        return begin(daemon, script, *options, name=names[-1])

    yield run
    daemon.docker("rm", "--force", *names)


def group(leader: Leader) -> ContainerGroup:
    cgroup = group_of(leader.pid)
    assert cgroup is not None
    return cgroup


def cores(leader: Leader, for_s: float = 1.5) -> float:
    """Return how many cores a container's processes use, as the kernel counts them one by one."""
    first = psutil.Process(leader.pid)

    def used_s() -> float:
        times = [process.cpu_times() for process in (first, *first.children(recursive=True))]
        return sum(t.user + t.system for t in times)

    began_s, before_s = time.monotonic(), used_s()
    time.sleep(for_s)
    return (used_s() - before_s) / (time.monotonic() - began_s)


def in_force(leader: Leader) -> dict[str, str]:
    """Return what the kernel was told of a container's CPU."""
    folder = group(leader).cpu
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares", "cpu.max", "cpu.weight")
    return {name: (folder / name).read_text() for name in names if (folder / name).exists()}


def throttled(leader: Leader) -> int:
    """Return how often the quota has stopped a container."""
    return keyed((group(leader).cpu / "cpu.stat").read_text())["nr_throttled"]


def refusal(call: Callable[..., object], *arguments: object) -> ResizeRefusedError:
    with pytest.raises(ResizeRefusedError) as caught:
        call(*arguments)
    return caught.value


def eventually(what: Callable[[], bool], within_s: float = 20.0) -> bool:
    end_s = time.monotonic() + within_s
    while not what():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True
