"""Removes the limits and groups that an earlier process of the cgroup v2 resizer left behind."""

from __future__ import annotations

from pathlib import Path

from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.mountinfo import Hierarchy
from sidecar.resizer.cgroup.v1_restore import ATTEMPT
from sidecar.resizer.cgroup.v2_mount import below, unified
from sidecar.resizer.cgroup.v2_restore import FULL, Taken, give_back, origin_of
from sidecar.resizer.processes import PROC


def clean_cgroup2(
    parent: str = "quicksilver", nm_hierarchy: str | None = None, proc: Path = PROC
) -> tuple[list[str], list[str]]:
    """Undo limits and groups that an earlier process left; return the restored containers and the refusals.

    `parent` is that of `Cgroup2`. Its processes move to the group of the NodeManager, which started them; to
    the root when that is not known. The NodeManager's own groups that have a quota lose it (see
    `probe.groups_to_clean`). Where cgroup v2 cannot be used there is nothing to undo.
    """
    try:
        where = unified(proc)
    except ResizeRefusedError:
        return [], []
    top = below(where.mount, parent)
    done: list[str] = []
    refused: list[str] = []
    for was in [*_left_in(top, where, proc), *_limited(where.mount, nm_hierarchy)]:
        try:
            give_back(was)
            done.append(was.container_id)
        except ResizeRefusedError as error:
            refused.append(str(error))
    if top.is_dir():
        files.remove_empty(path for path in sorted(top.iterdir()) if path.name.startswith(ATTEMPT))
    if not parent.startswith("/"):
        files.remove_empty([top, *top.parents][: len(top.relative_to(where.mount).parts)])
    return done, refused


def _left_in(parent: Path, where: Hierarchy, proc: Path) -> list[Taken]:
    leftovers = []
    for group in _containers(parent):
        started = (origin_of(pid, where, parent, proc) for pid in files.pids(group))
        origin = next((path for path in started if path is not None), where.mount)
        limits = {name: text for name, text in FULL.items() if (group / name).exists()}
        leftovers.append(Taken(group.name, where.mount, group, origin, limits, 0))
    return leftovers


def _limited(mount: Path, nm_hierarchy: str | None) -> list[Taken]:
    if not nm_hierarchy:
        return []
    groups = _containers(mount / nm_hierarchy.strip("/"))
    with_quota = (g for g in groups if not (files.read_or_none(g / "cpu.max") or "max").startswith("max"))
    return [Taken(group.name, mount, group, None, {"cpu.max": "max"}, 0) for group in with_quota]


def _containers(folder: Path) -> list[Path]:
    inner = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in inner if path.name.startswith("container_") and path.is_dir()]
