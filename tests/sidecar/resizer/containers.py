"""Containers as DefaultContainerExecutor starts them: a session leader and what it forks; and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.resizer.base import Leader, ResizeRefusedError
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.processes import groups_of, leader_of, scan

BURNER = "(while :; do :; done) & wait"
THREE = "(while :; do :; done) & sleep 1000 & wait"
NAME = "container_1700000000000_0001_01_000002"
PARENT = f"quicksilver-test-{os.getpid()}"


def needs_cgroup1() -> None:
    """Skip the test where cgroup v1 cannot be written."""
    try:
        Cgroup1(f"{PARENT}-may").attempt()
    except ResizeRefusedError as error:
        pytest.skip(f"no cgroup v1 to write here: {error}")


@contextmanager
def container(script: str = BURNER) -> Iterator[Leader]:
    """Run a script as a session of its own, and end the session afterwards."""
    process = subprocess.Popen(["bash", "-c", script], start_new_session=True)
    try:
        leader = leader_of(process.pid)
        assert leader is not None
        yield leader
    finally:
        end_session(process.pid)
        process.wait(60)


def session(pid: int) -> set[int]:
    """Return the living processes of a session."""
    return {p.pid for p in scan().values() if p.session == pid and not p.over}


def end_session(pid: int) -> None:
    """Kill a session, until nothing of it is left."""
    until = time.monotonic() + 60
    while members := session(pid):
        assert time.monotonic() < until, f"session {pid} does not end: {members}"
        for member in members:
            try:
                thaw(member)
                os.kill(member, signal.SIGKILL)
            except (ProcessLookupError, FileNotFoundError):
                continue
        time.sleep(0.005)


def thaw(pid: int) -> None:
    """Let a process of a frozen group die."""
    group = (groups_of(pid) or {}).get("freezer", "/")
    if group != "/":
        (Path("/sys/fs/cgroup/freezer") / group[1:] / "freezer.state").write_text("THAWED")


def wait_until(true: Callable[[], bool], what: str, wait_s: float = 60.0) -> None:
    """Wait for something that must come."""
    until = time.monotonic() + wait_s
    while not true():
        assert time.monotonic() < until, f"not within {wait_s:g} s: {what}"
        time.sleep(0.01)


def groups_left(parent: str = PARENT) -> list[Path]:
    """Return the groups of ours on this machine."""
    first = parent.split("/")[0]
    walked = os.walk("/sys/fs/cgroup")  # groups that go meanwhile are passed over
    return [Path(folder, name) for folder, names, _ in walked for name in names if name.startswith(first)]


def cores_used(resizer: Cgroup1, container_id: str, wall_s: float) -> float:
    """Return how many cores a container uses over a time."""
    before = resizer.usage(container_id).cpu_s
    began = time.monotonic()
    time.sleep(wall_s)
    after = resizer.usage(container_id).cpu_s
    assert before is not None
    assert after is not None
    return (after - before) / (time.monotonic() - began)
