"""Original limits of resized Docker containers, on disk: an Engine stores only the limits that were set last.

A record is a file named by the Docker id, locked by the sidecar that attached the container. So two sidecars never
resize one container, and the guardian or the next sidecar restores the limits in an unlocked record.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.docker.engine import DockerContainer, DockerLimits

DEFAULT_FOLDER: Final = Path("/run/quicksilver/docker")
_POLL_S: Final = 0.02
_BYTES: Final = 4096
"""Least length of a record: its blanks keep room for later writes, and none is ever cut after it was written."""


class Record:
    """A locked record; `drop` it, or close it to leave it for another process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        self.container_id, self.url, self.docker_id = "", "", path.stem
        self.limits = DockerLimits(0, 0, 0, 0)
        self.shares, self.paused = False, False
        self.adopted = self._read()
        """Whether it was left by an earlier process."""

    @classmethod
    def make(cls, folder: Path, container_id: str, url: str, docker: DockerContainer, shares: bool) -> Self:
        """Lock a container's record and write it, or take over the one that an earlier process left.

        Raises ResizeRefusedError when another sidecar has it, or the folder cannot be written.
        """
        record = cls._locked(folder, container_id, docker)
        record.container_id, record.url = container_id, url
        if not record.adopted:
            record.limits, record.shares = docker.limits, shares
            record.write()
        return record

    @classmethod
    def _locked(cls, folder: Path, container_id: str, docker: DockerContainer) -> Self:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            record = cls.open(folder / f"{docker.docker_id}.json", make=True)
        except OSError as error:
            why = error.strerror or str(error)
            remedy = "let the sidecar's user write there"
            raise ResizeRefusedError(container_id, str(folder), why, remedy=remedy) from error
        if record is None:
            raise ResizeRefusedError(
                container_id,
                "attach",
                "another sidecar resizes this Docker container",
                remedy="give each sidecar a NodeManager of its own",
                retriable=True,
            )
        return record

    @classmethod
    def open(cls, path: Path, *, make: bool = False, wait_s: float = 0.0) -> Self | None:
        """Lock a record; None if another process holds it for all of `wait_s`, or it does not exist. Raises OSError."""
        until_s = time.monotonic() + wait_s
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o600)
            except FileNotFoundError:
                return None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                if time.monotonic() >= until_s:
                    return None
                time.sleep(_POLL_S)
                continue
            if _is_at(descriptor, path):
                return cls(path, descriptor)
            os.close(descriptor)  # its last owner dropped it in between

    def write(self) -> None:
        """Write the record, before the container is touched. Raises ResizeRefusedError."""
        fields = {key: getattr(self, key) for key in ("container_id", "url", "docker_id", "shares", "paused")}
        text = json.dumps({**fields, "limits": asdict(self.limits)}).encode().ljust(_BYTES)
        try:
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))
        except OSError as error:
            why = error.strerror or str(error)
            raise ResizeRefusedError(self.container_id, str(self.path), why, remedy="make room there") from error

    def drop(self) -> None:
        """Remove the record: the container has its own limits again, or is gone."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Unlock the record and leave it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> bool:
        """Read what the file says; False when it was never fully written, and its container never touched."""
        text = os.pread(self._descriptor, 65536, 0)
        try:
            fields: dict[str, Any] = json.loads(text)
        except ValueError:
            return False
        self.container_id, self.url, self.docker_id = fields["container_id"], fields["url"], fields["docker_id"]
        self.shares, self.paused = fields["shares"], fields["paused"]
        self.limits = DockerLimits(**fields["limits"])
        return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)
