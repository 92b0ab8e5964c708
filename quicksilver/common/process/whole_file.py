"""Writes a file whole or not at all: a full disk leaves the file before, and nothing beside it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def write_whole(path: Path, data: bytes, *, mode: int = 0o600, like: Path | None = None) -> None:
    """Replace a file. mode: its rights, less the umask; like: a file whose rights and owner it gets instead.

    Raises OSError; then the file before stays.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.new")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
        if like is not None:
            shutil.copymode(like, part)
            owner = like.stat()
            os.chown(part, owner.st_uid, owner.st_gid)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
