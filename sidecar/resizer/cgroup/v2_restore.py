"""Undoes the cgroup v2 resizer's changes to a container: for detaching, for the guardian and for leftovers."""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.mountinfo import Hierarchy
from sidecar.resizer.cgroup.v1_restore import Undo
from sidecar.resizer.processes import PROC, groups_of, look

FULL: Final[Mapping[str, str]] = {"cpu.max": "max", "cpu.weight": "100", "memory.high": "max"}
"""The kernel's own values for a new group."""
_EMPTY_WITHIN_S: Final = 1.0
_REMOVED_WITHIN_S: Final = 0.3
_NOT_HERE: Final = (errno.EBUSY, errno.EOPNOTSUPP, errno.ENOENT, errno.ENODEV)
"""A group that takes no processes: it has controllers on for groups inside it, is threaded, or is gone."""


class Taken(NamedTuple):
    """Changes to undo; paths as they are on this machine."""

    container_id: str
    mount: Path
    group: Path
    origin: Path | None
    """Where the processes came from; None when the group is the NodeManager's."""
    limits: Mapping[str, str]
    """Control file to its original value."""
    parents: int
    """Number of levels above the group that are ours too, and are removed when empty."""

    def undo(self) -> Undo:
        """Return the record for the guardian."""
        record: Undo = {"resizer": "cgroup2", "container": self.container_id, "parents": self.parents}
        record |= {"mount": str(self.mount), "group": str(self.group)}
        if self.origin is not None:
            record["origin"] = str(self.origin)
        record.update(self.limits)
        return record


def taken(record: Mapping[str, object]) -> Taken:
    """Parse a record of `Taken.undo`."""
    return Taken(
        container_id=str(record["container"]),
        mount=Path(str(record["mount"])),
        group=Path(str(record["group"])),
        origin=Path(str(record["origin"])) if "origin" in record else None,
        limits={name: str(record[name]) for name in FULL if name in record},
        parents=int(str(record["parents"])),
    )


def undo_cgroup2(record: Mapping[str, object]) -> None:
    """Undo everything, and remove parent groups that are empty then. Raises ResizeRefusedError at the end."""
    was = taken(record)
    try:
        give_back(was)
    finally:
        files.remove_empty(was.group.parents[: was.parents])


def give_back(was: Taken) -> None:
    """Resume the processes with full limits in their original group, and remove our group.

    Missing files and processes are no error. All is tried; raises the first ResizeRefusedError at the end.
    """
    refusals: list[ResizeRefusedError] = []
    for name, text in {**was.limits, "cgroup.freeze": "0"}.items():
        try:
            files.write(was.group / name, text, was.container_id)
        except ResizeRefusedError as error:
            if not error.gone:
                refusals.append(error)
    if was.origin is not None:
        try:
            _empty(was, was.origin)
            files.remove(was.group, was.container_id, _REMOVED_WITHIN_S)
        except ResizeRefusedError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]


def origin_of(pid: int, where: Hierarchy, parent: Path, proc: Path = PROC) -> Path | None:
    """Return the group of the nearest ancestor of a process that is not below `parent`; None when there is none."""
    process = look(pid, proc)
    while process is not None and process.parent > 1:
        groups = groups_of(process.parent, proc)
        at = where.folder(groups.get("", "/")) if groups else None
        if at is not None and at.is_dir() and at != parent and parent not in at.parents:
            return at
        process = look(process.parent, proc)
    return None


def _empty(was: Taken, origin: Path) -> None:
    """Move the processes of a group to their original group, including those that are forked meanwhile.

    If that is gone or accepts none any more, the nearest group above that accepts them is used: the root accepts all.
    """
    above = [path for path in (origin, *origin.parents) if path == was.mount or was.mount in path.parents]
    until = time.monotonic() + _EMPTY_WITHIN_S
    while pids := files.pids(was.group):
        if time.monotonic() > until or was.group == origin:
            why = f"{len(pids)} processes do not leave it"
            raise ResizeRefusedError(
                was.container_id, str(was.group), why, remedy="end the container, then remove the group"
            )
        for pid in pids:
            _move(was.container_id, pid, above)


def _move(container_id: str, pid: int, groups: list[Path]) -> None:
    for group in groups:
        try:
            files.move(group, pid, container_id)
            return
        except ResizeRefusedError as error:
            cause = error.__cause__
            if group == groups[-1] or not isinstance(cause, OSError) or cause.errno not in _NOT_HERE:
                raise
