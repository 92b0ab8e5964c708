"""What every resizer does, and how it refuses.

A resizer attaches a container, limits it, restores its limits and detaches it. All
calls are synchronous; the shell runs those of a `slow` resizer in a thread, one at a time per container.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from quicksilver.common.errors import QuicksilverError


class ResizeRefusedError(QuicksilverError):
    """The system refused a change; the container keeps the limits that it had.

    `gone`: the container's processes do not exist any more, which is no fault. `retriable`: the same call may succeed
    in a moment, because the container is only beginning or a daemon restarts.
    """

    def __init__(
        self,
        container_id: str,
        setting: str,
        why: str,
        *,
        remedy: str = "",
        gone: bool = False,
        retriable: bool = False,
    ) -> None:
        super().__init__(f"{setting} refused: {why}", place=container_id, remedy=remedy)
        self.container_id, self.setting, self.why = container_id, setting, why
        self.gone, self.retriable = gone, retriable


@dataclass(frozen=True, slots=True)
class Leader:
    """Where a container's processes begin: the session leader of its launch script, as the pid file names it."""

    pid: int
    began_s: float
    """Unix time, against recycled process ids."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a container has used since it was attached; None where the mechanism does not measure it."""

    cpu_s: float | None
    memory_mb: int | None
    """Resident now."""


class Resizer(Protocol):
    """One mechanism."""

    name: str
    """As in settings and metrics: cgroup1, cgroup2, docker, signals."""
    slow: bool
    """Whether calls take milliseconds, and are better made in a thread."""
    pauses_only: bool
    """Whether it knows only all or nothing: a shrunk container stands still."""

    def attach(self, container_id: str, leader: Leader) -> None:
        """Attach all processes of a container, those that are forked meanwhile too.

        Raises ResizeRefusedError; then nothing is left behind. Attaching twice is harmless.
        """

    def shrink(self, container_id: str, cores: float) -> None:
        """Bound the container's CPU to `cores` (more than 0). Raises ResizeRefusedError."""

    def freeze(self, container_id: str) -> None:
        """Stop all processes of the container where they are. Raises ResizeRefusedError."""

    def restore(self, container_id: str) -> None:
        """Give the container back the limits that it had when it was attached, and let it go on.

        Raises ResizeRefusedError.
        """

    def holds(self, container_id: str) -> bool:
        """Return whether the limits are still those that were set here last: somebody else may have rewritten them."""

    def reassert(self, container_id: str) -> None:
        """Write the limits that were set here last again, and catch what escaped. Raises ResizeRefusedError."""

    def usage(self, container_id: str) -> Usage:
        """Return what the container has used; Usage(None, None) when it is gone."""

    def detach(self, container_id: str) -> None:
        """Let go: full limits, processes back where they came from, nothing left behind. Never raises for what is gone.

        Raises ResizeRefusedError when something that exists could not be given back.
        """

    def undo(self, container_id: str) -> dict[str, str | float | int | list[int]]:
        """Return what somebody else needs to know to give the full limits back when this process dies.

        JSON, with `resizer` (its name); see `sidecar.service.guardian`, which hands it to `undo_<name>`.
        """

    def parents(self) -> list[str]:
        """Return the parent groups that were made, the innermost first; the last sidecar removes them."""

    def close(self) -> None:
        """Let go of everything, the others too when one is refused. Raises the last ResizeRefusedError."""
