"""Gives back what an earlier life of the sidecar left behind: at the start, and for `quicksilver sidecar restore`.

Harmless when there is nothing, and when it is done twice. Only groups below the parent group of this sidecar are
touched, and in them only those that are named like containers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shell.errors import QuicksilverError
from sidecar.resizer import files
from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.give_back import ATTEMPT, CONTROLLERS, Taken, give_back
from sidecar.resizer.hierarchies import Hierarchy, hierarchies
from sidecar.resizer.processes import PROC, look

_DEEP: Final = 8
_CONTAINER: Final = "container_"
_POLL_S: Final = 0.02


class SidecarAliveError(QuicksilverError):
    """Another sidecar uses the same parent group."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was given back."""

    containers: tuple[str, ...]
    refused: tuple[str, ...]


def await_guardians(label: str, wait_s: float = 10.0, proc: Path = PROC) -> None:
    """Wait until the guardian of an earlier life is through. Raises SidecarAliveError when it stays.

    A guardian stays while its sidecar lives: then two sidecars would have one parent group.
    """
    until = time.monotonic() + wait_s
    while found := guardians(label, proc):
        if time.monotonic() > until:
            remedy = "give each sidecar of this machine its own parent group, e.g. quicksilver/node1"
            raise SidecarAliveError(f"another sidecar uses this group (guardian: {found})", place=label, remedy=remedy)
        time.sleep(_POLL_S)


def guardians(label: str, proc: Path = PROC) -> list[int]:
    """Return the guardians of sidecars that use the parent group `label`."""
    wanted = ["-m", "sidecar.guardian", label]
    found = []
    for name in os.listdir(proc):  # noqa: PTH208
        process = look(int(name), proc) if name.isdigit() else None
        if process is None or process.over:
            continue
        try:
            words = (proc / name / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words[-4:-1] == wanted:
            found.append(process.pid)
    return found


def clean(parent: str, nm_hierarchy: str | None = None, proc: Path = PROC) -> Cleaned:
    """Give the containers below `parent` their full limits back, move them back, and remove the groups (cgroup v1).

    With `nm_hierarchy` the NodeManager's own groups lose their quotas: it sets none itself unless
    yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage is on, which does not go with shrinking.
    """
    mounts = {name: mount for name, mount in hierarchies(proc).items() if mount.writable and name in CONTROLLERS}
    done: dict[str, None] = {}
    refused: list[str] = []
    parts = Path(parent.strip("/")).parts
    for mount in mounts.values():
        for top in _parents(mount.mount, parts):
            for group in _containers(top):
                _one(_ours(mount, group, len(parts)), done, refused)
            files.remove_empty([*_attempts(top), top, *top.parents[: len(parts) - 1]])
    if nm_hierarchy and "cpu" in mounts:
        for group in _limited(mounts["cpu"].mount / nm_hierarchy.strip("/")):
            shares = files.read(group / "cpu.shares")
            _one(Taken(group.name, {"cpu": group}, {}, "-1", shares, 0), done, refused)
    return Cleaned(tuple(done), tuple(refused))


def _one(was: Taken, done: dict[str, None], refused: list[str]) -> None:
    try:
        give_back(was)
    except ResizeRefusedError as error:
        refused.append(str(error))
    else:
        done[was.container_id] = None


def _ours(mount: Hierarchy, group: Path, levels: int) -> Taken:
    """Return how a group of ours is undone: its processes came from the group that our parent group is in."""
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


def _limited(top: Path) -> Iterator[Path]:
    """Yield the NodeManager's container groups, and Docker's in them, that have a quota."""
    for outer in _containers(top) if top.is_dir() else []:
        for group in (outer, *(path for path in outer.iterdir() if path.is_dir())):
            if (files.read_or_none(group / "cpu.cfs_quota_us") or "-1") != "-1":
                yield group
