"""A container's processes: everything below its session leader, and everything in its session, read from /proc.

It reads the files itself, because the guardian must stay small. Times are clock ticks since boot, as in
/proc/PID/stat.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from sidecar.resizer.base import Leader

PROC: Final = Path("/proc")
TICKS: Final = os.sysconf("SC_CLK_TCK")
_BEGAN_WITHIN_S: Final = 2.0
"""The boot time in /proc/stat is rounded, and moves when the clock is set."""


class ContainerProcess(NamedTuple):
    """A line of /proc/PID/stat."""

    pid: int
    state: str
    parent: int
    session: int
    ticks: int
    """CPU of its own threads, and of the children that it waited for."""
    began: int
    memory_pages: int

    @property
    def over(self) -> bool:
        """Whether it is a zombie: only its entry is left, or threads of it that are ending."""
        return self.state in "ZXx"

    @property
    def stopped(self) -> bool:
        """Whether SIGSTOP or a debugger has stopped it."""
        return self.state in "Tt"


def look(pid: int, proc: Path = PROC) -> ContainerProcess | None:
    """Return a process, None when there is none with this number."""
    try:
        return _parsed(pid, _bytes(f"{proc}/{pid}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def scan(proc: Path = PROC) -> dict[int, ContainerProcess]:
    """Return all processes of the machine (of this pid namespace)."""
    processes = (look(int(name), proc) for name in os.listdir(proc) if name.isdigit())  # noqa: PTH208
    return {process.pid: process for process in processes if process is not None}


def family(leader: Leader, processes: Mapping[int, ContainerProcess], proc: Path = PROC) -> dict[int, ContainerProcess]:
    """Return the processes of a container: its leader, the leader's session, and everything that descends from them.

    The session is found after the leader has ended, too: its number is not given away while the session lives.
    """
    first = processes.get(leader.pid)
    if first is not None and not same(first, leader, proc):
        return {}
    members = {p.pid: p for p in processes.values() if p.session == leader.pid}
    if first is not None:
        members[first.pid] = first
    children: dict[int, list[ContainerProcess]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    todo = list(members)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child.pid not in members:
                members[child.pid] = child
                todo.append(child.pid)
    return members


def cpu_s(leaders: Mapping[str, Leader], proc: Path = PROC) -> dict[str, float]:
    """Return the CPU seconds that the processes of containers have used, by container; those that are gone left out."""
    processes = scan(proc) if leaders else {}
    families = {container_id: family(leader, processes, proc) for container_id, leader in leaders.items()}
    return {
        container_id: sum(process.ticks for process in members.values()) / TICKS
        for container_id, members in families.items()
        if members
    }


def same(process: ContainerProcess, leader: Leader, proc: Path = PROC) -> bool:
    """Return whether a process is the leader, and not another one with a recycled number."""
    return abs(began_s(process, proc) - leader.began_s) <= _BEGAN_WITHIN_S


def began_s(process: ContainerProcess, proc: Path = PROC) -> float:
    """Return when a process began, Unix seconds."""
    return _boot_s(proc) + process.began / TICKS


def leader_of(pid: int, proc: Path = PROC) -> Leader | None:
    """Return a process as a container's leader, None when it is gone."""
    process = look(pid, proc)
    return Leader(pid, began_s(process, proc)) if process else None


def groups_of(pid: int, proc: Path = PROC) -> dict[str, str] | None:
    """Return the group of a process by controller ("" is that of cgroup v2); None when it is gone."""
    try:
        text = _bytes(f"{proc}/{pid}/cgroup").decode()
    except (FileNotFoundError, ProcessLookupError):
        return None
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update((name, path) for name in controllers.split(","))
    return groups


def being_killed(pid: int, proc: Path = PROC) -> bool:
    """Return whether SIGTERM or SIGKILL waits for a process, which a frozen one cannot take."""
    try:
        text = _bytes(f"{proc}/{pid}/status").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    waiting = 0
    for line in text.splitlines():
        if line.startswith(("SigPnd:", "ShdPnd:")):
            waiting |= int(line.split()[1], 16)
    return bool(waiting & (1 << 8 | 1 << 14))


def anonymous_mb(pid: int, proc: Path = PROC) -> float:
    """Return the anonymous memory of a process in MB; 0 when it is gone."""
    try:
        words = _bytes(f"{proc}/{pid}/statm").split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _parsed(pid: int, line: bytes) -> ContainerProcess:
    words = line[line.rindex(b")") + 2 :].split()
    return ContainerProcess(
        pid=pid,
        state=words[0].decode(),
        parent=int(words[1]),
        session=int(words[3]),
        ticks=sum(map(int, words[11:15])),
        began=int(words[19]),
        memory_pages=int(words[21]),
    )


def _boot_s(proc: Path) -> int:
    for line in _bytes(f"{proc}/stat").splitlines():
        if line.startswith(b"btime "):
            return int(line.split()[1])
    raise ValueError(f"{proc}/stat has no btime line")


def _bytes(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
