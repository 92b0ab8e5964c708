"""Processes that outlive the command which started them: started, recognised, ended. Linux only."""

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

_POLL_S = 0.05
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ProcessId(NamedTuple):
    """A process for ever: the number alone may be given to another one later."""

    pid: int
    start_ticks: int
    """Clock ticks from the start of the machine to that of the process."""
    boot_id: str


def spawn(argv: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path) -> ProcessId:
    """Start a process in a session of its own, its output appended to `log`; it lives on without us."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(cwd), *argv],
        env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return ProcessId(pid, _stat(pid)[1], _boot_id())


def is_alive(process: ProcessId) -> bool:
    """Return whether it still runs; one that ended but was not waited for does not, and is waited for here."""
    if process.boot_id != _boot_id():
        return False
    try:
        state, ticks = _stat(process.pid)
    except (FileNotFoundError, ProcessLookupError):
        return False
    if ticks != process.start_ticks:
        return False
    if state not in "ZX":
        return True
    if _has_threads(process.pid):  # the first thread is gone; the others still hold files and ports
        return True
    _reap(process.pid)
    return False


def _has_threads(pid: int) -> bool:
    """Return whether more than the first thread of a process is left."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def stop(processes: Iterable[ProcessId], grace_s: float) -> None:
    """Ask all of them to end, kill after `grace_s` who did not, and return when none is left."""
    rest = [process for process in processes if is_alive(process)]
    for sent, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        for process in rest:
            _signal(process, sent)
        deadline = time.monotonic() + wait_s
        while (rest := [process for process in rest if is_alive(process)]) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def kill(process: ProcessId) -> None:
    """Send SIGKILL, and return when the process is gone."""
    _signal(process, signal.SIGKILL)
    while is_alive(process):
        time.sleep(_POLL_S)


def containers_below(local_root: Path) -> list[ProcessId]:
    """Return the processes of containers whose NodeManagers keep their files below `local_root`.

    A container is known by its working directory or the LOCAL_DIRS in its environment; all in its session belong to it.
    """
    members: dict[int, int] = {}
    sessions: set[int] = set()
    for process in psutil.process_iter():
        try:
            session = os.getsid(process.pid)
            members[process.pid] = session
            if _is_container(process, str(local_root) + os.sep):
                sessions.add(session)
        except (psutil.Error, ProcessLookupError):
            continue  # ended meanwhile, or another user's
    own = {os.getsid(0)}
    ids = []
    for pid in (pid for pid, session in members.items() if session in sessions - own):
        try:
            ids.append(ProcessId(pid, _stat(pid)[1], _boot_id()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
    return ids


def _is_container(process: psutil.Process, root: str) -> bool:
    return process.cwd().startswith(root) or process.environ().get("LOCAL_DIRS", "").startswith(root)


def _signal(process: ProcessId, number: signal.Signals) -> None:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(process):  # the handle now holds the pid, so this answer stays true
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # not our child; init waits for it


def _stat(pid: int) -> tuple[str, int]:
    """Return state and start ticks (fields 3 and 22 of proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()
