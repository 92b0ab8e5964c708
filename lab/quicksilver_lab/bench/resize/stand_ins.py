"""Processes that stand for containers: each leads its session, as a launch script of the NodeManager does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver.common.errors import QuicksilverError
from sidecar.resizer.base import Leader
from sidecar.resizer.processes import groups_of, leader_of

APP: Final = "application_1700000000000_0001"


class StandInError(QuicksilverError):
    """Something could not be measured."""


@dataclass(frozen=True, slots=True)
class ResizeStandIn:
    """One container."""

    id: str
    leader: Leader

    def write_pid_file(self, local_dir: Path) -> None:
        """Write its pid file where the NodeManager would."""
        folder = local_dir / "nmPrivate" / APP / self.id
        folder.mkdir(parents=True)
        (folder / f"{self.id}.pid").write_text(f"{self.leader.pid}\n")

    def groups(self) -> dict[str, str]:
        """Return its control groups by controller. Raises BenchError when it has ended."""
        groups = groups_of(self.leader.pid)
        if groups is None:
            raise StandInError("it has ended before it was measured", place=self.id)
        return groups


def name(number: int) -> str:
    """Return a container id."""
    return f"container_1700000000000_0001_01_{number:06d}"


@contextmanager
def sleeping(count: int, first: int = 2) -> Iterator[list[ResizeStandIn]]:
    """Run containers that wait for ever, for the time of a with block; they end with this process, too."""
    reads, writes = os.pipe()
    try:
        with running([["cat"]] * count, reads, first) as containers:
            yield containers
    finally:
        os.close(reads)
        os.close(writes)


@contextmanager
def running(
    commands: Sequence[Sequence[str]], stdin: int = subprocess.DEVNULL, first: int = 2
) -> Iterator[list[ResizeStandIn]]:
    """Run commands, each as a container, for the time of a with block."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            null = subprocess.DEVNULL
            started.append(subprocess.Popen(command, stdin=stdin, stdout=null, stderr=null, start_new_session=True))
        yield [ResizeStandIn(name(first + at), _leader(process)) for at, process in enumerate(started)]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _leader(process: subprocess.Popen[bytes]) -> Leader:
    leader = leader_of(process.pid)
    if leader is None:
        raise StandInError(f"it ended at once, with {process.wait()}", place=str(process.args))
    return leader
