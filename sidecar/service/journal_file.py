"""The sidecar's journal on disk: written before any dependent message leaves, read by the next process.

Without fsync: a process that is killed loses nothing, because the kernel has the lines; a machine that loses power has
lost its containers as well. A full disk stops nothing: while the journal cannot be rewritten, it is appended to; when
that fails, it is outdated and removed, until the disk has space again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from quicksilver.common.process.journal_file import DamagedJournalError, JournalFile, JournalInUseError
from quicksilver.common.process.logs import get_logger
from sidecar.node.journal_records import BadJournalError, MemoryRecord, read

log = get_logger(__name__)
SYSTEM_DIRS: Final = (Path("/var/lib/quicksilver/sidecar"), Path("/var/lib/quicksilver"))
_FORM: Final = "sidecar 1"
_GROWN: Final = 4
_LEAST_BYTES: Final = 256 * 1024


def default_state_dir() -> Path | None:
    """Return the first of the system's directories that exists and is writable; None: there is no journal."""
    return next((folder for folder in SYSTEM_DIRS if os.access(folder, os.W_OK)), None)


class Journal:
    """One file of mode 0600; `anew` yields all lines of the present state."""

    def __init__(self, path: Path, anew: Callable[[], Iterable[str]]) -> None:
        self.path = path
        self._file = JournalFile(path, form=_FORM, setting="sidecar.state_dir")
        self.failures = 0
        """Number of failed writes."""
        self.why = ""
        """Why nothing is stored now; "" while everything is."""
        self._anew = anew
        self._limit_bytes = _LEAST_BYTES
        self._unread = ""
        """Why the previous process's file was not read; it is set aside then."""

    def recall(self, node: str) -> MemoryRecord | None:
        """Return the state that the previous process left; None when there is none of this node.

        A file that cannot be parsed is set aside. Raises JournalInUseError when another process uses it.
        """
        try:
            self._file.lock()
            records = self._file.read()
            if not records:
                return None
            memory = read("".join(f"{record.decode()}\n" for record in records))
        except OSError as error:
            self._unread = str(error)
            self._failed(error)
            return None
        except (DamagedJournalError, UnicodeDecodeError, BadJournalError) as error:
            self._file.set_aside(str(error))
            return None
        if memory.node != node:
            self._file.set_aside(f"it is of {memory.node}, this node is {node}")
            return None
        return memory

    def write(self, lines: Sequence[str]) -> None:
        """Append lines; regularly the file is rewritten first, so that it stays small."""
        if not lines:
            return
        if not self._file.is_open or self._file.size > self._limit_bytes:
            self.renew()
        if not self._file.is_open:
            return
        try:
            self._file.append(*(line.encode() for line in lines))
        except OSError as error:
            self._failed(error)
            self._remove()

    def renew(self) -> None:
        """Rewrite the whole file; where that fails, the file before is appended to."""
        try:
            if self._unread:
                self._file.lock()
                self._file.set_aside(self._unread)
                self._unread = ""
            self._file.rewrite(line.encode() for line in self._anew())
        except (OSError, JournalInUseError) as error:
            if self._file.is_open:
                self.failures += 1
                self._limit_bytes = self._file.size + _LEAST_BYTES
                log.warning("the journal cannot be rewritten: it grows", file=str(self.path), why=str(error))
            else:
                self._failed(error)
            return
        if self.why:
            log.info("the journal is written again", file=str(self.path), failures=self.failures)
        self.why = ""
        self._limit_bytes = max(_LEAST_BYTES, _GROWN * self._file.size)

    def _remove(self) -> None:
        """Remove the file: it is outdated, and a sidecar that trusted it would do harm."""
        try:
            self._file.remove()
        except OSError as cannot:
            log.error("the outdated journal cannot be removed", file=str(self.path), why=str(cannot))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _failed(self, error: OSError | JournalInUseError) -> None:
        self.failures += 1
        if not self.why:
            text = "the journal cannot be written: a sidecar that dies now forgets its held starts"
            log.error(text, file=str(self.path), why=str(error))
        self.why = f"{self.path}: {getattr(error, 'strerror', None) or error}"
