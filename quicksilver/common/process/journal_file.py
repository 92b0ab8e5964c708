"""The file format of both daemons' journals: records, one in each line, with a checksum.

A line is the CRC-32 of a record in hexadecimal, a space, and the record. The first record names the format of the
others. Records are written before the bytes leave that depend on them, and are not synced: what was written survives
the death of the process, not that of the machine. Locks of the file itself and of one beside it keep a second process
away, also where the latter was removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.logs import get_logger

_SAFE: Final = os.O_CLOEXEC | os.O_NOFOLLOW
_HEADER: Final = b"quicksilver-journal "
log = get_logger(__name__)


class JournalInUseError(QuicksilverError):
    """Another process writes this journal."""


class DamagedJournalError(ValueError):
    """The file cannot be trusted, or is of another format."""


class JournalFile:
    """One journal, of mode 0600; not to be shared between threads.

    form: name and version of the records, e.g. `sidecar 1`; setting: the setting that names the directory.
    """

    def __init__(self, path: Path, *, form: str, setting: str) -> None:
        self.path = path
        self.size = 0
        """Bytes of the open file."""
        self._header = _HEADER + form.encode()
        self._setting = setting
        self._file: int | None = None
        self._lock: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether records can be appended."""
        return self._file is not None

    def lock(self) -> None:
        """Make the directory, and keep other processes away. Raises JournalInUseError or OSError."""
        if self._lock is not None:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self.path.with_suffix(".lock")
        with _closed_on_failure(os.open(beside, os.O_RDWR | os.O_CREAT | _SAFE, 0o600)) as lock:
            self._keep(lock)
        self._lock = lock

    def _keep(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = f"stop that process, or name another directory in {self._setting}"
            raise JournalInUseError("another process uses it", place=str(self.path), remedy=remedy) from error

    def read(self) -> list[bytes]:
        """Return the records of the process before, none where there is no file; an unfinished last line is left out.

        After `lock` the file is open for more then. Raises DamagedJournalError, also for a file of another format;
        OSError when it cannot be read; JournalInUseError.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        records, whole = self._records(data)
        if whole < len(data):
            unfinished = len(data) - whole
            log.warning("the last line of the journal is unfinished and is cut", file=str(self.path), bytes=unfinished)
        if records is not None and self._lock is not None:
            with _closed_on_failure(os.open(self.path, os.O_WRONLY | os.O_APPEND | _SAFE)) as file:
                self._keep(file)
                os.ftruncate(file, whole)
            self._file, self.size = file, whole
        return records or []

    def _records(self, data: bytes) -> tuple[list[bytes] | None, int]:
        """Return a file's records, None where it is empty, and the bytes of whole lines."""
        *lines, cut = data.split(b"\n")
        if not lines:
            if cut:
                raise DamagedJournalError("it does not begin as a journal")
            return None, 0
        first = _record(lines[0], 1)
        if first != self._header:
            header = first[:40].decode(errors="replace")
            raise DamagedJournalError(f"it is of another format: {header!r} instead of {self._header.decode()!r}")
        return [_record(line, number) for number, line in enumerate(lines[1:], 2)], len(data) - len(cut)

    def set_aside(self, why: str) -> None:
        """Rename a file that cannot be used; an earlier one that was set aside is replaced."""
        aside = self.path.with_name(f"{self.path.name}.aside")
        log.error("the journal cannot be used and is set aside", file=str(self.path), why=why, set_aside=str(aside))
        self._close_file()
        try:
            self.path.replace(aside)
        except OSError as error:
            log.error("the journal could not be set aside", file=str(self.path), why=str(error))

    def rewrite(self, records: Iterable[bytes]) -> None:
        """Replace the file by one with these records alone, open for more.

        Raises JournalInUseError or OSError; then the file before stays, and is open for more if it was.
        """
        self.lock()
        data = b"".join((_line(self._header), *map(_line, records)))
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.unlink(missing_ok=True)
        with _closed_on_failure(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | _SAFE, 0o600)
        ) as file:
            try:
                self._keep(file)
                view = memoryview(data)
                while view:
                    view = view[os.write(file, view) :]
                beside.replace(self.path)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
        self._close_file()
        self._file, self.size = file, len(data)

    def append(self, *records: bytes) -> int:
        """Add records to the open file and return their bytes; they are in the kernel's hands then.

        Raises OSError; then the file is outdated: `remove` it.
        """
        assert self._file is not None, "rewrite opens it"
        data = _line(records[0]) if len(records) == 1 else b"".join(map(_line, records))
        if os.write(self._file, data) != len(data):
            raise OSError("no room left")
        self.size += len(data)
        return len(data)

    def remove(self) -> None:
        """Close and delete the file, since it says what is not true any more. Raises OSError."""
        self._close_file()
        self.path.unlink(missing_ok=True)

    def close(self, *, sync: bool = False) -> None:
        """Close the file and give up the lock; sync: write the file to the disk before."""
        if self._file is not None and sync:
            os.fsync(self._file)
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@contextlib.contextmanager
def _closed_on_failure(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _line(record: bytes) -> bytes:
    return b"%08x %b\n" % (crc32(record), record)


def _record(line: bytes, number: int) -> bytes:
    checksum, _, record = line.partition(b" ")
    if checksum != b"%08x" % crc32(record):
        raise DamagedJournalError(f"line {number} is damaged, or not of a journal")
    return record
