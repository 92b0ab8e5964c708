"""Pauses by SIGSTOP and SIGCONT, where there are no cgroups: all or nothing.

Signals cannot bound cores: a shrunk container stops, and its heartbeats with it. (Switching it on and off
many times a second would keep them alive, but each switch reads all of /proc.) SIGKILL ends a stopped process.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.resizer.attached import AttachedTable, detach_all
from sidecar.resizer.base import ContainerUsage, Leader, Resizer, ResizeRefusedError
from sidecar.resizer.processes import PROC, TICKS, ContainerProcess, anonymous_mb, family, look, scan

_WITHIN_S: Final = 1.0
_POLL_S: Final = 0.002
_ROOT: Final = "run the sidecar as root, or as the user whom the containers run as"
Undo = dict[str, str | float | int | list[int]]


@dataclass(slots=True)
class _Held:
    leader: Leader
    before_s: float
    used_s: float = 0.0
    still: bool = False
    stopped: set[tuple[int, int]] = field(default_factory=set)
    """Pid and start time of processes that another program had stopped; they are never sent SIGCONT."""


class Signals(Resizer):
    """Sends SIGSTOP and SIGCONT to all processes of a container."""

    name = "signals"
    slow = True
    pauses_only = True

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._containers = AttachedTable[_Held](self.name)

    def attach(self, container_id: str, leader: Leader) -> None:  # noqa: D102
        container = self._containers.get(container_id)
        if container is not None and container.leader == leader:
            return
        members = self._living(leader)
        if not members:
            raise ResizeRefusedError(container_id, f"pid {leader.pid}", "its processes are gone", gone=True)
        if os.getpid() in members:
            why = "the sidecar itself is among the container's processes"
            raise ResizeRefusedError(container_id, f"pid {leader.pid}", why)
        for process in members.values():
            _send(container_id, process, 0, self._proc)
        others = {(p.pid, p.began) for p in members.values() if p.stopped}
        self._containers[container_id] = _Held(leader, _cpu_s(members), stopped=others)

    def shrink(self, container_id: str, cores: float) -> None:
        """Stop all processes: signals cannot bound `cores`."""
        self.freeze(container_id)

    def freeze(self, container_id: str) -> None:  # noqa: D102
        container = self._containers[container_id]
        container.still = True
        until = time.monotonic() + _WITHIN_S
        try:
            while moving := self._moving(container):
                if time.monotonic() > until:
                    why = f"{len(moving)} processes still run after {_WITHIN_S:g} s"
                    raise ResizeRefusedError(container_id, "SIGSTOP", why)
                for process in moving:
                    _send(container_id, process, signal.SIGSTOP, self._proc)
                time.sleep(_POLL_S)
        except ResizeRefusedError:
            self.restore(container_id)
            raise

    def restore(self, container_id: str) -> None:  # noqa: D102
        container = self._containers[container_id]
        if container.still:
            go_on(container_id, container.leader, container.stopped, self._proc)
            container.still = False

    def holds(self, container_id: str) -> bool:  # noqa: D102
        container = self._containers.get(container_id)
        if container is None:
            return False
        if not container.still:
            return True
        return not self._moving(container)

    def reassert(self, container_id: str) -> None:  # noqa: D102
        if self._containers[container_id].still:
            self.freeze(container_id)

    def usage(self, container_id: str) -> ContainerUsage:  # noqa: D102
        container = self._containers.get(container_id)
        members = self._living(container.leader) if container else {}
        if container is None or not members:
            return ContainerUsage(None, None)
        container.used_s = max(container.used_s, _cpu_s(members) - container.before_s)
        return ContainerUsage(container.used_s, round(sum(anonymous_mb(pid, self._proc) for pid in members)))

    def detach(self, container_id: str) -> None:  # noqa: D102
        if container_id in self._containers:
            self.restore(container_id)
            del self._containers[container_id]

    def undo(self, container_id: str) -> Undo:  # noqa: D102
        container = self._containers[container_id]
        numbers = [number for pair in sorted(container.stopped) for number in pair]
        record: Undo = {"resizer": self.name, "container": container_id, "pid": container.leader.pid}
        return record | {"began_s": container.leader.began_s, "stopped": numbers}

    def parents(self) -> list[str]:
        """Return no parent groups: there are none."""
        return []

    def close(self) -> None:
        """Resume everything. Raises the last ResizeRefusedError."""
        detach_all(self, self._containers)

    def _living(self, leader: Leader) -> dict[int, ContainerProcess]:
        members = family(leader, scan(self._proc), self._proc)
        return members if any(not p.over for p in members.values()) else {}

    def _moving(self, container: _Held) -> list[ContainerProcess]:
        return [p for p in self._living(container.leader).values() if not p.stopped and not p.over]


def undo_signals(record: Mapping[str, object], proc: Path = PROC) -> None:
    """Resume a container. Raises ResizeRefusedError."""
    leader = Leader(int(str(record["pid"])), float(str(record["began_s"])))
    numbers = record["stopped"]
    if not isinstance(numbers, list):
        raise TypeError(f"stopped: {numbers!r} is no list")
    go_on(str(record["container"]), leader, set(zip(numbers[::2], numbers[1::2], strict=True)), proc)


def go_on(container_id: str, leader: Leader, but: set[tuple[int, int]], proc: Path = PROC) -> None:
    """Send SIGCONT until all processes run, `but` those that others stopped. Raises ResizeRefusedError."""
    until = time.monotonic() + _WITHIN_S
    while True:
        members = family(leader, scan(proc), proc).values()
        still = [p for p in members if p.state == "T" and (p.pid, p.began) not in but]
        if not still:
            return
        if time.monotonic() > until:
            raise ResizeRefusedError(container_id, "SIGCONT", f"{len(still)} processes stand still", remedy=_ROOT)
        for process in still:
            _send(container_id, process, signal.SIGCONT, proc)
        time.sleep(_POLL_S)


def _send(container_id: str, process: ContainerProcess, number: int, proc: Path) -> None:
    """Send a signal to this process, never to another one that reuses its pid. Raises ResizeRefusedError."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        now = look(process.pid, proc)
        if now is not None and now.began == process.began:
            signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return
    except OSError as error:
        why = error.strerror or str(error)
        raise ResizeRefusedError(container_id, f"signal to {process.pid}", why, remedy=_ROOT) from error
    finally:
        os.close(pidfd)


def _cpu_s(members: Mapping[int, ContainerProcess]) -> float:
    return sum(p.ticks for p in members.values()) / TICKS
