"""Finds the mounts of the hierarchies of cgroup v1."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sidecar.resizer.cgroup.mountinfo import Hierarchy, mounts
from sidecar.resizer.processes import PROC

_CONTROLLERS: Final = frozenset(("cpu", "cpuacct", "freezer", "memory"))


def hierarchies(proc: Path = PROC) -> dict[str, Hierarchy]:
    """Return the mount of each controller of cgroup v1, of several the writable one; {} where there are none."""
    by_controller: dict[str, Hierarchy] = {}
    for mount in mounts("cgroup", proc):
        for name in mount.controllers & _CONTROLLERS:
            by_controller.setdefault(name, mount)
    return by_controller
