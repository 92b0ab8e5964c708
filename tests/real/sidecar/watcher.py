"""Reads the real control groups of a sidecar's containers while it works, and notes what must not be for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.resizer.processes import groups_of, scan

MOUNTS = Path("/sys/fs/cgroup")
_EVERY_S = 0.02
_SCAN_EVERY = 8


@dataclass(slots=True)
class Seen:
    """What the watcher saw; times in seconds."""

    samples: int = 0
    shrunk: int = 0
    """Samples of shrunk containers."""
    most_full: int = 0
    """Queueable containers with full limits at one moment."""
    too_many_s: float = 0.0
    """The longest time in which more of them had full limits than there was room for."""
    too_many: str = ""
    strays_s: float = 0.0
    """The longest time that a process of a container was outside of its group."""
    stray: str = ""
    checked: int = 0
    """Processes found inside their groups, summed over the scans."""


@dataclass
class GroupWatcher:
    """Watches the groups below `label` in a thread; `with` starts and ends it."""

    label: str
    room: float
    guaranteed: Callable[[str], bool]
    leaders: Callable[[], dict[str, int]]
    leaving: Callable[[str], bool]
    """Whether a container is on its way out: the sidecar lets it go at once."""
    score: int
    """The oom_score_adj that the sidecar gives to queueable containers last thing when it takes them in hand."""
    seen: Seen = field(default_factory=Seen)
    error: BaseException | None = None

    def __enter__(self) -> GroupWatcher:
        self._parent = MOUNTS / "cpu" / self.label
        self._stop = threading.Event()
        self._over_since: float | None = None
        self._stray_since: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, name="group-watcher")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            while not self._stop.wait(_EVERY_S):
                self.seen.samples += 1
                quotas = self._quotas()
                self._count(quotas, time.monotonic())
                if self.seen.samples % _SCAN_EVERY == 0:
                    self._find_strays(quotas, time.monotonic())
        except BaseException as error:  # noqa: BLE001
            self.error = error  # raised in the test's thread when the watching ends

    def _quotas(self) -> dict[str, int]:
        found = {}
        for group in self._parent.glob("container_*"):
            try:
                found[group.name] = int((group / "cpu.cfs_quota_us").read_text())
            except (FileNotFoundError, OSError):
                continue  # it was removed meanwhile
        return found

    def _in_hand(self, container: str, leaders: dict[str, int]) -> bool:
        """Return whether a queueable container was attached; of guaranteed ones nothing shows it."""
        try:
            score = int(Path(f"/proc/{leaders[container]}/oom_score_adj").read_text())
        except (KeyError, FileNotFoundError, ProcessLookupError):
            return False
        return score >= self.score and not self.guaranteed(container)

    def _count(self, quotas: dict[str, int], now_s: float) -> None:
        there = [cid for cid in quotas if not self.leaving(cid)]
        taken = sum(1 for cid in there if self.guaranteed(cid))
        leaders = self.leaders()
        full = sorted(cid for cid in there if quotas[cid] < 0 and self._in_hand(cid, leaders))
        self.seen.shrunk += sum(1 for cid in there if quotas[cid] >= 0)
        self.seen.most_full = max(self.seen.most_full, len(full))
        if len(full) <= max(0.0, self.room - taken):
            self._over_since = None
            return
        self._over_since = self._over_since or now_s
        if now_s - self._over_since > self.seen.too_many_s:
            self.seen.too_many_s = now_s - self._over_since
            self.seen.too_many = f"{full} beside {taken} guaranteed ones"

    def _find_strays(self, quotas: dict[str, int], now_s: float) -> None:
        leaders = self.leaders()
        there = (cid for cid in quotas if cid in leaders and not self.leaving(cid))
        sessions = {leaders[cid]: cid for cid in there if self._in_hand(cid, leaders)}
        outside = {}
        for process in scan().values():
            container = sessions.get(process.session)
            groups = groups_of(process.pid) if container is not None and not process.over else None
            if groups is None:
                continue
            if groups["cpu"] == f"/{self.label}/{container}":
                self.seen.checked += 1
            else:
                outside[process.pid] = f"{process.pid} of {container} in {groups['cpu']}"
        self._stray_since = {pid: self._stray_since.get(pid, now_s) for pid in outside}
        for pid, since_s in self._stray_since.items():
            if now_s - since_s > self.seen.strays_s:
                self.seen.strays_s, self.seen.stray = now_s - since_s, outside[pid]
