"""Resizes by cgroup v1: CFS quota and shares of the cpu controller, the freezer, accounting by cpuacct and memory.

Own groups are GROUP/PARENT/CONTAINER_ID, below the group that the container came from, so that limits of a service
still hold. Under LinuxContainerExecutor with cgroups the NodeManager's own group gets the quota, and no process is
moved: the NodeManager could not remove its group otherwise, and counts what is in it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from sidecar.resizer.attached import AttachedTable, detach_all
from sidecar.resizer.base import ContainerUsage, Leader, Resizer, ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.v1_groups import SHARES, Attached, Groups
from sidecar.resizer.cgroup.v1_members import Members
from sidecar.resizer.cgroup.v1_restore import ATTEMPT, Undo, give_back
from sidecar.resizer.processes import PROC

QUOTA_MIN_US: Final = 1000
"""The kernel takes no less (Documentation/scheduler/sched-bwc)."""
_SHARES_MIN: Final = 2
_FROZEN_WITHIN_S: Final = 0.25


class Cgroup1(Resizer):
    """Cgroup v1; `nm_hierarchy` is LinuxContainerExecutor's, e.g. /hadoop-yarn, None for groups of our own.

    `parent` may have levels (quicksilver/node1): each sidecar of a machine needs its own.
    """

    name = "cgroup1"
    slow = False
    pauses_only = False

    def __init__(
        self, parent: str = "quicksilver", nm_hierarchy: str | None = None, memory: bool = True, proc: Path = PROC
    ) -> None:
        self._groups = Groups(parent, nm_hierarchy, memory, proc)
        self._members = Members(self._groups.mounts, proc)
        self.parent, self.nm_hierarchy = self._groups.parent, nm_hierarchy
        self._containers = AttachedTable[Attached](self.name)

    def attempt(self) -> None:
        """Make a group, write a quota, remove it. Raises ResizeRefusedError when something of it is refused."""
        cpu = self._groups.cpu()
        top = cpu.mount / self.nm_hierarchy.strip("/") if self.nm_hierarchy else cpu.mount / self.parent
        if self.nm_hierarchy:
            quota = files.read(top / "cpu.cfs_quota_us")
            files.write(top / "cpu.cfs_quota_us", quota, "")
            return
        group = top / f"{ATTEMPT}{os.getpid()}"
        created = self._groups.make(group, "")
        try:
            files.write(group / "cpu.cfs_quota_us", str(QUOTA_MIN_US), "")
        finally:
            files.remove_empty([group, *group.parents[: len(self.parent.parts)]] if created else [])

    @property
    def is_mounted(self) -> bool:
        """Whether a hierarchy with the cpu controller is mounted."""
        return "cpu" in self._groups.mounts

    def missing(self) -> str:
        """Return why the NodeManager's groups cannot be resized yet, "" when they can."""
        if self.nm_hierarchy is None:
            return ""
        try:
            top = self._groups.cpu().mount / self.nm_hierarchy.strip("/")
        except ResizeRefusedError as error:
            return str(error)
        return "" if top.is_dir() else f"the NodeManager has not made {top} yet"

    def attach(self, container_id: str, leader: Leader) -> None:  # noqa: D102
        container = self._containers.get(container_id)
        if container is not None and container.leader == leader:
            self.reassert(container_id)
            return
        container = self._groups.of(container_id, leader)
        try:
            self._members.catch(container_id, container)
        except ResizeRefusedError:
            give_back(container.taken)
            raise
        self._containers[container_id] = container

    def shrink(self, container_id: str, cores: float) -> None:  # noqa: D102
        container = self._containers[container_id]
        self._thaw(container_id, container)
        quota = str(max(QUOTA_MIN_US, round(cores * container.period_us)))
        container.set_limits(quota, str(max(_SHARES_MIN, round(SHARES * cores))))

    def freeze(self, container_id: str) -> None:  # noqa: D102
        container = self._containers[container_id]
        path = container.file("freezer.state")
        if path is None:
            why = "this container has no group of the freezer controller"
            raise ResizeRefusedError(container_id, "freezer.state", why, remedy="preempt with las, which shrinks")
        files.write(path, "FROZEN", container_id)
        container.frozen = True
        until = time.monotonic() + _FROZEN_WITHIN_S
        while (state := files.read(path, container_id)) != "FROZEN":
            if time.monotonic() > until:
                self._thaw(container_id, container)
                raise ResizeRefusedError(container_id, str(path), f"still {state} after {_FROZEN_WITHIN_S} s")
            time.sleep(0.001)

    def restore(self, container_id: str) -> None:  # noqa: D102
        container = self._containers[container_id]
        self._thaw(container_id, container)
        container.set_limits(container.taken.quota, container.taken.shares)

    def holds(self, container_id: str) -> bool:  # noqa: D102
        container = self._containers.get(container_id)
        if container is None:
            return False
        inside = set(container.pids())
        return (
            self._as_set(container)
            and not self._members.escaped(container, inside)
            and not self._members.being_killed(container, inside)
        )

    def reassert(self, container_id: str) -> None:
        """Write the last limits again, and attach escaped processes.

        A frozen container that is being killed is thawed instead, because it could not die otherwise, and refused as
        gone. Values that the NodeManager wrote into its own group are the ones to restore later.
        """
        container = self._containers[container_id]
        if self._members.being_killed(container, set(container.pids())):
            self._thaw(container_id, container)
            raise ResizeRefusedError(container_id, "freezer.state", "the container is being killed", gone=True)
        if not container.own:
            self._follow(container)
        for group in container.taken.back:
            self._groups.make(group, container_id)  # it may have been removed
        self._members.catch(container_id, container)
        container.set_limits(container.quota, container.shares)
        if container.frozen:
            self.freeze(container_id)

    def usage(self, container_id: str) -> ContainerUsage:  # noqa: D102
        container = self._containers.get(container_id)
        if container is None or not container.taken.groups["cpu"].is_dir():
            return ContainerUsage(None, None)
        return ContainerUsage(self.cpu_s(container_id), self._groups.memory_mb(container))

    def cpu_s(self, container_id: str) -> float | None:
        """Return the CPU part of `usage` alone, which reads fewer files."""
        container = self._containers.get(container_id)
        cpu_s = self._groups.cpu_s(container.taken, container.leader) if container is not None else None
        return None if container is None or cpu_s is None else cpu_s - container.cpu_before_s

    def detach(self, container_id: str) -> None:  # noqa: D102
        container = self._containers.get(container_id)
        if container is not None:
            give_back(container.taken)
            del self._containers[container_id]

    def undo(self, container_id: str) -> Undo:  # noqa: D102
        return self._containers[container_id].taken.undo()

    def parents(self) -> list[str]:
        """Return the created parent groups, the innermost first; `sidecar.service.guardian` removes them too."""
        return self._groups.parents()

    def close(self) -> None:
        """Detach everything; empty parent groups are removed. Raises the last ResizeRefusedError."""
        try:
            detach_all(self, self._containers)
        finally:
            files.remove_empty(Path(group) for group in self.parents())

    def _thaw(self, container_id: str, container: Attached) -> None:
        if container.frozen and (path := container.file("freezer.state")) is not None:
            files.write(path, "THAWED", container_id)
            container.frozen = False

    @staticmethod
    def _follow(container: Attached) -> None:
        """Take a quota that the NodeManager wrote into its group as the one to restore later."""
        quota = files.read_or_none(container.taken.groups["cpu"] / "cpu.cfs_quota_us")
        if quota is None or quota == container.quota:
            return
        if container.quota == container.taken.quota:
            container.quota = quota  # nothing is shrunk
        container.taken = container.taken._replace(quota=quota)

    def _as_set(self, container: Attached) -> bool:
        group = container.taken.groups["cpu"]
        if files.read_or_none(group / "cpu.cfs_quota_us") != container.quota:
            return False
        if container.own and files.read_or_none(group / "cpu.shares") != container.shares:
            return False
        path = container.file("freezer.state")
        return path is None or files.read_or_none(path) == ("FROZEN" if container.frozen else "THAWED")
