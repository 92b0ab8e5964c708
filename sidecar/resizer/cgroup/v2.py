"""Resizes by cgroup v2: cpu.max and cpu.weight, cgroup.freeze, accounting by cpu.stat and memory.stat.

Own groups are MOUNT/PARENT/CONTAINER_ID. A group with processes cannot have groups with limits inside (the rule of no
internal processes, cgroup-v2.rst), so they are not below the NodeManager's group: limits of its service do not hold
for them, those of a slice do when `parent` is inside it. Under LinuxContainerExecutor the NodeManager's own group gets
the quota, which bounds Docker's group in it too, and no process is moved. A frozen container can be killed.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.resizer.attached import AttachedTable, detach_all
from sidecar.resizer.base import ContainerUsage, Leader, Resizer, ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.v1_restore import ATTEMPT, Undo
from sidecar.resizer.cgroup.v2_members import Attached, Members
from sidecar.resizer.cgroup.v2_mount import below, make_parent, unified
from sidecar.resizer.cgroup.v2_restore import FULL, Taken, give_back, undo_cgroup2
from sidecar.resizer.processes import PROC, anonymous_mb, look

__all__ = ["Cgroup2", "undo_cgroup2"]

QUOTA_MIN_US: Final = 1000
_PERIOD_US: Final = 100_000
_WEIGHT_MIN, _WEIGHT, _WEIGHT_MAX = 1, 100, 10_000
_FROZEN_WITHIN_S: Final = 0.5
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_CPU_OFF: Final = "set yarn.nodemanager.resource.cpu.enabled, and let +cpu reach the NodeManager's hierarchy"


class Cgroup2(Resizer):
    """Cgroup v2; `nm_hierarchy` is LinuxContainerExecutor's, e.g. /hadoop-yarn, None for groups of our own.

    `parent` may have levels (quicksilver/node1): each sidecar of a machine needs its own. One that begins with / is
    somebody else's as far as it exists, e.g. a systemd slice: only what is made here is removed. `high_ratio` bounds
    the memory of a shrunk container to this part of what it holds (memory.high: it is throttled and pushed out above),
    `reclaim_ratio` asks once for this part back; 0 leaves memory alone, which is the default, because both take time.
    """

    name = "cgroup2"
    pauses_only = False

    def __init__(
        self,
        parent: str = "quicksilver",
        nm_hierarchy: str | None = None,
        memory: bool = True,
        proc: Path = PROC,
        *,
        high_ratio: float = 0.0,
        reclaim_ratio: float = 0.0,
    ) -> None:
        self._proc, self._memory, self.nm_hierarchy = proc, memory, nm_hierarchy
        self._where = unified(proc)
        self.mount = self._where.mount
        self.parent = below(self.mount, parent)
        levels = [self.parent, *self.parent.parents][: len(self.parent.relative_to(self.mount).parts)]
        self._levels = [level for level in levels if not parent.startswith("/") or not level.exists()]
        self._members = Members(self._where, self.parent, proc)
        self.high_ratio, self.reclaim_ratio = high_ratio, reclaim_ratio
        self.slow = bool(high_ratio or reclaim_ratio)
        self.without_memory = ""
        """Why memory is not accounted by group, "" when it is."""
        self._containers = AttachedTable[Attached](self.name)

    def attempt(self) -> None:
        """Make a group, write a quota, remove it. Raises ResizeRefusedError when something of it is refused."""
        if self.nm_hierarchy:
            top = below(self.mount, self.nm_hierarchy)
            files.read(top / "cgroup.procs", "")
            if "cpu" not in files.read(top / "cgroup.controllers", "").split():
                raise ResizeRefusedError("", str(top), "the cpu controller does not reach it", remedy=_CPU_OFF)
            return
        group = self.parent / f"{ATTEMPT}{os.getpid()}"
        try:
            self._make(group, "")
            files.write(group / "cpu.max", f"{QUOTA_MIN_US} {_PERIOD_US}", "")
        finally:
            files.remove_empty([group, *self._levels])

    is_mounted = True
    """There is none without the mount."""

    def missing(self) -> str:
        """Return why the NodeManager's groups cannot be resized yet, "" when they can."""
        top = below(self.mount, self.nm_hierarchy) if self.nm_hierarchy else self.mount
        return "" if top.is_dir() else f"the NodeManager has not made {top} yet"

    def attach(self, container_id: str, leader: Leader) -> None:  # noqa: D102
        container = self._containers.get(container_id)
        if container is not None and container.leader == leader:
            self._members.catch(container_id, container)
            return
        container = self._of_nm(container_id, leader) if self.nm_hierarchy else self._of_ours(container_id, leader)
        try:
            self._members.catch(container_id, container)
        except ResizeRefusedError:
            give_back(container.taken)
            raise
        self._containers[container_id] = container

    def shrink(self, container_id: str, cores: float) -> None:  # noqa: D102
        container = self._containers[container_id]
        period_us = int(container.taken.limits["cpu.max"].split()[1])
        limits = {"cpu.max": f"{max(QUOTA_MIN_US, round(cores * period_us))} {period_us}"}
        if "cpu.weight" in container.taken.limits:
            limits["cpu.weight"] = str(max(_WEIGHT_MIN, min(_WEIGHT_MAX, round(_WEIGHT * cores))))
        used = self._bytes(container) if self.slow else 0
        if self.high_ratio and used and "memory.high" in container.taken.limits:
            limits["memory.high"] = str(round(used * self.high_ratio) // _PAGE * _PAGE)
        self._limit(container_id, container, limits)
        self._thaw(container_id, container)
        if self.reclaim_ratio and used:
            self._reclaim(container_id, container, round(used * self.reclaim_ratio))

    def freeze(self, container_id: str) -> None:  # noqa: D102
        container = self._containers[container_id]
        files.write(container.group / "cgroup.freeze", "1", container_id)
        container.frozen = True
        until = time.monotonic() + _FROZEN_WITHIN_S
        while not files.keyed(files.read(container.group / "cgroup.events", container_id)).get("frozen"):
            if time.monotonic() > until:
                self._thaw(container_id, container)
                why = f"not frozen after {_FROZEN_WITHIN_S} s"
                raise ResizeRefusedError(container_id, str(container.group / "cgroup.freeze"), why)
            time.sleep(0.001)

    def restore(self, container_id: str) -> None:  # noqa: D102
        container = self._containers[container_id]
        self._limit(container_id, container, container.taken.limits)
        self._thaw(container_id, container)

    def holds(self, container_id: str) -> bool:  # noqa: D102
        container = self._containers.get(container_id)
        if container is None:
            return False
        now = {name: files.read_or_none(container.group / name) for name in container.limits}
        frozen = files.read_or_none(container.group / "cgroup.freeze") == "1"
        return now == container.limits and frozen == container.frozen and not self._members.escaped(container)

    def reassert(self, container_id: str) -> None:
        """Write the last limits again, and attach escaped processes.

        Values that the NodeManager wrote into its own group are the ones to restore later.
        """
        container = self._containers[container_id]
        if container.taken.origin is None:
            now = {name: files.read(container.group / name, container_id) for name in container.limits}
            anew = {name: text for name, text in now.items() if text != container.limits[name]}
            for name in anew:
                if container.limits[name] == container.taken.limits[name]:
                    container.limits[name] = anew[name]  # nothing is shrunk
            container.taken = container.taken._replace(limits={**container.taken.limits, **anew})
        self._members.catch(container_id, container)
        self._limit(container_id, container, container.limits)
        if container.frozen:
            self.freeze(container_id)
        else:
            files.write(container.group / "cgroup.freeze", "0", container_id)

    def usage(self, container_id: str) -> ContainerUsage:  # noqa: D102
        container = self._containers.get(container_id)
        cpu_s = self._cpu_s(container.group) if container else None
        if container is None or cpu_s is None:
            return ContainerUsage(None, None)
        stat = files.read_or_none(container.group / "memory.stat") or ""
        charged = files.keyed(stat).get("anon", 0) / 2**20
        pids = files.pids(container.group)
        own = sum(anonymous_mb(pid, self._proc) for pid in pids)  # charges do not move with processes
        return ContainerUsage(cpu_s - container.cpu_before_s, round(max(charged, own)))

    def pressure(self, container_id: str) -> dict[str, float]:
        """Return which part of the last 10 s was lost waiting: cpu_some, memory_some, memory_full (PSI).

        Figures that the kernel does not report are left out.
        """
        container = self._containers.get(container_id)
        lost: dict[str, float] = {}
        for resource, kinds in (("cpu", ("some",)), ("memory", ("some", "full"))) if container else ():
            for line in self._stalls(container.group / f"{resource}.pressure") if container else ():
                kind, _, rest = line.partition(" avg10=")
                if kind in kinds:
                    lost[f"{resource}_{kind}"] = float(rest.split()[0]) / 100
        return lost

    def detach(self, container_id: str) -> None:  # noqa: D102
        container = self._containers.get(container_id)
        if container is not None:
            give_back(container.taken)
            del self._containers[container_id]

    def undo(self, container_id: str) -> Undo:  # noqa: D102
        return self._containers[container_id].taken.undo()

    def parents(self) -> list[str]:
        """Return the parent groups that are ours, the innermost first; `sidecar.service.guardian` removes them too."""
        return [] if self.nm_hierarchy else [str(level) for level in self._levels]

    def close(self) -> None:
        """Detach everything; empty parent groups are removed. Raises the last ResizeRefusedError."""
        try:
            detach_all(self, self._containers)
        finally:
            files.remove_empty(Path(group) for group in self.parents())

    def _of_nm(self, container_id: str, leader: Leader) -> Attached:
        group = below(self.mount, self.nm_hierarchy or "") / container_id
        ended = look(leader.pid, self._proc) is None
        if not group.is_dir():
            why = f"the NodeManager made no group of it below {self.nm_hierarchy}"
            raise ResizeRefusedError(container_id, str(group), why, gone=ended)
        if not (group / "cpu.max").exists():
            raise ResizeRefusedError(container_id, str(group), "no cpu controller", remedy=_CPU_OFF, gone=ended)
        limits = {name: text for name in FULL if (text := files.read_or_none(group / name)) is not None}
        limits.pop("cpu.weight", None)  # the NodeManager's alone: see `v1_groups.Groups`
        if not self.high_ratio:
            limits.pop("memory.high", None)
        was = Taken(container_id, self.mount, group, None, limits, 0)
        return Attached(leader, was, self._cpu_s(group) or 0.0, limits=dict(limits))

    def _of_ours(self, container_id: str, leader: Leader) -> Attached:
        origin = self._members.origin(container_id, leader.pid)
        group = self.parent / container_id
        self._make(group, container_id)
        limits = {name: text for name, text in FULL.items() if (group / name).exists()}
        limits["cpu.max"] = f"max {_PERIOD_US}"
        was = Taken(container_id, self.mount, group, origin, limits, len(self._levels))
        container = Attached(leader, was, self._cpu_s(group) or 0.0)
        try:
            self._limit(container_id, container, limits)
        except ResizeRefusedError:
            give_back(was)
            raise
        return container

    def _make(self, group: Path, container_id: str) -> None:
        for again in (True, False):
            try:
                self.without_memory = make_parent(self.mount, self.parent, self._memory, container_id)
                files.make(group, container_id)
                return
            except ResizeRefusedError as error:
                if not (again and error.gone):  # another sidecar may just have removed the empty parent
                    files.remove_empty(self._levels)
                    raise

    def _limit(self, container_id: str, container: Attached, limits: Mapping[str, str]) -> None:
        """Write all of `limits`; when one is refused, those before it get their old values back."""
        before: dict[str, str] = {}
        try:
            for name, text in limits.items():
                files.write(container.group / name, text, container_id)
                before[name] = container.limits.get(name, container.taken.limits[name])
        except ResizeRefusedError as error:
            for name, text in before.items() if not error.gone else ():
                files.write(container.group / name, text, container_id)
            raise
        container.limits.update(limits)

    def _thaw(self, container_id: str, container: Attached) -> None:
        if container.frozen:
            files.write(container.group / "cgroup.freeze", "0", container_id)
            container.frozen = False

    @staticmethod
    def _cpu_s(group: Path) -> float | None:
        text = files.read_or_none(group / "cpu.stat")
        return files.keyed(text)["usage_usec"] / 1e6 if text else None

    @staticmethod
    def _bytes(container: Attached) -> int:
        return int(files.read_or_none(container.group / "memory.current") or 0)

    @staticmethod
    def _reclaim(container_id: str, container: Attached, size_bytes: int) -> None:
        """Ask the kernel to reclaim memory; finding less, or a kernel before 5.19 without this file, is no error."""
        try:
            files.write(container.group / "memory.reclaim", str(size_bytes), container_id)
        except ResizeRefusedError as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in (errno.EAGAIN, errno.ENOENT):
                raise

    @staticmethod
    def _stalls(path: Path) -> list[str]:
        try:
            return (files.read_or_none(path) or "").splitlines()
        except ResizeRefusedError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EOPNOTSUPP:
                return []  # PSI is off
            raise
