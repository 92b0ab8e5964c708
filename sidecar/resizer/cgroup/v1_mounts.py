"""Finds the mounts of cgroup hierarchies, and a group's folder in them: /proc/self/mountinfo (proc(5))."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.resizer.processes import PROC

_CONTROLLERS: Final = frozenset(("cpu", "cpuacct", "freezer", "memory"))


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy of cgroup v1, with one controller or several."""

    mount: Path
    root: str
    """The group that is seen at the mount point: / outside of containers."""
    controllers: frozenset[str]
    writable: bool

    def folder(self, group: str) -> Path | None:
        """Return the folder of a group as /proc/PID/cgroup names it; None when it is not below this mount."""
        root = self.root.rstrip("/")
        if group != root and not group.startswith(root + "/"):
            return None
        return self.mount / group[len(root) :].lstrip("/")


def hierarchies(proc: Path = PROC) -> dict[str, Hierarchy]:
    """Return the hierarchies of cgroup v1 by controller; {} where there are none. The first mount of each is taken."""
    by_controller: dict[str, Hierarchy] = {}
    for line in (proc / "self" / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if not after.startswith("cgroup "):
            continue
        super_options = after.split(" ")[2]
        words = before.split(" ")
        options = super_options.split(",")
        controllers = frozenset(options) & _CONTROLLERS
        writable = "ro" not in options and "ro" not in words[5].split(",")
        hierarchy = Hierarchy(Path(_plain(words[4])), _plain(words[3]), controllers, writable)
        for name in controllers:
            by_controller.setdefault(name, hierarchy)
    return by_controller


def _plain(text: str) -> str:
    r"""Undo the escapes of mountinfo: \040 is a space."""
    return text.encode().decode("unicode_escape") if "\\" in text else text
