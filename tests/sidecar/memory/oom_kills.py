"""What the kernel killed for want of memory, for tests with real groups."""

from __future__ import annotations

from pathlib import Path

from sidecar.resizer.cgroup.files import keyed, read_or_none


class OomKills:
    """Counts what the kernel killed inside a memory group for want of memory there.

    cgroup v1 counts in the victim's own group alone, so groups inside are added; what a group counted before it
    vanished, and was not read, is lost.
    """

    def __init__(self, group: Path) -> None:
        self._group = group
        self._seen: dict[Path, int] = {}

    def new(self) -> int:
        """Return how many were killed since the last call. Raises ResizeRefusedError where it cannot be read."""
        counts = {group: self._count(group) for group in self._groups()}
        kills = sum(max(0, count - self._seen.get(group, 0)) for group, count in counts.items())
        self._seen = counts
        return kills

    def _groups(self) -> list[Path]:
        if (self._group / "memory.events").exists() or not self._group.is_dir():
            return [self._group]
        return [self._group, *(path for path in self._group.iterdir() if path.is_dir())]

    def _count(self, group: Path) -> int:
        text = read_or_none(group / "memory.events")
        if text is None:
            text = read_or_none(group / "memory.oom_control")
        return keyed(text or "").get("oom_kill", 0)
