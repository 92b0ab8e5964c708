"""The file that a restarted proxy goes on with: what attempts wrote down (rm_proxy/attempt/snapshot.py), line by line.

A line is a CRC-32, an attempt's id and a note. It is written before the bytes that it is about leave, and not synced:
what was written survives the death of the process, not that of the machine. A file that another run of the machine left
open is therefore not believed, nor one that is damaged anywhere but in its last line. It holds keys of applications
(client_to_am_token_master_key) and, in the last answers, tokens of containers and NodeManagers: mode 0600.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.logs import get_logger
from rm_proxy.attempt.snapshot import Note, Snapshot
from rm_proxy.metrics import ProxyMetrics

VERSION: Final = 1
MIN_GROWTH: Final = 4 << 20
"""Bytes by which the file grows before it is written anew."""
RETRY_S: Final = 5.0
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_HEADER: Final = "quicksilver"
_CLOSED: Final = "closed"
log = get_logger(__name__)


class DamagedError(ValueError):
    """The file cannot be believed."""


class Journal:
    """One file; not to be shared between threads."""

    def __init__(self, path: Path, metrics: ProxyMetrics) -> None:
        self.path, self._metrics = path, metrics
        self._file: int | None = None
        self._lock: int | None = None
        self._size = 0
        self._compact_at = MIN_GROWTH
        self._retry_at_s = 0.0
        self.broken = ""
        """Why nothing can be written now."""

    def open(self) -> dict[str, Snapshot]:
        """Return what the attempts of the earlier process wrote down, those that are over left out.

        A file that cannot be believed is set aside. Raises QuicksilverError when another process uses it, or the
        directory cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = "stop it, or give this one another proxy.state_dir"
            raise QuicksilverError("another proxy uses it", place=str(self.path), remedy=remedy) from error
        except OSError as error:
            remedy = "correct proxy.state_dir, or make it writable"
            raise QuicksilverError(
                f"cannot be written: {error.strerror}", place=str(self.path), remedy=remedy
            ) from error
        try:
            return self._read()
        except (ValueError, OSError) as error:
            aside = self.path.with_suffix(f".{int(time.time())}.aside")
            log.error(
                "the state of living applications cannot be believed: their asks stay as YARN has them",
                file=str(self.path),
                why=str(error),
                set_aside=str(aside),
            )
            if self.path.exists():
                self.path.replace(aside)
            return {}

    def _read(self) -> dict[str, Snapshot]:
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        whole, cut = lines[:-1], lines[-1]
        if cut:
            log.info("the last note was not finished, nothing was done about it", file=str(self.path))
        if not whole:
            return {}
        name, head = _parse(whole[0], 1)
        if name != _HEADER or head.get("version") != VERSION:
            raise DamagedError("it is of another version")
        found: dict[str, Snapshot] = {}
        closed = False
        for number, line in enumerate(whole[1:], 2):
            name, note = _parse(line, number)
            closed = name == _CLOSED
            if not closed:
                _take(found, name, note, number)
        if not closed and head.get("boot") != _boot():
            raise DamagedError("the machine went down before it was closed")
        return found

    def write(self, attempt_id: str, note: Note) -> None:
        """Add a note; it is in the kernel's hands when this returns. A failure is logged once and counted."""
        if self._file is None:
            self._metrics.journal_dropped.inc()
            return
        line = _line(attempt_id, note)
        try:
            if os.write(self._file, line) != len(line):
                raise OSError("no room left")
        except OSError as error:
            self._failed(error)
            return
        self._size += len(line)
        self._metrics.journal_bytes.inc(len(line))

    def due(self, now_s: float) -> bool:
        """Tell whether the file is to be written anew: it has grown, or could not be written."""
        if self._file is None:
            return now_s >= self._retry_at_s
        return self._size >= self._compact_at

    def compact(self, notes: Iterable[tuple[str, Note]], now_s: float) -> None:
        """Write the file anew with what is known of the living attempts."""
        fresh = self.path.with_suffix(".new")
        self._retry_at_s = now_s + RETRY_S
        try:
            data = b"".join((_line(_HEADER, {"version": VERSION, "boot": _boot()}), *(_line(*note) for note in notes)))
            fresh.unlink(missing_ok=True)
            file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                _write_all(file, data)
                fresh.replace(self.path)
            except OSError:
                os.close(file)
                raise
        except OSError as error:
            self._failed(error)
            return
        if self._file is not None:
            os.close(self._file)
        if self.broken:
            log.info("the state of living applications is written again", file=str(self.path))
        self._file, self.broken = file, ""
        self._size = len(data)
        self._compact_at = 2 * len(data) + MIN_GROWTH
        self._metrics.journal_up.set(1)

    def _failed(self, error: OSError) -> None:
        """Take the file away: what it says is true no longer, and a proxy that believed it would do harm."""
        if not self.broken:
            log.error(
                "the state of living applications cannot be written: a proxy that restarts now would not know them",
                file=str(self.path),
                why=str(error),
                remedy="make room, or correct proxy.state_dir",
            )
        self.broken = str(error)
        self._metrics.journal_up.set(0)
        self._metrics.journal_dropped.inc()
        if self._file is not None:
            os.close(self._file)
            self._file = None
        try:
            self.path.unlink(missing_ok=True)
        except OSError as cannot:
            log.error("the outdated state cannot be removed", file=str(self.path), why=str(cannot))

    def close(self) -> None:
        """End the file in order, on the disk: another run of the machine may believe it."""
        if self._file is not None:
            self.write(_CLOSED, {})
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _take(found: dict[str, Snapshot], name: str, note: Note, number: int) -> None:
    kept = found.setdefault(name, Snapshot())
    try:
        kept.take(note)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"line {number} is no note: {error}") from error
    if kept.over:
        del found[name]


def _line(name: str, note: Note) -> bytes:
    body = f"{name} {json.dumps(note, separators=(',', ':'))}".encode()
    return b"%08x %b\n" % (crc32(body), body)


def _parse(line: bytes, number: int) -> tuple[str, dict[str, Any]]:
    checksum, _, body = line.partition(b" ")
    name, _, text = body.partition(b" ")
    if checksum != b"%08x" % crc32(body):
        raise DamagedError(f"line {number} is damaged")
    note = json.loads(text)
    if not isinstance(note, dict):
        raise DamagedError(f"line {number} is no note")
    return name.decode(), note


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _boot() -> str:
    return _BOOT.read_text().strip()
