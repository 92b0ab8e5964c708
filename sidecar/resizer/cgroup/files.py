"""Control files of cgroups: small reads and writes whose errors become ResizeRefusedError with a remedy."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sidecar.resizer.base import ResizeRefusedError

_READ_BYTES: Final = 65536
_GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ESRCH)
"""ENODEV: the group was removed while the file was open."""
_REMEDIES: Final = {
    errno.EACCES: "run the sidecar as root, or give its user the group's folder (systemd: Delegate=yes)",
    errno.EPERM: "run the sidecar as root, or give its user the group's folder (systemd: Delegate=yes)",
    errno.EROFS: "mount the cgroup file system writable (Docker: --privileged, or -v /sys/fs/cgroup:/sys/fs/cgroup:rw)",
    errno.EBUSY: "processes or groups inside are somebody else's (a container engine in the container?): leave it out",
    errno.EINVAL: "the kernel does not take this value here: a parent or child group may bound it",
    errno.ENOSPC: "the kernel has no room for another group: see cgroup.max.descendants",
}


def refused(container_id: str, path: Path | str, error: OSError) -> ResizeRefusedError:
    """Return the exception for an error at a control file; a missing group or process means `gone`."""
    why = error.strerror or str(error)
    gone = error.errno in _GONE
    return ResizeRefusedError(container_id, str(path), why, remedy=_REMEDIES.get(error.errno or 0, ""), gone=gone)


def write(path: Path | str, text: str, container_id: str) -> None:
    """Write a control file in one write; it is never created. Raises ResizeRefusedError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise refused(container_id, path, error) from error


def read(path: Path | str, container_id: str = "") -> str:
    """Return a control file's text without the line end. Raises ResizeRefusedError."""
    try:
        return _text(path)
    except OSError as error:
        raise refused(container_id, path, error) from error


def read_or_none(path: Path | str) -> str | None:
    """Return a control file's text, None when it or its group is gone. Raises ResizeRefusedError for the rest."""
    try:
        return _text(path)
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise refused("", path, error) from error


def keyed(text: str) -> dict[str, int]:
    """Return the numbers of a file of `name value` lines (cpu.stat, memory.stat, cgroup.events)."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].lstrip("-").isdigit()}


def pids(group: Path, name: str = "cgroup.procs") -> list[int]:
    """Return the processes of a group itself, not of groups inside it; none when it is gone."""
    text = read_or_none(group / name)
    return [int(word) for word in text.split()] if text else []


def move(group: Path, pid: int, container_id: str) -> bool:
    """Move a process into a group; False when it is gone. Raises ResizeRefusedError."""
    try:
        write(group / "cgroup.procs", str(pid), container_id)
    except ResizeRefusedError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno == errno.ESRCH:
            return False
        raise
    return True


def make(group: Path, container_id: str) -> bool:
    """Create a group and its parents; False if it existed. Raises ResizeRefusedError."""
    try:
        group.mkdir(parents=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise refused(container_id, group, error) from error
    return True


def remove(group: Path, container_id: str, wait_s: float = 0.0) -> None:
    """Remove a group, again for `wait_s` while it is busy: a process that ends is in it a moment longer.

    A missing group is no error. Raises ResizeRefusedError.
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY) or time.monotonic() >= until:
                raise refused(container_id, group, error) from error
        time.sleep(0.005)


def remove_empty(groups: Iterable[Path]) -> None:
    """Remove empty groups; leave the others to their other users."""
    for group in groups:
        try:
            group.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EBUSY, errno.ENOTEMPTY):
                raise refused("", group, error) from error


def _text(path: Path | str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _READ_BYTES):
            parts.append(part)
        return b"".join(parts).decode().rstrip("\n")
    finally:
        os.close(descriptor)
