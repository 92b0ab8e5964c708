"""The processes of a container under cgroup v2: all of them are moved into its group, and kept there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.resizer.base import Leader, ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.mountinfo import Hierarchy
from sidecar.resizer.cgroup.v1_members import ALONE
from sidecar.resizer.cgroup.v2_restore import Taken, origin_of
from sidecar.resizer.processes import family, groups_of, look, scan

_ROUNDS: Final = 100


@dataclass(slots=True)
class Attached:
    """An attached container, with the changes to undo."""

    leader: Leader
    taken: Taken
    cpu_before_s: float
    limits: dict[str, str] = field(default_factory=dict)
    """Control file to the value that was set last."""
    known: set[int] = field(default_factory=set)
    """Processes that were seen in the group."""
    frozen: bool = False

    @property
    def group(self) -> Path:
        """The container's group while it is attached."""
        return self.taken.group


class Members:
    """Moves processes into groups below `parent` of the one hierarchy; `proc`: where processes are seen."""

    def __init__(self, where: Hierarchy, parent: Path, proc: Path) -> None:
        self._where, self._parent, self._proc = where, parent, proc

    def origin(self, container_id: str, pid: int) -> Path:
        """Return the group of a container, or the NodeManager's when an earlier sidecar process moved it."""
        at = self._at(container_id, pid)
        if at is None:
            raise ResizeRefusedError(container_id, f"pid {pid}", "the process is gone", gone=True)
        if at != self._parent and self._parent not in at.parents:
            return at
        return origin_of(pid, self._where, self._parent, self._proc) or self._where.mount

    def _at(self, container_id: str, pid: int) -> Path | None:
        """Return the group of a process, None when it is gone. Raises ResizeRefusedError when it is not visible."""
        groups = groups_of(pid, self._proc)
        if groups is None:
            return None
        at = self._where.folder(groups.get("", "/"))
        if at is None or ".." in at.parts:
            why = f"its group {groups.get('')} is outside of what is mounted here"
            remedy = "run the sidecar in the host's cgroup namespace"
            raise ResizeRefusedError(container_id, f"pid {pid}", why, remedy=remedy)
        return at

    def catch(self, container_id: str, container: Attached) -> None:
        """Move all processes in, until a check finds none outside. Raises ResizeRefusedError."""
        if container.taken.origin is None:
            return
        tried: set[int] = set()
        outside: set[int] = set()
        for _ in range(_ROUNDS):
            members = family(container.leader, scan(self._proc), self._proc)
            if all(process.over for process in members.values()):
                raise ResizeRefusedError(
                    container_id, f"pid {container.leader.pid}", "its processes are gone", gone=True
                )
            if os.getpid() in members:
                why = "the sidecar itself is among the container's processes"
                raise ResizeRefusedError(container_id, f"pid {container.leader.pid}", why)
            outside = members.keys() - set(files.pids(container.group))
            outside -= {pid for pid in outside & tried if members[pid].over}  # a zombie may have living threads
            if not outside:
                container.known = set(files.pids(container.group))
                return
            for pid in sorted(outside):
                self._move(container_id, container, pid, sure=pid in tried)
            tried |= outside
        why = f"its processes fork faster than they are moved ({len(outside)} are outside)"
        raise ResizeRefusedError(container_id, f"pid {container.leader.pid}", why)

    def _move(self, container_id: str, container: Attached, pid: int, sure: bool) -> None:
        """Move a process in; a zombie may show a group that is deleted, and is seen again only if it lives."""
        at = self._at(container_id, pid)
        if at is None or at == container.group:
            return
        if pid not in container.known and at != container.taken.origin:
            if not sure:
                return
            why = f"process {pid} is in a group of its own, {at}"
            raise ResizeRefusedError(container_id, str(container.group), why, remedy=ALONE)
        files.move(container.group, pid, container_id)

    def escaped(self, container: Attached) -> bool:
        """Return whether a process was moved out; stores which processes are inside."""
        if container.taken.origin is None:
            return False
        inside = set(files.pids(container.group))
        missing, container.known = container.known - inside, container.known | inside
        for pid in missing:
            process = look(pid, self._proc)
            if process is not None and not process.over:
                return True
            container.known.discard(pid)
        return False
