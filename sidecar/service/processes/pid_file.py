"""The pid file of a container, and whether the process that it names may be taken for the container's.

With DefaultContainerExecutor containers run as the NodeManager's user, to whom the file belongs: code of a container
may write any number into it. The sidecar is root, and stops, bounds and moves what the file names. So it does that only
where the file's owner could do the same, or where the process carries the container's id in a place that nobody can
write for another user's process. That holds after a NodeManager's restart, too, when its containers descend from init.

- DefaultContainerExecutor: the shell that writes its own number calls setsid afterwards; its user is the file's.
- LinuxContainerExecutor: container-executor calls setsid, writes the number as the NodeManager's user, enters the
  NodeManager's control group, becomes the submitter, and runs launch_container.sh, which exports CONTAINER_ID and
  then replaces itself (container-executor.c, launch_container_as_user; ContainerLaunch.java).
- Its Docker runtime writes the number of the Docker container's first process, which has the same environment.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from sidecar.resizer.processes import PROC, ContainerProcess, began_s, groups_of

_CLOCK_S: Final = 10.0
"""A process that began this many seconds before its container is another one; less may be a change of the clock."""
_LAST_PID: Final = 2**22
"""The kernel gives no larger number (PID_MAX_LIMIT)."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""The last one: a link, which the NodeManager does not make."""
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PidFile(NamedTuple):
    """What a container's pid file says."""

    pid: int
    written_s: float
    owner: int
    """The file's user id: that of the NodeManager."""


class PrivateFolder:
    """The nmPrivate of one local directory during one look; what it has in common for many containers is opened once.

    It is a context manager. No symbolic link is followed.
    """

    def __init__(self, local_dir: Path) -> None:
        self.path = f"{local_dir}/nmPrivate"
        self._own: int | None = None
        self._app: int | None = None
        self._app_id = ""
        """The application whose folder was looked for last."""

    def __enter__(self) -> PrivateFolder:
        return self

    def __exit__(self, *_: object) -> None:
        for folder in (self._own, self._app):
            if folder is not None:
                os.close(folder)
        self._own = self._app = None

    def of_app(self, app_id: str) -> int | None:
        """Return the descriptor of an application's folder, None if there is none; it is open until the next call.

        Raises OSError.
        """
        if app_id != self._app_id:
            if self._app is not None:
                os.close(self._app)
                self._app = None
            if self._own is None:
                self._own = _opened(self.path, _FOLDER)
            if self._own is not None:
                self._app = _opened(app_id, _FOLDER, self._own)
            self._app_id = app_id
        return self._app


def _opened(name: str, flags: int, above: int | None = None) -> int | None:
    """Return the descriptor of a file or folder; None when it is not there, or a link."""
    try:
        return os.open(name, flags, dir_fd=above)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise


def read_pid_file(private: PrivateFolder, app_id: str, container_id: str) -> PidFile | None:
    """Return what the pid file says, None when there is none (yet), or none that names a process. Raises OSError."""
    app = private.of_app(app_id)
    folder = _opened(container_id, _FOLDER, app) if app is not None else None
    if folder is None:
        return None
    try:
        descriptor = _opened(f"{container_id}.pid", _FILE, folder)
    finally:
        os.close(folder)
    if descriptor is None:
        return None
    try:
        about = os.fstat(descriptor)
        plain = stat.S_ISREG(about.st_mode) and about.st_nlink == 1
        text = os.read(descriptor, 64).strip() if plain else b""
    finally:
        os.close(descriptor)
    pid = int(text) if text.isdigit() else 0
    return PidFile(pid, about.st_mtime, about.st_uid) if 0 < pid <= _LAST_PID else None


def doubt(file: PidFile, process: ContainerProcess, container_id: str, sent_s: float, proc: Path = PROC) -> str:
    """Return why a process is not taken for a container's session leader, "" when it is.

    It may be one a moment later. sent_s: when the container's start was sent, Unix time; 0: not known.
    """
    if process.session != process.pid:
        return "it leads no session"
    if began_s(process, proc) < sent_s - _CLOCK_S:
        return "it is older than the container"
    if _users(process.pid, proc) == {file.owner}:
        return ""  # the file's owner may signal it
    groups = groups_of(process.pid, proc) or {}
    if any(container_id in PurePath(path).parts for path in groups.values()):
        return ""
    try:
        environment = (proc / str(process.pid) / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return "it is gone"
    except PermissionError:
        return "" if os.geteuid() else "its environment cannot be read (CAP_SYS_PTRACE)"  # else it is out of reach
    if f"CONTAINER_ID={container_id}".encode() in environment:
        return ""
    return "it is another user's, and neither its control group nor its environment names the container"


def _users(pid: int, proc: Path) -> set[int]:
    """Return the real, effective and saved user id of a process; none when it is gone."""
    try:
        lines = (proc / str(pid) / "status").read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return {int(word) for line in lines if line.startswith("Uid:") for word in line.split()[1:4]}
