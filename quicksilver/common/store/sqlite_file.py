"""The file of a SQLite store: made for its owner alone, missed when it is deleted, set aside when it is broken."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

LOCK_WAIT_S: Final = 5.0
MAX_ASIDE: Final = 3
"""Broken files that are kept; with this number the disk itself is broken, and no new store begins."""
_BROKEN: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_SIDES: Final = ("-wal", "-shm", "-journal")


class StoreFile:
    """One file with what SQLite keeps beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[int, int] | None = None

    def connect(self) -> sqlite3.Connection:
        """Connect to the file, which must be there."""
        uri = f"file:{quote(str(self.path.absolute()))}?mode=rw"
        return sqlite3.connect(uri, uri=True, timeout=LOCK_WAIT_S, check_same_thread=False)

    def create(self) -> None:
        """Make sure that the file is there, with mode 0600 when it is new. Raises OSError."""
        self._known = None
        if not self.path.exists():
            for side in self._beside():
                side.unlink(missing_ok=True)  # SQLite would take leftovers of a deleted store for its own
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def opened(self) -> None:
        """Remember the identity of the opened file. Raises OSError."""
        self._known = self._identity()

    def check(self) -> None:
        """Raise OSError when the opened file was deleted or replaced: rows written to it would be lost."""
        if self._known is not None and self._identity() != self._known:
            raise FileNotFoundError("the file was replaced by another one")

    def _identity(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_dev, status.st_ino

    def _beside(self) -> list[Path]:
        return [self.path.with_name(self.path.name + end) for end in _SIDES]

    def set_aside(self, error: Exception, now_s: float) -> Path | None:
        """Rename the file when `error` says that it is broken; returns its new name, None when it stays."""
        code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0) & 0xFF
        if code not in _BROKEN or len(list(self.path.parent.glob(f"{self.path.name}.broken-*"))) >= MAX_ASIDE:
            return None
        aside = self.path.with_name(f"{self.path.name}.broken-{datetime.fromtimestamp(now_s, UTC):%Y%m%dT%H%M%SZ}")
        try:
            self.path.rename(aside)
            for side in self._beside():
                side.unlink(missing_ok=True)
        except OSError:
            return None  # the first error is the one to report
        return aside
