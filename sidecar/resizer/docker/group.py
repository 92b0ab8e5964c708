"""The cgroup of a Docker container, read directly: microseconds, where the Engine's own statistics take a second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.resizer.cgroup.files import keyed, read_or_none
from sidecar.resizer.cgroup.mountinfo import mounts
from sidecar.resizer.processes import PROC, groups_of

NO_LIMIT: Final = -1


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """Folders of a container's group: one per controller on cgroup v1, the same for all on v2."""

    v2: bool
    cpu: Path
    cpuacct: Path
    memory: Path | None
    freezer: Path | None

    def quota_us(self) -> int | None:
        """Return the CPU quota, -1 for none; None when the group is gone."""
        text = read_or_none(self.cpu / ("cpu.max" if self.v2 else "cpu.cfs_quota_us"))
        if text is None:
            return None
        word = text.split()[0]
        return NO_LIMIT if word == "max" else int(word)

    def shares(self) -> int | None:
        """Return the CPU shares; None on cgroup v2 and when the group is gone."""
        text = None if self.v2 else read_or_none(self.cpu / "cpu.shares")
        return int(text) if text else None

    def frozen(self) -> bool | None:
        """Return whether the group is set to be frozen; None when it is gone or has no freezer."""
        if self.freezer is None:
            return None
        text = read_or_none(self.freezer / ("cgroup.freeze" if self.v2 else "freezer.state"))
        return None if text is None else text in ("1", "FROZEN", "FREEZING")

    def cpu_s(self) -> float | None:
        """Return the CPU seconds used so far; None when the group is gone."""
        text = read_or_none(self.cpuacct / ("cpu.stat" if self.v2 else "cpuacct.usage"))
        if text is None:
            return None
        return keyed(text)["usage_usec"] / 1e6 if self.v2 else int(text) / 1e9

    def memory_mb(self) -> int | None:
        """Return the resident memory without the page cache; None when the group is gone."""
        text = read_or_none(self.memory / "memory.stat") if self.memory else None
        if text is None:
            return None
        stat = keyed(text)
        return (stat["anon"] if self.v2 else stat.get("total_rss", 0)) >> 20


def group_of(pid: int, proc: Path = PROC) -> ContainerGroup | None:
    """Return the group of a container's first process; None when it is gone or not visible from here."""
    groups = groups_of(pid, proc)
    if not groups:
        return None
    v1 = mounts("cgroup", proc)

    def folder(controller: str) -> Path | None:
        group = groups.get(controller)
        seen = (mount.folder(group) for mount in v1 if group is not None and controller in mount.controllers)
        return next((path for path in seen if path is not None and path.is_dir()), None)

    cpu, cpuacct = folder("cpu"), folder("cpuacct")
    if cpu and cpuacct:
        return ContainerGroup(False, cpu, cpuacct, folder("memory"), folder("freezer"))
    seen = (mount.folder(groups.get("", "")) for mount in mounts("cgroup2", proc))
    unified = next((path for path in seen if path is not None and (path / "cpu.max").exists()), None)
    return ContainerGroup(True, unified, unified, unified, unified) if unified else None
