"""The sidecar's journal on disk: written before anything leaves that rests on it, read by the next life.

Without fsync: a process that is killed loses nothing, because the kernel has the lines; a machine that loses power has
lost its containers as well. A disk that takes nothing stops nobody: the journal is written anew when it takes again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from quicksilver.common.process.logs import get_logger
from sidecar.node.journal_records import BadJournalError, Memory, read

log = get_logger(__name__)
SYSTEM_DIR: Final = Path("/var/lib/quicksilver")
_GROWN: Final = 4
_LEAST_BYTES: Final = 256 * 1024


def default_state_dir() -> Path | None:
    """Return the system's directory where it is there and writable; None: nothing is kept."""
    return SYSTEM_DIR if SYSTEM_DIR.is_dir() and os.access(SYSTEM_DIR, os.W_OK) else None


class Journal:
    """One file of mode 0600; `anew` yields all lines that say how things stand now."""

    def __init__(self, path: Path, anew: Callable[[], Iterable[str]]) -> None:
        self.path = path
        self.failures = 0
        """Writes that failed."""
        self.why = ""
        """Why nothing is kept now; "" while all is."""
        self._anew = anew
        self._fd = -1
        self._bytes = 0
        self._limit_bytes = _LEAST_BYTES

    def recall(self, node: str) -> Memory | None:
        """Return what the life before left; None when there is nothing of this node.

        What cannot be understood is set aside.
        """
        try:
            memory = read(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, BadJournalError) as error:
            self._set_aside(str(error))
            return None
        if memory.node != node:
            self._set_aside(f"it is of {memory.node}, this node is {node}")
            return None
        return memory

    def write(self, lines: Sequence[str]) -> None:
        """Append lines; in time everything is written anew first, so that the file stays small."""
        if not lines:
            return
        if self.why or self._fd < 0 or self._bytes > self._limit_bytes:
            self.renew()
            if self.why:
                return
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            if os.write(self._fd, data) != len(data):
                raise OSError("a part of it was written: the disk is full")
        except OSError as error:
            self._failed(error)
            return
        self._bytes += len(data)

    def renew(self) -> None:
        """Write everything anew, beside the old file, and take that one's place."""
        data = "".join(f"{line}\n" for line in self._anew()).encode()
        beside = self.path.with_name(f"{self.path.name}.new")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside.unlink(missing_ok=True)
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                if os.write(fd, data) != len(data):
                    raise OSError("a part of it was written: the disk is full")
                beside.rename(self.path)
            except OSError:
                os.close(fd)
                raise
        except OSError as error:
            self._failed(error)
            return
        self.close()
        if self.why:
            log.info("the journal is kept again", file=str(self.path), failures=self.failures)
        self._fd, self._bytes, self.why = fd, len(data), ""
        self._limit_bytes = max(_LEAST_BYTES, _GROWN * len(data))

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _failed(self, error: OSError) -> None:
        self.failures += 1
        if not self.why:
            text = "the journal cannot be written: a sidecar that dies now forgets what it held"
            log.error(text, file=str(self.path), why=str(error))
        self.why = f"{self.path}: {error.strerror or error}"

    def _set_aside(self, why: str) -> None:
        aside = self.path.with_name(f"{self.path.name}.bad")
        log.error("the journal is not understood: it is set aside", file=str(self.path), kept_as=str(aside), why=why)
        try:
            self.path.rename(aside)
        except OSError as error:
            log.error("the journal could not be set aside", file=str(self.path), why=str(error))
