"""Finds the mount of cgroup v2, and enables controllers from there down to a group (Linux, cgroup-v2.rst)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.mountinfo import Hierarchy, mounts
from sidecar.resizer.processes import PROC

_WEIGHT: Final = 100
_WEIGHT_MAX: Final = 10_000
_V1: Final = "boot with systemd.unified_cgroup_hierarchy=1, or use cgroup1 where the controller is bound to cgroup v1"
_INNER: Final = (
    "give `parent` a group without processes of its own, e.g. one level further down "
    "(systemd: Delegate=yes and DelegateSubgroup=main)"
)


def unified(proc: Path = PROC) -> Hierarchy:
    """Return the mount of cgroup v2, that with the cpu controller when there are several.

    Raises ResizeRefusedError when there is none, or none that can be written.
    """
    candidates = mounts("cgroup2", proc)
    if not candidates:
        raise ResizeRefusedError("", "cgroup2", "no cgroup v2 is mounted", remedy=f"mount it; {_V1}")
    best = next(filter(_has_cpu, candidates), None)
    if best is None:
        raise ResizeRefusedError("", str(candidates[0].mount), "cgroup v2 has no cpu controller here", remedy=_V1)
    if not best.writable:
        remedy = "mount it writable (Docker: --privileged --cgroupns=host)"
        raise ResizeRefusedError("", str(best.mount), "it is mounted read-only", remedy=remedy)
    return best


def _has_cpu(mount: Hierarchy) -> bool:
    return "cpu" in (files.read_or_none(mount.mount / "cgroup.controllers") or "").split()


def make_parent(mount: Path, parent: Path, memory: bool, container_id: str) -> str:
    """Create `parent` below `mount`, and enable cpu (and memory) for the groups in it.

    A level that is created here weighs as much as one busy thread on each core would outside of it. Returns why memory
    could not be enabled, "" when it was or is not wanted. Raises ResizeRefusedError.
    """
    why = ""
    for level in (*reversed(parent.parents), parent):
        if level != mount and mount not in level.parents:
            continue
        if level != mount and files.make(level, container_id):
            weight = min(_WEIGHT * (os.cpu_count() or 1), _WEIGHT_MAX)
            files.write(level / "cpu.weight", str(weight), container_id)
        enable(level, "cpu", mount, container_id)
        if memory and not why:
            why = _try_memory(level, mount, container_id)
    return why


def _try_memory(level: Path, mount: Path, container_id: str) -> str:
    try:
        enable(level, "memory", mount, container_id)
    except ResizeRefusedError as error:
        if error.gone:
            raise
        return str(error)
    return ""


def enable(group: Path, controller: str, mount: Path, container_id: str) -> None:
    """Enable a controller for the groups below `group`. Raises ResizeRefusedError.

    Not where processes are, but for the root: the kernel may allow it, and groups inside then take no process.
    """
    control = group / "cgroup.subtree_control"
    if controller in files.read(control, container_id).split():
        return
    if controller not in files.read(group / "cgroup.controllers", container_id).split():
        why = f"the {controller} controller does not reach this group"
        remedy = f"write +{controller} into cgroup.subtree_control of the groups above (systemd: Delegate={controller})"
        raise ResizeRefusedError(container_id, str(control), why, remedy=remedy)
    if group != mount and (inside := files.pids(group)):
        why = f"{len(inside)} processes are in this group itself"
        raise ResizeRefusedError(container_id, str(control), why, remedy=_INNER)
    try:
        files.write(control, f"+{controller}", container_id)
    except ResizeRefusedError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.EBUSY, errno.EOPNOTSUPP):
            raise ResizeRefusedError(container_id, str(control), error.why, remedy=_INNER) from error
        raise


def below(mount: Path, path: str) -> Path:
    """Return a group's folder from a path below the mount, or one that begins with the mount."""
    folder = Path(path)
    return folder if mount in folder.parents else mount / path.strip("/")
