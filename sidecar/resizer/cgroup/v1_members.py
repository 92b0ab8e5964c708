"""The processes of a container under cgroup v1: all of them are moved into its groups, and kept there."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.mountinfo import Hierarchy
from sidecar.resizer.cgroup.v1_groups import Attached
from sidecar.resizer.processes import being_killed, family, groups_of, look, scan

_ROUNDS: Final = 100
_SURE_AFTER: Final = 5
"""Checks of a process in a group of its own before it is assumed to stay there."""
_ENDING_S: Final = 0.002
ALONE: Final = "containers that run a container engine or systemd-run inside are to be left out (by_type: none)"


class Members:
    """Moves processes into groups of the mounted hierarchies; `proc`: where processes are seen."""

    def __init__(self, mounts: Mapping[str, Hierarchy], proc: Path) -> None:
        self._mounts, self._proc = mounts, proc

    def catch(self, container_id: str, container: Attached) -> None:
        """Move all processes in, until a check finds none outside. Raises ResizeRefusedError."""
        if not container.own:
            container.known.update(container.pids())
            return
        looks = Counter[int]()
        for _ in range(_ROUNDS):
            members = family(container.leader, scan(self._proc), self._proc)
            if not members or all(p.over for p in members.values()):
                raise ResizeRefusedError(
                    container_id, f"pid {container.leader.pid}", "its processes are gone", gone=True
                )
            if os.getpid() in members:
                why = "the sidecar itself is among the container's processes"
                raise ResizeRefusedError(container_id, f"pid {container.leader.pid}", why)
            outside = {pid for group in container.taken.back for pid in members.keys() - set(files.pids(group))}
            outside -= {pid for pid in outside & looks.keys() if members[pid].over}  # a zombie may have living threads
            if not outside:
                container.known = set(container.pids())
                return
            if outside & looks.keys():
                time.sleep(_ENDING_S)  # an ending process leaves its group before it is gone
            for pid in sorted(outside):
                self._move(container_id, container, pid, sure=looks[pid] >= _SURE_AFTER)
            looks.update(outside)
        why = f"its processes fork faster than they are moved ({len(outside)} are outside)"
        raise ResizeRefusedError(container_id, f"pid {container.leader.pid}", why)

    def _move(self, container_id: str, container: Attached, pid: int, sure: bool) -> None:
        """Move a process in; one that ends shows another group for a moment, and is seen again only if it lives."""
        groups = groups_of(pid, self._proc)
        for name, group in container.taken.groups.items():
            if groups is None:
                return
            at = self._mounts[name].folder(groups.get(name, "/"))
            if at == group:
                continue
            if pid not in container.known and at != container.taken.back[group]:
                if not sure:
                    return
                why = f"process {pid} is in a group of its own, {groups.get(name)}"
                raise ResizeRefusedError(container_id, str(group), why, remedy=ALONE)
            if not files.move(group, pid, container_id):
                return

    def escaped(self, container: Attached, inside: set[int]) -> bool:
        """Return whether a process was moved out; stores which processes are inside."""
        missing, container.known = container.known - inside, container.known | inside
        for pid in missing:
            process = look(pid, self._proc)
            if process is not None and not process.over and container.own:
                return True
            container.known.discard(pid)
        return False

    def being_killed(self, container: Attached, inside: set[int]) -> bool:
        """Return whether a frozen container is being killed: it could not die while frozen."""
        return container.frozen and any(being_killed(pid, self._proc) for pid in inside)
