"""The journal's file, from which a restarted proxy continues (recovery.py): notes of attempts (attempt/snapshot.py).

A record is an attempt's id and a note as JSON. A file that another run of the machine left open is not trusted, because
its last records may be missing. It holds keys of applications (client_to_am_token_master_key) and, in the last answers,
tokens of containers and NodeManagers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import DecodeError
from pydantic_core import to_json

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.journal_file import DamagedJournalError, JournalFile
from quicksilver.common.process.logs import get_logger
from rm_proxy.attempt.snapshot import Note, Snapshot
from rm_proxy.metrics import ProxyMetrics

FORM: Final = "rm_proxy attempts 1"
MIN_GROWTH: Final = 4 << 20
"""Bytes by which the file grows before it is rewritten."""
RETRY_S: Final = 5.0
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MACHINE: Final = "machine"
"""Key of the first record: the boot of the machine."""
_CLOSED: Final = "closed"
"""Key of the last record of a file that was closed in order."""
_SETTING: Final = "proxy.state_dir"
log = get_logger(__name__)
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class AttemptJournal:
    """One file; not to be shared between threads."""

    def __init__(self, path: Path, metrics: ProxyMetrics) -> None:
        self.path, self._metrics = path, metrics
        self._file = JournalFile(path, form=FORM, setting=_SETTING)
        self._machine = _record(_MACHINE, {"boot": _boot()})
        self._unnamed: tuple[bytes, ...] = ()
        """The record that names this run of the machine, while the open file names another."""
        self._compact_at = MIN_GROWTH
        self._retry_at_s = 0.0
        self._not_rewritten = ""
        """Why the file could not be rewritten; it goes on to be appended to."""
        self.broken = ""
        """Why nothing can be written now."""

    def open(self) -> dict[str, Snapshot]:
        """Return the snapshots that the previous process journaled; attempts that are over are left out.

        A file that cannot be trusted is set aside; its applications then continue without quicksilver's state. Raises
        QuicksilverError when another process uses it, or the directory cannot be written.
        """
        try:
            self._file.lock()
        except OSError as error:
            remedy = f"correct {_SETTING}, or make it writable"
            raise QuicksilverError(
                f"cannot be written: {error.strerror}", place=str(self.path), remedy=remedy
            ) from error
        try:
            return self._read()
        except (ValueError, OSError) as error:
            self._file.set_aside(str(error))
            return {}

    def _read(self) -> dict[str, Snapshot]:
        records = self._file.read()
        if not records:
            return {}
        boot = records[0]
        if _parse(boot)[0] != _MACHINE:
            raise DamagedJournalError("its first record does not name the machine's boot")
        snapshots: dict[str, Snapshot] = {}
        closed = False
        for record in records[1:]:
            name, note = _parse(record)
            closed = name == _CLOSED
            if name == _MACHINE:
                boot = record
            elif not closed:
                _apply(snapshots, name, note)
        if boot != self._machine and not closed:
            raise DamagedJournalError("the machine went down before it was closed")
        self._unnamed = (self._machine,) if boot != self._machine else ()
        return snapshots

    def write(self, attempt_id: str, note: Note) -> None:
        """Append a note; it is in the kernel's hands when this returns. A failure is logged once and counted."""
        if not self._file.is_open:
            self._metrics.journal_dropped.inc()
            return
        try:
            written = self._file.append(*self._unnamed, _record(attempt_id, note))
        except OSError as error:
            self._failed(error)
            return
        self._unnamed = ()
        self._metrics.journal_bytes.inc(written)

    def due(self, now_s: float) -> bool:
        """Return whether the file is to be rewritten: it has grown, or could not be written."""
        return now_s >= self._retry_at_s and (not self._file.is_open or self._file.size >= self._compact_at)

    def compact(self, notes: Iterable[tuple[str, Note]], now_s: float) -> None:
        """Rewrite the file with the state of the living attempts; where that fails, the file before is appended to."""
        try:
            self._file.rewrite((self._machine, *(_record(*note) for note in notes)))
        except OSError as error:
            self._retry_at_s = now_s + RETRY_S
            if self._file.is_open:
                self._stays(error)
            else:
                self._failed(error)
            return
        if self.broken or self._not_rewritten:
            log.info("the journal is written again", file=str(self.path))
        self.broken = self._not_rewritten = ""
        self._unnamed = ()
        self._compact_at = 2 * self._file.size + MIN_GROWTH
        self._metrics.journal_up.set(1)

    def _stays(self, error: OSError) -> None:
        """Note that the file was not rewritten: it is valid, and goes on to be appended to."""
        if not self._not_rewritten:
            log.warning(
                "the journal cannot be rewritten: it is still appended to, and grows",
                file=str(self.path),
                why=str(error),
                remedy=f"make room, raise LimitNOFILE, or correct {_SETTING}",
            )
        self._not_rewritten = str(error)
        self._metrics.journal_up.set(1)

    def _failed(self, error: OSError) -> None:
        """Remove the file: it is outdated, and a proxy that trusted it would do harm."""
        if not self.broken:
            log.error(
                "the journal cannot be written: a proxy that restarts now would not know the running applications",
                file=str(self.path),
                why=str(error),
                remedy=f"make room, or correct {_SETTING}",
            )
        self.broken = str(error)
        self._metrics.journal_up.set(0)
        self._metrics.journal_dropped.inc()
        try:
            self._file.remove()
        except OSError as cannot:
            log.error("the outdated journal cannot be removed", file=str(self.path), why=str(cannot))

    def close(self) -> None:
        """Close the file in order and write it to the disk, so that another run of the machine may trust it."""
        if self._file.is_open:
            self.write(_CLOSED, {})
        self._file.close(sync=True)


