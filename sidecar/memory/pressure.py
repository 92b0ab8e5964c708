"""Reads a node's memory pressure: free memory, stalls (PSI), and the use of the containers' own group.

One reading takes some tens of microseconds. A figure that cannot be read is None; the reason is in `blind`, and is
logged once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from quicksilver.common.process.logs import get_logger
from sidecar.resizer.cgroup.files import keyed, read_or_none

log = get_logger(__name__)
_MB: Final = 2**20
_UNLIMITED: Final = 2**62
"""cgroup v1 says "no limit" with the largest number of pages in bytes."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """A node at one moment."""

    total_mb: int
    free_mb: int
    """MemAvailable: free memory, and memory that the kernel can reclaim at once."""
    swap_free_mb: int
    memory_stall_ratio: float | None
    """Part of the last 10 s in which all runnable tasks waited for memory; None if the kernel does not report it."""
    cpu_stall_ratio: float | None
    """Part of the last 10 s in which some task waited for a CPU."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """Memory of a group and of the groups inside it."""

    used_mb: int
    limit_mb: int | None
    """None without a limit."""
    room_mb: int | None
    """Memory that is still available; idle page cache counts as free."""


class Gauge:
    """Reads one machine's /proc."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._pressure = proc / "pressure"
        self._faults: dict[str, str] = {}

    @property
    def blind(self) -> str:
        """Why stalls cannot be read; "" while they can."""
        return next(iter(self._faults.values()), "")

    def read(self) -> Pressure:
        """Return the node as it is now."""
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        return Pressure(
            total_mb=memory.total // _MB,
            free_mb=memory.available // _MB,
            swap_free_mb=swap.free // _MB,
            memory_stall_ratio=self._stall("memory", "full"),
            cpu_stall_ratio=self._stall("cpu", "some"),
        )

    def _stall(self, name: str, line: str) -> float | None:
        path = self._pressure / name
        try:
            ratio = stall_ratio(path.read_text(encoding="ascii"), line)
        except FileNotFoundError:
            why = f"{path} is not there (the kernel needs CONFIG_PSI, 4.20 or later)"
        except OSError as error:
            why = f"{path} cannot be read: {error.strerror or error} (the kernel may need psi=1)"
        except ValueError as error:
            why = f"{path} is not understood: {error}"
        else:
            self._faults.pop(name, None)
            return ratio
        if not self._faults:
            log.warning(f"{why}: stalls are not seen, free memory alone counts")
        self._faults[name] = why
        return None


def stall_ratio(text: str, line: str) -> float:
    """Return avg10 of a line (some, full) of a PSI file, within 0..1. Raises ValueError for anything else."""
    for words in (row.split() for row in text.splitlines()):
        if words[:1] == [line]:
            fields = dict(word.partition("=")[::2] for word in words[1:])
            try:
                ratio = float(fields["avg10"]) / 100
            except (KeyError, ValueError) as error:
                raise ValueError(f"no avg10 in {' '.join(words)!r}") from error
            if not 0 <= ratio <= 1:
                raise ValueError(f"avg10 is no percentage in {' '.join(words)!r}")
            return ratio
    raise ValueError(f"no line {line!r} in {text[:80]!r}")


def group_memory(group: Path) -> GroupMemory | None:
    """Return the memory of a group, cgroup v1 or v2; None when it is gone or is no memory group.

    Raises ResizeRefusedError where its files cannot be read.
    """
    texts = [read_or_none(group / name) for name in ("memory.current", "memory.max", "memory.stat")]
    idle = "inactive_file"
    if texts[0] is None:
        texts = [read_or_none(group / f"memory.{name}") for name in ("usage_in_bytes", "limit_in_bytes", "stat")]
        idle = "total_inactive_file"
    if texts[0] is None or texts[2] is None:
        return None
    used, limit = int(texts[0]), _limit(texts[1])
    free = None if limit is None else max(0, limit - used + keyed(texts[2]).get(idle, 0))
    return GroupMemory(used // _MB, None if limit is None else limit // _MB, None if free is None else free // _MB)


def _limit(text: str | None) -> int | None:
    if text is None or not text.isdigit() or int(text) >= _UNLIMITED:
        return None
    return int(text)
