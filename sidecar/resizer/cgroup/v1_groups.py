"""The groups of a container under cgroup v1 (the NodeManager's, or groups of our own) and their use."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.resizer.base import Leader, ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.mountinfo import Hierarchy
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from sidecar.resizer.cgroup.v1_restore import CONTROLLERS, Taken, give_back
from sidecar.resizer.processes import TICKS, anonymous_mb, family, groups_of, look, scan

PERIOD_US: Final = 100_000
SHARES: Final = 1024
FULL_QUOTA: Final = "-1"


@dataclass(slots=True)
class Attached:
    """An attached container, with the changes to undo."""

    leader: Leader
    taken: Taken
    period_us: int
    cpu_before_s: float
    known: set[int] = field(default_factory=set)
    """Processes that were seen in the group."""
    quota: str = "-1"
    shares: str | None = "1024"
    """Shares; as the quota, the value that was set last. None where they are the NodeManager's."""
    frozen: bool = False

    @property
    def own(self) -> bool:
        """Whether the groups are our own, and not the NodeManager's."""
        return bool(self.taken.back)

    def file(self, name: str) -> Path | None:
        """Return a control file by its name, e.g. cpu.shares; None without its controller."""
        group = self.taken.groups.get(name.partition(".")[0])
        return group / name if group else None

    def set_limits(self, quota: str, shares: str | None) -> None:
        """Write CFS quota and, in a group of our own, shares. Raises ResizeRefusedError."""
        group = self.taken.groups["cpu"]
        files.write(f"{group}/cpu.cfs_quota_us", quota, self.taken.container_id)
        if self.own and shares is not None:
            files.write(f"{group}/cpu.shares", shares, self.taken.container_id)
            self.shares = shares
        self.quota = quota

    def pids(self) -> list[int]:
        """Return the processes in the container's group."""
        return files.pids(self.taken.groups["cpu"])