class JournalDivision:
    """Moves what several journals say into others, each attempt into that of its new process (workers/journals.py)."""

    def __init__(self, journals: Iterable[Path]) -> None:
        """Read them. Raises QuicksilverError where another process uses one; a file without trust is set aside."""
        self.records: list[tuple[str, bytes]] = []
        """Attempts and records of them, in order."""
        self._files = [JournalFile(path, form=FORM, setting=_SETTING) for path in journals]
        for file in self._files:
            file.lock()
            try:
                self.records += _trusted(file.read())
            except (ValueError, OSError) as error:
                file.set_aside(str(error))

    def write(self, path: Path, records: Iterable[bytes]) -> None:
        """Write a journal with these records alone. Raises QuicksilverError or OSError."""
        file = JournalFile(path, form=FORM, setting=_SETTING)
        file.rewrite((_record(_MACHINE, {"boot": _boot()}), *records))
        file.close(sync=True)

    def close(self) -> None:
        """Remove the journals that were read: others say all of it."""
        for file in self._files:
            file.remove()
            file.close()


def _trusted(records: list[bytes]) -> list[tuple[str, bytes]]:
    """Return attempts and records of a file of this run of the machine, or one that was closed in order."""
    noted = [(record.partition(b" ")[0].decode(), record) for record in records]
    boots = [record for name, record in noted if name == _MACHINE]
    if records and boots[-1:] != [_record(_MACHINE, {"boot": _boot()})] and noted[-1][0] != _CLOSED:
        raise DamagedJournalError("the machine went down before it was closed")
    return [(name, record) for name, record in noted if name not in (_MACHINE, _CLOSED)]


def _apply(snapshots: dict[str, Snapshot], name: str, note: Note) -> None:
    snapshot = snapshots.setdefault(name, Snapshot())
    try:
        snapshot.take(note)
    except (KeyError, TypeError, ValueError, AttributeError, DecodeError) as error:
        raise DamagedJournalError(f"a record of {name} is not a valid note: {error}") from error
    if snapshot.over:
        del snapshots[name]


def _record(name: str, note: Note) -> bytes:
    try:
        return name.encode() + b" " + to_json(note)
    except ValueError:  # a text with a lone surrogate, which JSON can only have escaped
        return f"{name} {_encode(note)}".encode()


def _parse(record: bytes) -> tuple[str, dict[str, Any]]:
    name, _, text = record.partition(b" ")
    note = json.loads(text)
    if not isinstance(note, dict):
        raise DamagedJournalError("a record is not a note")
    return name.decode(), note


def _boot() -> str:
    return _BOOT.read_text().strip()
