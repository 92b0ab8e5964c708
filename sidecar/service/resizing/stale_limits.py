"""Restores limits that an earlier sidecar process left: at the start, and for `quicksilver sidecar restore`.

It may run twice, or with nothing to restore. Only groups below the parent group of this sidecar are
touched, and in them only those that are named like containers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver.common.errors import QuicksilverError
from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.mountinfo import Hierarchy
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from sidecar.resizer.cgroup.v1_restore import ATTEMPT, CONTROLLERS, Taken, give_back
from sidecar.resizer.cgroup.v2_cleanup import clean_cgroup2
from sidecar.resizer.docker.records import DEFAULT_FOLDER
from sidecar.resizer.docker.resizer import undo_all
from sidecar.resizer.processes import PROC, look

_DEEP: Final = 8
_CONTAINER: Final = "container_"
_POLL_S: Final = 0.02


class SidecarAliveError(QuicksilverError):
    """Another sidecar uses the same parent group."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Restored containers, and refusals."""

    containers: tuple[str, ...]
    refused: tuple[str, ...]


def await_guardians(label: str, wait_s: float = 10.0, proc: Path = PROC) -> None:
    """Wait until the guardian of an earlier process has ended. Raises SidecarAliveError when it stays.

    A guardian stays while its sidecar lives: then two sidecars would have one parent group.
    """
    until = time.monotonic() + wait_s
    while pids := guardians(label, proc):
        if time.monotonic() > until:
            remedy = "give each sidecar of this machine its own parent group, e.g. quicksilver/node1"
            raise SidecarAliveError(f"another sidecar uses this group (guardian: {pids})", place=label, remedy=remedy)
        time.sleep(_POLL_S)


def guardians(label: str, proc: Path = PROC) -> list[int]:
    """Return the guardians of sidecars that use the parent group `label`."""
    command = ["-m", "sidecar.service.guardian", label]
    pids = []
    for name in os.listdir(proc):  # noqa: PTH208
        process = look(int(name), proc) if name.isdigit() else None
        if process is None or process.over:
            continue
        try:
            words = (proc / name / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[-4:-1] == command:
            pids.append(process.pid)
    return pids


def clean(parent: str, nm_hierarchy: str | None = None, proc: Path = PROC) -> Cleaned:
    """Give the containers below `parent` their full limits back, move them back, and remove the groups.

    With `nm_hierarchy` the NodeManager's own groups lose their quotas (see `probe.groups_to_clean`).
    Docker containers get back the limits in their records. Processes stopped by signals leave no trace: only the
    guardian knows them.
    """
    done, refused = _clean_cgroup1(parent, nm_hierarchy, proc)
    more, more_refused = clean_cgroup2(parent, nm_hierarchy, proc)
    if DEFAULT_FOLDER.is_dir():
        more_refused += [str(error) for error in undo_all()]
    return Cleaned(tuple(dict.fromkeys([*done, *more])), (*refused, *more_refused))


def _clean_cgroup1(parent: str, nm_hierarchy: str | None, proc: Path) -> tuple[list[str], list[str]]:
    mounts = {name: mount for name, mount in hierarchies(proc).items() if mount.writable and name in CONTROLLERS}
    parts = Path(parent.strip("/")).parts
    records: list[Taken] = []
    tops: list[Path] = []
    for mount in {mount.mount: mount for mount in mounts.values()}.values():
        parents = _parents(mount.mount, parts)
        tops += parents
        records += [_undo(mount, group, len(parts)) for top in parents for group in _containers(top)]
    if nm_hierarchy and "cpu" in mounts:
        records += _limited(mounts["cpu"].mount / nm_hierarchy.strip("/"))
    done, refused = [], []
    for was in records:
        try:
            give_back(was)
            done.append(was.container_id)
        except ResizeRefusedError as error:
            refused.append(str(error))
    for top in tops:
        files.remove_empty([*_attempts(top), top, *top.parents[: len(parts) - 1]])
    return done, refused


def _undo(mount: Hierarchy, group: Path, levels: int) -> Taken:
    """Return the undo of a group of ours: its processes came from the group that contains our parent group."""
    groups = {controller: group for controller in mount.controllers if controller in CONTROLLERS}
    return Taken(group.name, groups, {group: group.parents[levels]}, "-1", "1024", levels)


def _parents(mount: Path, parts: tuple[str, ...]) -> list[Path]:
    """Return the folders below a mount whose path ends with `parts`."""
    return [folder for folder in _folders(mount, _DEEP) if folder.parts[-len(parts) :] == parts]


def _folders(folder: Path, deep: int) -> Iterator[Path]:
    if deep == 0:
        return
    try:
        inner = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return
    for path in inner:
        yield path
        yield from _folders(path, deep - 1)


def _containers(top: Path) -> list[Path]:
    return sorted(path for path in top.iterdir() if path.name.startswith(_CONTAINER) and path.is_dir())


def _attempts(top: Path) -> list[Path]:
    return [path for path in top.iterdir() if path.name.startswith(ATTEMPT) and path.is_dir()]


def _limited(top: Path) -> Iterator[Taken]:
    """Yield the NodeManager's container groups, and Docker's in them, that have a quota."""
    for outer in _containers(top) if top.is_dir() else []:
        for group in (outer, *(path for path in outer.iterdir() if path.is_dir())):
            if files.read_or_none(group / "cpu.cfs_quota_us") not in (None, "-1"):
                yield Taken(outer.name, {"cpu": group}, {}, "-1", None, 0)
