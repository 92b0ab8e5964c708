"""Resizes by cgroup v1: CFS quota and shares of the cpu controller, the freezer, accounting by cpuacct and memory.

Own groups are GROUP/PARENT/CONTAINER_ID, below the group that the container came from, so that limits of a service
still hold. Under LinuxContainerExecutor with cgroups the NodeManager's own group gets the quota, and no process is
moved: the NodeManager could not remove its group otherwise, and counts what is in it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.resizer.base import Leader, Resizer, ResizeRefusedError, Usage
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.v1_mounts import Hierarchy, hierarchies
from sidecar.resizer.cgroup.v1_restore import ATTEMPT, CONTROLLERS, Taken, Undo, give_back
from sidecar.resizer.processes import PROC, TICKS, anonymous_mb, being_killed, family, groups_of, look, scan

PERIOD_US: Final = 100_000
QUOTA_MIN_US: Final = 1000
"""The kernel takes no less (Documentation/scheduler/sched-bwc)."""
_SHARES_MIN: Final = 2
_SHARES: Final = 1024
_ROUNDS: Final = 100
_SURE_AFTER: Final = 5
"""Looks at a process that is in a group of its own before it is taken for one that stays there."""
_ENDING_S: Final = 0.002
_FROZEN_WITHIN_S: Final = 0.25
_ALONE: Final = "containers that run a container engine or systemd-run inside are to be left out (by_type: none)"


@dataclass(slots=True)
class _Held:
    leader: Leader
    taken: Taken
    period_us: int
    cpu_before_s: float
    known: set[int] = field(default_factory=set)
    """Processes that were seen in the group."""
    quota: str = "-1"
    shares: str = "1024"
    """What was set last."""
    frozen: bool = False

    @property
    def own(self) -> bool:
        return bool(self.taken.back)

    def file(self, name: str) -> Path | None:
        """Return a control file by its name, e.g. cpu.shares; None without its controller."""
        group = self.taken.groups.get(name.partition(".")[0])
        return group / name if group else None


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
        found = hierarchies(proc)
        self.parent, self.nm_hierarchy, self._proc = Path(parent.strip("/")), nm_hierarchy, proc
        self._mounts = {name: found[name] for name in CONTROLLERS if name in found and (memory or name != "memory")}
        self._held: dict[str, _Held] = {}
        self._inner: set[Path] = set()
        """The innermost parent groups that were used."""

    def attempt(self) -> None:
        """Make a group, write a quota, remove it. Raises ResizeRefusedError when something of it is refused."""
        cpu = self._cpu()
        top = cpu.mount / self.nm_hierarchy.strip("/") if self.nm_hierarchy else cpu.mount / self.parent
        if self.nm_hierarchy:
            quota = files.read(top / "cpu.cfs_quota_us")
            files.write(top / "cpu.cfs_quota_us", quota, "")
            return
        group = top / f"{ATTEMPT}{os.getpid()}"
        made = self._make(group, "")
        try:
            files.write(group / "cpu.cfs_quota_us", str(QUOTA_MIN_US), "")
        finally:
            files.remove_empty([group, *group.parents[: len(self.parent.parts)]] if made else [])

    def attach(self, container_id: str, leader: Leader) -> None:  # noqa: D102
        held = self._held.get(container_id)
        if held is not None and held.leader == leader:
            self.reassert(container_id)
            return
        held = self._of_nm(container_id, leader) if self.nm_hierarchy else self._of_ours(container_id, leader)
        try:
            self._catch(container_id, held)
        except ResizeRefusedError:
            give_back(held.taken)
            raise
        self._held[container_id] = held

    def shrink(self, container_id: str, cores: float) -> None:  # noqa: D102
        held = self._get(container_id)
        self._thaw(container_id, held)
        quota = str(max(QUOTA_MIN_US, round(cores * held.period_us)))
        self._limit(container_id, held, quota, str(max(_SHARES_MIN, round(_SHARES * cores))))

    def freeze(self, container_id: str) -> None:  # noqa: D102
        held = self._get(container_id)
        path = held.file("freezer.state")
        if path is None:
            why = "this container has no group of the freezer controller"
            raise ResizeRefusedError(container_id, "freezer.state", why, remedy="preempt with las, which shrinks")
        files.write(path, "FROZEN", container_id)
        held.frozen = True
        until = time.monotonic() + _FROZEN_WITHIN_S
        while (state := files.read(path, container_id)) != "FROZEN":
            if time.monotonic() > until:
                self._thaw(container_id, held)
                raise ResizeRefusedError(container_id, str(path), f"still {state} after {_FROZEN_WITHIN_S} s")
            time.sleep(0.001)

    def restore(self, container_id: str) -> None:  # noqa: D102
        held = self._get(container_id)
        self._thaw(container_id, held)
        self._limit(container_id, held, held.taken.quota, held.taken.shares)

    def holds(self, container_id: str) -> bool:  # noqa: D102
        held = self._held.get(container_id)
        if held is None:
            return False
        inside = set(self._inside(held))
        return self._as_set(held) and not self._escaped(held, inside) and not self._dying(held, inside)

    def reassert(self, container_id: str) -> None:
        """Write the limits that were set here last again, and catch what escaped.

        A frozen container that is being killed is thawed instead, because it could not die otherwise, and refused as
        gone. What the NodeManager wrote into its own group is what the container gets back later.
        """
        held = self._get(container_id)
        if self._dying(held, set(self._inside(held))):
            self._thaw(container_id, held)
            raise ResizeRefusedError(container_id, "freezer.state", "the container is being killed", gone=True)
        quota, shares = self._now(held)
        if not held.own:
            held.taken = _renewed(held, quota, shares)
        for group in held.taken.back:
            self._make(group, container_id)  # somebody may have removed it
        self._catch(container_id, held)
        self._limit(container_id, held, held.quota, held.shares)
        if held.frozen:
            self.freeze(container_id)

    def usage(self, container_id: str) -> Usage:  # noqa: D102
        held = self._held.get(container_id)
        if held is None or not held.taken.groups["cpu"].is_dir():
            return Usage(None, None)
        return Usage(self.cpu_s(container_id), self._memory_mb(held))

    def cpu_s(self, container_id: str) -> float | None:
        """Return the CPU part of `usage` alone, which reads fewer files."""
        held = self._held.get(container_id)
        cpu_s = self._cpu_s(held.taken, held.leader) if held is not None else None
        return None if held is None or cpu_s is None else cpu_s - held.cpu_before_s

    def detach(self, container_id: str) -> None:  # noqa: D102
        held = self._held.get(container_id)
        if held is not None:
            give_back(held.taken)
            del self._held[container_id]

    def undo(self, container_id: str) -> Undo:  # noqa: D102
        return self._get(container_id).taken.undo()

    def parents(self) -> list[str]:
        """Return the parent groups that were made, the innermost first; `sidecar.service.guardian` removes them too."""
        above = len(self.parent.parts) - 1
        return [str(group) for inner in sorted(self._inner) for group in (inner, *inner.parents[:above])]

    def close(self) -> None:
        """Let go of everything; parent groups go when they are empty. Raises the last ResizeRefusedError."""
        last: ResizeRefusedError | None = None
        for container_id in list(self._held):
            try:
                self.detach(container_id)
            except ResizeRefusedError as error:
                last = error
        files.remove_empty(Path(group) for group in self.parents())
        if last is not None:
            raise last

    def _get(self, container_id: str) -> _Held:
        try:
            return self._held[container_id]
        except KeyError:
            raise ResizeRefusedError(container_id, self.name, "it is not attached", gone=True) from None

    def _cpu(self) -> Hierarchy:
        cpu = self._mounts.get("cpu")
        if cpu is None:
            remedy = "mount it (mount -t cgroup -o cpu,cpuacct), or use another resizer"
            raise ResizeRefusedError("", "cpu", "no cgroup v1 hierarchy has the cpu controller", remedy=remedy)
        if not cpu.writable:
            why, remedy = "it is mounted read-only", "mount it writable (Docker: --privileged)"
            raise ResizeRefusedError("", str(cpu.mount), why, remedy=remedy)
        return cpu

    def _of_nm(self, container_id: str, leader: Leader) -> _Held:
        """Return the NodeManager's group of a container, or Docker's group inside of it."""
        groups: dict[str, Path] = {}
        self._cpu()
        for name, hierarchy in self._mounts.items():
            group = hierarchy.mount / (self.nm_hierarchy or "").strip("/") / container_id
            if group.is_dir():
                inner = [path for path in group.iterdir() if path.is_dir()]
                groups[name] = inner[0] if len(inner) == 1 else group
        if "cpu" not in groups:
            why = f"the NodeManager made no group of it below {self.nm_hierarchy}"
            raise ResizeRefusedError(container_id, "cpu", why, gone=look(leader.pid, self._proc) is None)
        read = {name: files.read(groups["cpu"] / f"cpu.{name}", container_id) for name in ("cfs_quota_us", "shares")}
        period_us = int(files.read(groups["cpu"] / "cpu.cfs_period_us", container_id))
        was = Taken(container_id, groups, {}, read["cfs_quota_us"], read["shares"], 0)
        before_s = self._cpu_s(was, leader) or 0.0
        return _Held(leader, was, period_us, before_s, quota=was.quota, shares=was.shares)

    def _of_ours(self, container_id: str, leader: Leader) -> _Held:
        self._cpu()
        origins = groups_of(leader.pid, self._proc)
        if origins is None:
            raise ResizeRefusedError(container_id, f"pid {leader.pid}", "the process is gone", gone=True)
        groups: dict[str, Path] = {}
        back: dict[Path, Path] = {}
        for name, hierarchy in self._mounts.items():
            origin = hierarchy.folder(origins.get(name, "/")) if hierarchy.writable else None
            if origin is None:
                continue
            origin = self._before(origin, container_id)
            groups[name] = origin / self.parent / container_id
            back[groups[name]] = origin
        if "cpu" not in groups:
            why = f"the container's group {origins.get('cpu')} is outside of what is mounted here"
            raise ResizeRefusedError(container_id, "cpu", why, remedy="run the sidecar in the host's cgroup namespace")
        was = Taken(container_id, groups, back, "-1", str(_SHARES), len(self.parent.parts))
        try:
            for group in back:
                self._make(group, container_id)
                self._inner.add(group.parent)
            self._limit(
                container_id, held := _Held(leader, was, PERIOD_US, self._cpu_s(was, leader) or 0.0), "-1", "1024"
            )
        except ResizeRefusedError:
            give_back(was)
            raise
        return held

    def _before(self, group: Path, container_id: str) -> Path:
        """Return where a container was before an earlier life of the sidecar took it."""
        ours = (*self.parent.parts, container_id)
        return Path(*group.parts[: -len(ours)]) if group.parts[-len(ours) :] == ours else group

    def _make(self, group: Path, container_id: str) -> bool:
        """Make a group; a new parent group weighs as much as one busy thread on each core would outside of it."""
        new = [parent for parent in group.parents[: len(self.parent.parts)] if not parent.exists()]
        try:
            made = files.make(group, container_id)
        except ResizeRefusedError as error:
            if not error.gone:
                raise
            made = files.make(group, container_id)  # another sidecar has just removed the empty parent
        for shares in (parent / "cpu.shares" for parent in new):
            if shares.exists():
                files.write(shares, str(min(_SHARES * (os.cpu_count() or 1), 2**18)), container_id)
        return made

    def _catch(self, container_id: str, held: _Held) -> None:
        """Move the whole family in, until a look finds nobody outside. Raises ResizeRefusedError."""
        if not held.own:
            held.known.update(self._inside(held))
            return
        looks = Counter[int]()
        for _ in range(_ROUNDS):
            members = family(held.leader, scan(self._proc), self._proc)
            if not members or all(p.over for p in members.values()):
                raise ResizeRefusedError(container_id, f"pid {held.leader.pid}", "its processes are gone", gone=True)
            if os.getpid() in members:
                why = "the sidecar itself is among the container's processes"
                raise ResizeRefusedError(container_id, f"pid {held.leader.pid}", why)
            outside = {pid for group in held.taken.back for pid in members.keys() - set(files.pids(group))}
            outside -= {pid for pid in outside & looks.keys() if members[pid].over}  # a zombie may have living threads
            if not outside:
                held.known = set(self._inside(held))
                return
            if outside & looks.keys():
                time.sleep(_ENDING_S)  # what ends is between its group and its end for as long as it is not scheduled
            for pid in sorted(outside):
                self._move(container_id, held, pid, sure=looks[pid] >= _SURE_AFTER)
            looks.update(outside)
        why = f"its processes fork faster than they are moved ({len(outside)} are outside)"
        raise ResizeRefusedError(container_id, f"pid {held.leader.pid}", why)

    def _move(self, container_id: str, held: _Held, pid: int, sure: bool) -> None:
        """Move a process in; one that ends shows another group for a moment, and is seen again only if it lives."""
        groups = groups_of(pid, self._proc)
        for name, group in held.taken.groups.items():
            if groups is None:
                return
            at = self._mounts[name].folder(groups.get(name, "/"))
            if at == group:
                continue
            if pid not in held.known and at != held.taken.back[group]:
                if not sure:
                    return
                why = f"process {pid} is in a group of its own, {groups.get(name)}"
                raise ResizeRefusedError(container_id, str(group), why, remedy=_ALONE)
            if not files.move(group, pid, container_id):
                return

    def _limit(self, container_id: str, held: _Held, quota: str, shares: str) -> None:
        group = held.taken.groups["cpu"]
        files.write(group / "cpu.cfs_quota_us", quota, container_id)
        files.write(group / "cpu.shares", shares, container_id)
        held.quota, held.shares = quota, shares

    def _thaw(self, container_id: str, held: _Held) -> None:
        path = held.file("freezer.state")
        if held.frozen and path is not None:
            files.write(path, "THAWED", container_id)
            held.frozen = False

    def _now(self, held: _Held) -> tuple[str | None, str | None]:
        group = held.taken.groups["cpu"]
        return files.read_or_none(group / "cpu.cfs_quota_us"), files.read_or_none(group / "cpu.shares")

    def _as_set(self, held: _Held) -> bool:
        if self._now(held) != (held.quota, held.shares):
            return False
        path = held.file("freezer.state")
        return path is None or files.read_or_none(path) == ("FROZEN" if held.frozen else "THAWED")

    def _inside(self, held: _Held) -> list[int]:
        return files.pids(held.taken.groups["cpu"])

    def _escaped(self, held: _Held, inside: set[int]) -> bool:
        """Tell whether somebody moved a process out; remembers who is inside."""
        missing, held.known = held.known - inside, held.known | inside
        for pid in missing:
            process = look(pid, self._proc)
            if process is not None and not process.over and held.own:
                return True
            held.known.discard(pid)
        return False

    def _dying(self, held: _Held, inside: set[int]) -> bool:
        return held.frozen and any(being_killed(pid, self._proc) for pid in inside)

    def _cpu_s(self, was: Taken, leader: Leader) -> float | None:
        group = was.groups.get("cpuacct")
        if group is not None:
            text = files.read_or_none(group / "cpuacct.usage")
            return int(text) / 1e9 if text else None
        return sum(p.ticks for p in family(leader, scan(self._proc), self._proc).values()) / TICKS

    def _memory_mb(self, held: _Held) -> int:
        """Return the larger of what the group is charged and what its processes hold: charges do not move with them."""
        group = held.taken.groups.get("memory")
        text = files.read_or_none(group / "memory.stat") if group else None
        charged = files.keyed(text).get("total_rss", 0) / 2**20 if text else 0.0
        return round(max(charged, sum(anonymous_mb(pid, self._proc) for pid in self._inside(held))))


def _renewed(held: _Held, quota: str | None, shares: str | None) -> Taken:
    """Return what is to be given back when somebody else has written `quota` and `shares` meanwhile."""
    was = held.taken
    return Taken(
        was.container_id,
        was.groups,
        was.back,
        was.quota if quota in (None, held.quota) else str(quota),
        was.shares if shares in (None, held.shares) else str(shares),
        was.parents,
    )
