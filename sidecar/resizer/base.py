"""The interface of all resizers, and the error with which they refuse.

A resizer attaches a container, limits it, restores its limits and detaches it. All calls are synchronous; calls of a
`slow` resizer run in a thread, one at a time per container.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

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


class Leader(NamedTuple):
    """Where a container's processes begin: the session leader of its launch script, as the pid file names it."""

    pid: int
    began_s: float
    """Unix time, against recycled process ids."""


class ContainerUsage(NamedTuple):
    """Use of a container since it was attached; None where the mechanism does not measure it."""

    cpu_s: float | None
    memory_mb: int | None
    """Resident now."""


class Resizer(Protocol):
    """One mechanism that limits containers."""

    name: str
    """Name in settings and metrics: cgroup1, cgroup2, docker, signals."""
    slow: bool
    """Whether calls take milliseconds, and should run in a thread."""
    pauses_only: bool
    """Whether it can only freeze: a shrunk container does not run at all."""

    def attach(self, container_id: str, leader: Leader) -> None:
        """Attach all processes of a container, including those that are forked meanwhile.

        Raises ResizeRefusedError; then nothing is left behind. Attaching twice is harmless.
        """

    def shrink(self, container_id: str, cores: float) -> None:
        """Bound the container's CPU to `cores` (more than 0). Raises ResizeRefusedError."""

    def freeze(self, container_id: str) -> None:
        """Freeze all processes of the container. Raises ResizeRefusedError."""

    def restore(self, container_id: str) -> None:
        """Give the container back the limits that it had when it was attached, and let it go on.

        Raises ResizeRefusedError.
        """

    def holds(self, container_id: str) -> bool:
        """Return whether the last limits set here are still in force: another program may have changed them."""

    def reassert(self, container_id: str) -> None:
        """Write the last limits again, and attach escaped processes. Raises ResizeRefusedError."""

    def usage(self, container_id: str) -> ContainerUsage:
        """Return the container's use; Usage(None, None) when it is gone."""

    def detach(self, container_id: str) -> None:
        """Restore full limits, move processes back, leave nothing behind. A missing container is no error.

        Raises ResizeRefusedError when something that exists could not be given back.
        """

    def undo(self, container_id: str) -> dict[str, str | float | int | list[int]]:
        """Return the record from which the guardian restores the full limits if this process dies.

        JSON, with `resizer` (its name); see `sidecar.service.guardian`, which hands it to `undo_<name>`.
        """

    def parents(self) -> list[str]:
        """Return the parent groups that were created, the innermost first; the last sidecar removes them."""

    def close(self) -> None:
        """Detach everything, and continue after a refusal. Raises the last ResizeRefusedError."""
