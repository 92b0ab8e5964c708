"""Undoes the cgroup v1 resizer's changes to a container: for detaching, for the guardian and for leftovers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files

CONTROLLERS: Final[tuple[str, ...]] = ("cpu", "cpuacct", "freezer", "memory")
ATTEMPT: Final = "attempt-"
"""Prefix of the names of groups that only test whether cgroup v1 works."""
_EMPTY_WITHIN_S: Final = 1.0
_REMOVED_WITHIN_S: Final = 0.3

Undo = dict[str, str | float | int | list[int]]
"""JSON record from which the full limits are restored."""


class Taken(NamedTuple):
    """Changes to undo; paths as they are on this machine."""

    container_id: str
    groups: Mapping[str, Path]
    """Groups by controller; co-mounted controllers share one."""
    back: Mapping[Path, Path]
    """Group of our own to the group that its processes came from; {} when the groups are the NodeManager's."""
    quota: str
    shares: str | None
    """None where the group is the NodeManager's: it alone writes the weight."""
    parents: int
    """Number of levels above each group that are ours too, and are removed when empty."""

    def undo(self) -> Undo:
        """Return the record for the guardian."""
        record: Undo = {"resizer": "cgroup1", "container": self.container_id, "parents": self.parents}
        record |= {"quota": self.quota} | ({} if self.shares is None else {"shares": self.shares})
        for name, group in self.groups.items():
            record[name] = str(group)
            if group in self.back:
                record[f"{name}_back"] = str(self.back[group])
        return record


def taken(record: Mapping[str, object]) -> Taken:
    """Parse a record of `Taken.undo`."""
    groups = {name: Path(str(record[name])) for name in CONTROLLERS if name in record}
    back = {group: Path(str(record[f"{name}_back"])) for name, group in groups.items() if f"{name}_back" in record}
    return Taken(
        container_id=str(record["container"]),
        groups=groups,
        back=back,
        quota=str(record["quota"]),
        shares=str(record["shares"]) if "shares" in record else None,
        parents=int(str(record["parents"])),
    )


def undo_cgroup1(record: Mapping[str, object]) -> None:
    """Undo everything, and remove parent groups that are empty then. Raises ResizeRefusedError at the end."""
    was = taken(record)
    try:
        give_back(was)
    finally:
        remove_parents(was.back, was.parents)


def give_back(was: Taken) -> None:
    """Resume the processes with full limits in their original groups, and remove our groups.

    Missing files and processes are no error. All is tried; raises the first ResizeRefusedError at the end.
    """
    refusals: list[ResizeRefusedError] = []

    def attempt(path: Path, text: str) -> None:
        try:
            files.write(path, text, was.container_id)
        except ResizeRefusedError as error:
            if not error.gone:
                refusals.append(error)

    if "freezer" in was.groups:
        attempt(was.groups["freezer"] / "freezer.state", "THAWED")
    if "cpu" in was.groups:
        attempt(was.groups["cpu"] / "cpu.cfs_quota_us", was.quota)
        if was.shares is not None:
            attempt(was.groups["cpu"] / "cpu.shares", was.shares)
    for group, origin in was.back.items():
        try:
            remove_group(group, origin, was.container_id)
        except ResizeRefusedError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]


def remove_parents(back: Mapping[Path, Path], levels: int) -> None:
    """Remove `levels` of parents above each group where they are empty."""
    for group in back:
        files.remove_empty(group.parents[:levels])


def remove_group(group: Path, origin: Path, container_id: str) -> None:
    """Move the processes of a group to their original group, and remove it. Raises ResizeRefusedError."""
    _empty(group, origin, container_id)
    files.remove(group, container_id, _REMOVED_WITHIN_S)


def _empty(group: Path, origin: Path, container_id: str) -> None:
    """Move the processes of a group to their original group, including those that are forked meanwhile.

    If that is gone, its nearest ancestor is used. Raises ResizeRefusedError.
    """
    while not origin.is_dir() and origin != origin.parent:
        origin = origin.parent
    until = time.monotonic() + _EMPTY_WITHIN_S
    while pids := files.pids(group):
        if group.samefile(origin) or time.monotonic() > until:
            why = f"{len(pids)} processes do not leave it"
            raise ResizeRefusedError(container_id, str(group), why, remedy="end the container, then remove the group")
        for pid in pids:
            files.move(origin, pid, container_id)
