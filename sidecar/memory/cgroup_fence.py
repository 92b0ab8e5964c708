"""Fences all containers of a node in, so that NodeManager, DataNode and sidecar beside them never starve.

The fence is made of limits on the parent groups that the resizers make (or on LinuxContainerExecutor's own): a weight
against what runs outside, a bound of memory, a bound of CPU. It only ever tightens: where somebody else set less, that
stays. At the bound of memory the kernel kills inside the fence, queueable containers first (`prefer_for_oom`).

Imports little: `undo_fence` is for `sidecar.service.guardian`.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver.common.errors import QuicksilverError
from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files

_MB: Final = 2**20
_SHARES: Final = 1024
_SHARES_RANGE: Final = (2, 2**18)
_WEIGHT: Final = 100
_WEIGHT_RANGE: Final = (1, 10_000)
_PERIOD_US: Final = 100_000
_QUOTA_MIN_US: Final = 1000
_GONE: Final = (errno.ENOENT, errno.ESRCH)


class OomScoreRefusedError(QuicksilverError):
    """Some processes did not get their score; the others did."""


@dataclass(frozen=True, slots=True)
class FenceLimits:
    """Limits of all containers together; None leaves a limit as it is."""

    daemon_cores: float | None = None
    """Minimum cores for daemons outside when all are busy."""
    cpus: int = 1
    """Cores of the machine."""
    memory_mb: int | None = None
    """Beyond it the kernel kills inside the fence."""
    high_mb: int | None = None
    """Beyond it the kernel reclaims memory and throttles allocations (cgroup v2)."""
    cores: float | None = None


@dataclass(frozen=True, slots=True)
class KeptMemory:
    """Result of a check of the fence."""

    changed: bool
    """Whether a limit was written: `undo` has more than before."""
    refused: tuple[str, ...]


def default_daemon_cores(cpus: int) -> float:
    """Return a tenth of the cores, at least half a core."""
    return max(0.5, cpus / 10)


def fence_mb(free_mb: int, inside_mb: int, keep_mb: int) -> int:
    """Return the bound of memory that leaves `keep_mb` beyond the present use outside of the fence."""
    return max(0, free_mb + inside_mb - keep_mb)


class Fence:
    """Keeps limits on parent groups; the resizers create and remove the groups themselves."""

    def __init__(self, limits: FenceLimits) -> None:
        self.limits = limits
        """May be set anew; `keep` then writes the differences. Call `lift` first when one of them is to go."""
        self._before: dict[Path, str] = {}
        self._set: dict[Path, str] = {}

    def keep(self, groups: Iterable[Path]) -> KeptMemory:
        """Tighten the limits of these groups, of any controller and version."""
        changed, refused = False, []
        for group in groups:
            for name, text in _controls(group, self.limits).items():
                try:
                    changed |= self._tighten(group / name, text)
                except ResizeRefusedError as error:
                    if not error.gone:
                        refused.append(str(error))
        return KeptMemory(changed, tuple(refused))

    def lift(self) -> None:
        """Restore the original values, unless another program has changed them.

        Raises the first ResizeRefusedError at the end.
        """
        record = self.undo()
        self._before, self._set = {}, {}
        undo_fence(record)

    def undo(self) -> dict[str, object]:
        """Return JSON for `undo_fence`."""
        limits = {str(path): [text, self._before[path]] for path, text in self._set.items()}
        return {"resizer": "fence", "limits": limits}

    def _tighten(self, path: Path, text: str) -> bool:
        now, before = files.read(path), self._before.get(path)
        if before is not None and _amount(before) < _amount(text):
            text = before
        if _same(now, text) or (_amount(now) < _amount(text) and not _same(now, self._set.get(path))):
            return False
        if path.name in ("memory.limit_in_bytes", "memory.max"):
            _check_fits(path, int(text))
        self._before.setdefault(path, now)
        files.write(path, text, "")
        self._set[path] = text
        return True


def undo_fence(record: Mapping[str, object]) -> None:
    """Take back the bounds of `Fence.undo`; missing groups are ignored. Raises the first ResizeRefusedError."""
    refusals: list[ResizeRefusedError] = []
    limits = record["limits"]
    if not isinstance(limits, dict):
        raise TypeError(f"limits is {limits!r}")
    for name, (value, before) in limits.items():
        try:
            if _same(files.read(Path(name)), value):
                files.write(Path(name), before, "")
        except ResizeRefusedError as error:
            if not error.gone:
                refusals.append(error)
    if refusals:
        raise refusals[0]


def prefer_for_oom(pids: Iterable[int], score: int, proc: Path = Path("/proc")) -> int:
    """Let the kernel kill these processes before those of a lower score when memory is out; return how many changed.

    score: of oom_score_adj, thousandths of all memory that a process counts as using beyond what it does. It is never
    lowered, and what they fork inherits it. Processes that are gone are left out. Raises OomScoreRefusedError at the
    end when some refused.
    """
    changed, refused = 0, ""
    for pid in pids:
        path = proc / str(pid) / "oom_score_adj"
        try:
            if int(path.read_text()) < score:
                path.write_text(str(score))
                changed += 1
        except OSError as error:
            if error.errno not in _GONE:
                refused = refused or f"{path}: {error.strerror or error}"
    if refused:
        raise OomScoreRefusedError(
            "the kernel may kill daemons before containers", place=refused, remedy="run the sidecar as root"
        )
    return changed


def _controls(group: Path, limits: FenceLimits) -> dict[str, str]:
    """Return the control files that this group has, with the values to write."""
    texts: dict[str, str] = {}
    if limits.daemon_cores is not None:
        ratio = (limits.cpus - limits.daemon_cores) / limits.daemon_cores
        texts["cpu.shares"] = _within(_SHARES * ratio, _SHARES_RANGE)
        texts["cpu.weight"] = _within(_WEIGHT * ratio, _WEIGHT_RANGE)
    if limits.cores is not None:
        quota = max(_QUOTA_MIN_US, round(limits.cores * _PERIOD_US))
        texts["cpu.max"] = f"{quota} {_PERIOD_US}"
        period = files.read_or_none(group / "cpu.cfs_period_us")
        if period is not None:
            texts["cpu.cfs_quota_us"] = str(max(_QUOTA_MIN_US, round(limits.cores * int(period))))
    if limits.memory_mb is not None:
        texts["memory.limit_in_bytes"] = texts["memory.max"] = str(limits.memory_mb * _MB)
    if limits.high_mb is not None:
        texts["memory.high"] = str(limits.high_mb * _MB)
    return {name: text for name, text in texts.items() if (group / name).exists()}


def _within(amount: float, bounds: tuple[int, int]) -> str:
    return str(min(max(round(amount), bounds[0]), bounds[1]))


def _amount(text: str) -> float:
    """Return the amount that a limit allows; a quota of cpu.max as a part of its period."""
    words = text.split()
    if words[0] in ("max", "-1"):
        return math.inf
    return int(words[0]) / int(words[1]) if len(words) == 2 else int(words[0])


def _same(text: str, value: str | None) -> bool:
    return value is not None and text.split() == value.split()


def _check_fits(path: Path, limit: int) -> None:
    """Refuse a bound of memory below what is used, page cache aside: it would kill at once, or fail after a while."""
    v2 = path.name == "memory.max"
    used = files.read(path.with_name("memory.current" if v2 else "memory.usage_in_bytes"))
    stat = files.keyed(files.read(path.with_name("memory.stat")))
    cache = sum(stat.get(f"{'' if v2 else 'total_'}{kind}_file", 0) for kind in ("active", "inactive"))
    held_mb, limit_mb = (int(used) - cache) // _MB, limit // _MB
    if held_mb >= limit_mb:
        why = f"the containers hold {held_mb} MB, the bound would be {limit_mb} MB"
        raise ResizeRefusedError("", str(path), why, remedy="it is tried again; let the fence keep less free")