class Groups:
    """Finds and makes groups below `parent`; `nm_hierarchy`: LinuxContainerExecutor's, None for groups of our own."""

    def __init__(self, parent: str, nm_hierarchy: str | None, memory: bool, proc: Path) -> None:
        self.parent, self.nm_hierarchy, self._proc = Path(parent.strip("/")), nm_hierarchy, proc
        self._controllers = [name for name in CONTROLLERS if memory or name != "memory"]
        self.mounts: dict[str, Hierarchy] = {}
        self._find_mounts()
        self._inner: set[Path] = set()
        """The innermost parent groups that were used."""

    def of(self, container_id: str, leader: Leader) -> Attached:
        """Return the record of a container to be attached. Raises ResizeRefusedError."""
        return self._of_nm(container_id, leader) if self.nm_hierarchy else self._of_ours(container_id, leader)

    def parents(self) -> list[str]:
        """Return the parent groups that were made, the innermost first; `sidecar.service.guardian` removes them too."""
        above = len(self.parent.parts) - 1
        return [str(group) for inner in sorted(self._inner) for group in (inner, *inner.parents[:above])]

    def cpu(self) -> Hierarchy:
        """Return the mount of the cpu controller, also one that is new. Raises ResizeRefusedError."""
        if "cpu" not in self.mounts:
            self._find_mounts()
        cpu = self.mounts.get("cpu")
        if cpu is None:
            remedy = "mount it (mount -t cgroup -o cpu,cpuacct), or use another resizer"
            raise ResizeRefusedError("", "cpu", "no cgroup v1 hierarchy has the cpu controller", remedy=remedy)
        if not cpu.writable:
            why, remedy = "it is mounted read-only", "mount it writable (Docker: --privileged)"
            raise ResizeRefusedError("", str(cpu.mount), why, remedy=remedy)
        return cpu

    def _find_mounts(self) -> None:
        by_name = hierarchies(self._proc)
        self.mounts.update({name: by_name[name] for name in self._controllers if name in by_name})

    def make(self, group: Path, container_id: str) -> bool:
        """Make a group; a new parent group weighs as much as one busy thread on each core would outside of it."""
        new = [parent for parent in group.parents[: len(self.parent.parts)] if not parent.exists()]
        try:
            created = files.make(group, container_id)
        except ResizeRefusedError as error:
            if not error.gone:
                raise
            created = files.make(group, container_id)  # another sidecar has just removed the empty parent
        for shares in (parent / "cpu.shares" for parent in new):
            if shares.exists():
                files.write(shares, str(min(SHARES * (os.cpu_count() or 1), 2**18)), container_id)
        return created

    def _of_nm(self, container_id: str, leader: Leader) -> Attached:
        """Return the NodeManager's group of a container, or Docker's group inside of it.

        Its weight is left to the NodeManager, which gives an opportunistic container the least there is, and writes
        another one when the container is promoted (AbstractCGroupsCpuResourceHandler.updateContainer).
        """
        groups: dict[str, Path] = {}
        self.cpu()
        for name, hierarchy in self.mounts.items():
            group = hierarchy.mount / (self.nm_hierarchy or "").strip("/") / container_id
            if group.is_dir():
                inner = [path for path in group.iterdir() if path.is_dir()]
                groups[name] = inner[0] if len(inner) == 1 else group
        if "cpu" not in groups:
            why = f"the NodeManager made no group of it below {self.nm_hierarchy}"
            raise ResizeRefusedError(container_id, "cpu", why, gone=look(leader.pid, self._proc) is None)
        quota = files.read(groups["cpu"] / "cpu.cfs_quota_us", container_id)
        period_us = int(files.read(groups["cpu"] / "cpu.cfs_period_us", container_id))
        was = Taken(container_id, groups, {}, quota, None, 0)
        before_s = self.cpu_s(was, leader) or 0.0
        return Attached(leader, was, period_us, before_s, quota=quota, shares=None)

    def _of_ours(self, container_id: str, leader: Leader) -> Attached:
        self.cpu()
        origins = groups_of(leader.pid, self._proc)
        if origins is None:
            raise ResizeRefusedError(container_id, f"pid {leader.pid}", "the process is gone", gone=True)
        groups: dict[str, Path] = {}
        back: dict[Path, Path] = {}
        for name, hierarchy in self.mounts.items():
            origin = hierarchy.folder(origins.get(name, "/")) if hierarchy.writable else None
            if origin is None:
                continue
            origin = self._before(origin, container_id)
            groups[name] = origin / self.parent / container_id
            back[groups[name]] = origin
        if "cpu" not in groups:
            why = f"the container's group {origins.get('cpu')} is outside of what is mounted here"
            raise ResizeRefusedError(container_id, "cpu", why, remedy="run the sidecar in the host's cgroup namespace")
        was = Taken(container_id, groups, back, "-1", str(SHARES), len(self.parent.parts))
        try:
            for group in back:
                self.make(group, container_id)
                self._inner.add(group.parent)
            container = Attached(leader, was, PERIOD_US, self.cpu_s(was, leader) or 0.0)
            container.set_limits(FULL_QUOTA, str(SHARES))
        except ResizeRefusedError:
            give_back(was)
            raise
        return container

    def _before(self, group: Path, container_id: str) -> Path:
        """Return the groups of a container before an earlier sidecar process moved it."""
        suffix = (*self.parent.parts, container_id)
        return Path(*group.parts[: -len(suffix)]) if group.parts[-len(suffix) :] == suffix else group

    def cpu_s(self, was: Taken, leader: Leader) -> float | None:
        """Return the CPU time of a container's groups, or else of its processes."""
        group = was.groups.get("cpuacct")
        if group is not None:
            text = files.read_or_none(f"{group}/cpuacct.usage")
            return int(text) / 1e9 if text else None
        return sum(p.ticks for p in family(leader, scan(self._proc), self._proc).values()) / TICKS

    def memory_mb(self, container: Attached) -> int:
        """Return the larger of what the group is charged and what its processes hold: charges do not move with them."""
        group = container.taken.groups.get("memory")
        text = files.read_or_none(group / "memory.stat") if group else None
        charged = files.keyed(text).get("total_rss", 0) / 2**20 if text else 0.0
        return round(max(charged, sum(anonymous_mb(pid, self._proc) for pid in container.pids())))
