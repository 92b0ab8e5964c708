"""Reads the mounts of a process: /proc/self/mountinfo (proc(5))."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sidecar.resizer.processes import PROC

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class Hierarchy(NamedTuple):
    """A mounted hierarchy of control groups; as one line of mountinfo, any other mount."""

    number: int
    parent: int
    root: str
    """The folder of the file system that is seen at the mount point; / is all of it."""
    mount: Path
    """The mount point."""
    kind: str
    """Type of the file system."""
    controllers: frozenset[str]
    """The controllers of cgroup v1, among other options of the file system."""
    writable: bool
    """Whether neither the mount nor its file system is read-only."""

    def folder(self, path: str) -> Path | None:
        """Return where a folder of the file system is seen; None when it is not below this mount."""
        root = self.root.rstrip("/")
        if path != root and not path.startswith(root + "/"):
            return None
        return self.mount / path[len(root) :].lstrip("/")


def mounts(kind: str, proc: Path = PROC) -> list[Hierarchy]:
    """Return the mounts of this type that can be reached, writable ones first, else in the kernel's order.

    A mount that lies under another one is left out: its mount point shows the other.
    """
    every = [_parsed(line) for line in (proc / "self" / "mountinfo").read_text(encoding="utf-8").splitlines()]
    matches = [mount for mount in every if mount.kind == kind and not _is_covered(mount, every)]
    return sorted(matches, key=lambda mount: not mount.writable)


def _is_covered(mount: Hierarchy, every: Sequence[Hierarchy]) -> bool:
    """Return whether another mount lies on this one, or on a folder above it in the same parent mount.

    The order of lines does not show it: / itself is often listed after /sys.
    """
    if any(cover.parent == mount.number and cover.mount == mount.mount for cover in every):
        return True
    by_number = {peer.number: peer for peer in every}
    below = mount
    for _ in every:  # no more levels than mounts
        above = by_number.get(below.parent)
        if above is None or above is below:
            return False
        if any(cover.parent == above.number and cover.mount in below.mount.parents for cover in every):
            return True
        below = above
    return False


def _parsed(line: str) -> Hierarchy:
    before, _, after = line.partition(" - ")
    words, (kind, _, options) = before.split(" "), after.split(" ")[:3]
    whole = frozenset(options.split(","))
    writable = "ro" not in words[5].split(",") and "ro" not in whole
    return Hierarchy(int(words[0]), int(words[1]), _plain(words[3]), Path(_plain(words[4])), kind, whole, writable)


def _plain(text: str) -> str:
    r"""Undo the escapes of mountinfo: \040 is a space."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
