"""Watches for ends of containers: a pidfd on each session leader, found through the NodeManager's pid file.

The file is `nmPrivate/APP/CONTAINER/CONTAINER.pid` in any of the NodeManager's local directories; only root and the
NodeManager's own user can read it. Where that fails, `blind` says so, and the NodeManager's list is used instead; also
for a container whose file names a process that `pid_file.doubt` does not believe.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver.common.process.logs import get_logger
from sidecar.resizer.base import Leader
from sidecar.resizer.processes import began_s, leader_of, look
from sidecar.service.processes.pid_file import PidFile, PrivateFolder, doubt, read_pid_file

log = get_logger(__name__)
_BEFORE_S: Final = 2.0
"""A process that began this many seconds after its pid file was written is another one, with a reused pid."""
_DOUBTED_S: Final = 10.0
"""How long a process may be doubted until that is logged: it becomes what it is to be within a second."""
_AGAIN_S: Final = 1.0
"""Time between two looks at such a process."""


@dataclass(slots=True)
class _Watched:
    app_id: str
    sent_s: float
    pidfd: int | None = None
    pid: int | None = None
    doubted_s: float | None = None
    """Since when the process in its file is doubted, monotonic."""
    again_s: float = 0.0
    """When its file is looked for next, monotonic."""


class ProcessWatcher:
    """Watches containers inside the running loop.

    `on_found(container_id, pid, began_s)` is called when a container's session leader is known (began_s: Unix time),
    `on_end(container_id)` once when it ends.
    """

    def __init__(
        self,
        local_dirs: Sequence[Path],
        poll_s: float,
        on_end: Callable[[str], None],
        on_found: Callable[[str, int, float], None] = lambda container_id, pid, began_s: None,
    ) -> None:
        self.local_dirs, self.poll_s = tuple(local_dirs), poll_s
        self.blind = ""
        """Why pid files cannot be read; "" while they can."""
        self._on_end, self._on_found = on_end, on_found
        self._watched: dict[str, _Watched] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, container_id: str, app_id: str, sent_s: float = 0.0) -> None:
        """Watch for a container's end. sent_s: when its start was sent, Unix time; 0: not known."""
        watched = self._watched.setdefault(container_id, _Watched(app_id, sent_s))
        watched.sent_s = min(watched.sent_s, sent_s)
        self._arm()

    def unwatch(self, container_id: str) -> None:
        """Forget a container."""
        watched = self._watched.pop(container_id, None)
        if watched is not None:
            self._close(watched)

    def unseen(self) -> int:
        """Return how many containers have no pidfd (yet)."""
        return sum(1 for w in self._watched.values() if w.pidfd is None)

    def seen(self) -> frozenset[str]:
        """Return the containers whose process is watched."""
        return frozenset(cid for cid, w in self._watched.items() if w.pidfd is not None)

    def leaders(self, container_ids: Collection[str]) -> dict[str, Leader]:
        """Return the session leaders that are known, by container."""
        pids = {container_id: self.pid(container_id) for container_id in container_ids}
        leaders = {container_id: leader_of(pid) for container_id, pid in pids.items() if pid is not None}
        return {container_id: leader for container_id, leader in leaders.items() if leader is not None}

    def pid(self, container_id: str) -> int | None:
        """Return the session leader's process id, when it is known."""
        watched = self._watched.get(container_id)
        return watched.pid if watched else None

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for container_id in list(self._watched):
            self.unwatch(container_id)

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.poll_s, self._poll)

    def _poll(self) -> None:
        self._timer = None
        now_s = time.monotonic()
        due = [(cid, w) for cid, w in self._watched.items() if w.pidfd is None and w.again_s <= now_s]
        with ExitStack() as stack:
            folders = [stack.enter_context(PrivateFolder(directory)) for directory in self.local_dirs]
            for container_id, watched in due:
                self._look(container_id, watched, folders)
        if self.unseen():
            self._arm()

    def _look(self, container_id: str, watched: _Watched, folders: Sequence[PrivateFolder]) -> None:
        file = self._pid_file(container_id, watched.app_id, folders)
        if file is None:
            return
        try:
            pidfd = os.pidfd_open(file.pid)
        except ProcessLookupError:
            self._ended(container_id)
            return
        except OSError as error:
            self._cannot_see(f"pidfd_open failed: {error.strerror or error}")
            return
        process = look(file.pid)
        if process is None or began_s(process) > file.written_s + _BEFORE_S:
            os.close(pidfd)
            self._ended(container_id)
            return
        why = doubt(file, process, container_id, watched.sent_s)
        if why:
            os.close(pidfd)
            self._doubted(container_id, watched, f"process {file.pid}: {why}")
            return
        watched.pid, watched.pidfd = file.pid, pidfd
        asyncio.get_running_loop().add_reader(pidfd, self._ended, container_id)
        self._on_found(container_id, file.pid, began_s(process))

    def _doubted(self, container_id: str, watched: _Watched, why: str) -> None:
        now_s = time.monotonic()
        if watched.doubted_s is None:
            watched.doubted_s = now_s
        if now_s - watched.doubted_s >= _DOUBTED_S:
            if not watched.again_s:
                text = "its pid file names a process that is not believed to be its own: it is not resized"
                log.warning(text, container=container_id, why=why)
            watched.again_s = now_s + _AGAIN_S

    def _pid_file(self, container_id: str, app_id: str, folders: Sequence[PrivateFolder]) -> PidFile | None:
        for folder in folders:
            try:
                file = read_pid_file(folder, app_id, container_id)
            except OSError as error:
                self._cannot_see(f"{folder.path} cannot be read: {error.strerror or error}")
                continue
            if file is not None:
                return file
        return None

    def _ended(self, container_id: str) -> None:
        self.unwatch(container_id)
        self._on_end(container_id)

    def _close(self, watched: _Watched) -> None:
        if watched.pidfd is not None:
            asyncio.get_running_loop().remove_reader(watched.pidfd)
            os.close(watched.pidfd)
            watched.pidfd = None

    def _cannot_see(self, why: str) -> None:
        if not self.blind:
            log.warning(f"{why}: ends of containers are noticed by the NodeManager's list alone, each second")
        self.blind = why
