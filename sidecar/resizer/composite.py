"""Resizes Docker containers through their Engine, and all others with another resizer; chosen for each container.

A YARN container whose command is `docker run` has its pid file before it has its Docker container. While the client is
among its processes, attaching is refused retriably; a Docker container that appears even later is taken over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Protocol, runtime_checkable

from sidecar.resizer.base import ContainerUsage, Leader, Resizer, ResizeRefusedError
from sidecar.resizer.docker.resizer import DockerResizer
from sidecar.resizer.processes import PROC, family, scan

_LATE_S: Final = 60.0
"""Time after attaching to the other resizer within which a container's Docker container may still appear."""


@runtime_checkable
class _Ending(Protocol):
    """Resizers with state of their own to close, besides the interface."""

    def parents(self) -> list[str]: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _CgroupPlace:
    resizer: Resizer
    leader: Leader
    attached_s: float
    last: Callable[[Resizer], None] | None = None
    """The last request, repeated at the resizer that takes the container over."""


class DockerOr:
    """A Docker resizer, and one for all other containers."""

    slow = True

    def __init__(
        self,
        docker: DockerResizer,
        fallback: Resizer,
        now_s: Callable[[], float] = time.monotonic,
        late_s: float = _LATE_S,
    ) -> None:
        self.docker, self.fallback, self.late_s = docker, fallback, late_s
        self.name = f"{docker.name} or {fallback.name}"
        self.pauses_only = fallback.pauses_only
        self._now_s = now_s
        self._places: dict[str, _CgroupPlace] = {}

    def of(self, container_id: str) -> Resizer:
        """Return the resizer that a container is attached to. Raises ResizeRefusedError when none has."""
        return self._place(container_id).resizer

    def attach(self, container_id: str, leader: Leader) -> None:
        """Attach a container to the resizer that it belongs to."""
        place = self._places.get(container_id)
        if place is not None:
            if place.leader == leader:
                place.resizer.attach(container_id, leader)
                return
            self.detach(container_id)  # it was launched again
        resizer = self._choose(container_id, leader)
        resizer.attach(container_id, leader)
        self._places[container_id] = _CgroupPlace(resizer, leader, self._now_s())

    def shrink(self, container_id: str, cores: float) -> None:
        """Bound the container's CPU."""
        self._do(container_id, lambda resizer: resizer.shrink(container_id, cores))

    def freeze(self, container_id: str) -> None:
        """Stop the container where it is."""
        self._do(container_id, lambda resizer: resizer.freeze(container_id))

    def restore(self, container_id: str) -> None:
        """Restore the container's own limits."""
        self._do(container_id, lambda resizer: resizer.restore(container_id))

    def holds(self, container_id: str) -> bool:
        """Return whether the limits are in force, and the container is at the right resizer."""
        place = self._places.get(container_id)
        return place is not None and place.resizer.holds(container_id) and not self._is_late(container_id, place)

    def reassert(self, container_id: str) -> None:
        """Write the limits again; take over a container whose Docker container appeared late: its `undo` is another."""
        place = self._place(container_id)
        if not self._is_late(container_id, place):
            place.resizer.reassert(container_id)
            return
        self.docker.attach(container_id, place.leader)
        before, place.resizer = place.resizer, self.docker
        if place.last is not None:
            place.last(self.docker)
        before.detach(container_id)

    def usage(self, container_id: str) -> ContainerUsage:
        """Return the container's use."""
        place = self._places.get(container_id)
        return place.resizer.usage(container_id) if place else ContainerUsage(None, None)

    def detach(self, container_id: str) -> None:
        """Detach the container."""
        place = self._places.get(container_id)
        if place is not None:
            place.resizer.detach(container_id)
            del self._places[container_id]

    def undo(self, container_id: str) -> dict[str, str | float | int | list[int]]:
        """Return the record to restore the limits; its `resizer` is the one that has the container."""
        return self.of(container_id).undo(container_id)

    def parents(self) -> list[str]:
        """Return the parent groups that the other resizer created."""
        return self.fallback.parents() if isinstance(self.fallback, _Ending) else []

    def close(self) -> None:
        """Detach everything. Raises the last ResizeRefusedError."""
        try:
            if isinstance(self.fallback, _Ending):
                self.fallback.close()
        finally:
            self.docker.close()
            self._places.clear()

    def _choose(self, container_id: str, leader: Leader) -> Resizer:
        client = _docker_client(container_id, leader)
        try:
            if self.docker.knows(container_id):
                return self.docker
        except ResizeRefusedError as error:
            if client or not error.retriable:
                raise
            return self.fallback  # no Docker here, and nothing that asks for it
        if client:
            why = "`docker run` has begun, but not its Docker container"
            raise ResizeRefusedError(container_id, "attach", why, retriable=True)
        return self.fallback

    def _is_late(self, container_id: str, place: _CgroupPlace) -> bool:
        if place.resizer is self.docker or self._now_s() - place.attached_s > self.late_s:
            return False
        try:
            return self.docker.knows(container_id)
        except ResizeRefusedError as error:
            if not error.retriable:
                raise
            return False

    def _do(self, container_id: str, action: Callable[[Resizer], None]) -> None:
        place = self._place(container_id)
        action(place.resizer)
        place.last = action

    def _place(self, container_id: str) -> _CgroupPlace:
        place = self._places.get(container_id)
        if place is None:
            raise ResizeRefusedError(container_id, "resize", "it was not attached")
        return place


def _docker_client(container_id: str, leader: Leader) -> bool:
    """Return whether `docker run` for a container of this name is among the processes."""
    for pid in family(leader, scan()):
        try:
            words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if PurePath(words[0]).name == "docker" and "run" in words and any(container_id in word for word in words):
            return True
    return False
