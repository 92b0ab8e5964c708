"""The cgroup of a Docker container, read directly: microseconds, where the Engine's own statistics take a second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.resizer.cgroup.files import keyed, read_or_none
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from sidecar.resizer.processes import PROC, groups_of

NO_LIMIT: Final = -1


@dataclass(frozen=True, slots=True)
class Group:
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


def group_of(pid: int, proc: Path = PROC) -> Group | None:
    """Return the group of a container's first process; None when it is gone or not visible from here."""
    groups = groups_of(pid, proc)
    if not groups:
        return None
    mounted = hierarchies(proc)

    def folder(controller: str) -> Path | None:
        hierarchy, group = mounted.get(controller), groups.get(controller)
        path = hierarchy.folder(group) if hierarchy and group is not None else None
        return path if path and path.is_dir() else None

    cpu, cpuacct = folder("cpu"), folder("cpuacct")
    if cpu and cpuacct:
        return Group(False, cpu, cpuacct, folder("memory"), folder("freezer"))
    unified = _unified(proc, groups.get("", ""))
    return Group(True, unified, unified, unified, unified) if unified else None


def _unified(proc: Path, group: str) -> Path | None:
    """Return the folder of a group of cgroup v2 that has the CPU controller."""
    for line in (proc / "self" / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split(" ")[3:5]
        inside = group.removeprefix(root.rstrip("/")).lstrip("/")
        if after.startswith("cgroup2 ") and (Path(mount) / inside / "cpu.max").exists():
            return Path(mount) / inside
    return None
