"""Resizes YARN containers that are Docker containers through the Engine that runs them.

A container's Docker container is found by its name, the YARN container id: so LinuxContainerExecutor's Docker runtime
names it, and `docker run --name $CONTAINER_ID` under DefaultContainerExecutor. Limits are set through the Engine, which
would write its own again with the next `docker update`; the limits in force are read from the cgroup.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.resizer.base import ContainerUsage, Leader, ResizeRefusedError
from sidecar.resizer.docker.engine import DEFAULT_URL, DockerContainer, Engine
from sidecar.resizer.docker.group import ContainerGroup, group_of
from sidecar.resizer.docker.limits import full, quota_us, shrunk
from sidecar.resizer.docker.records import DEFAULT_FOLDER, Record

_UNFROZEN: Final = "unable to freeze"
_PAUSE_WITHIN_S: Final = 8.0
_PAUSE_AGAIN_S: Final = 0.02
_LOCK_WAIT_S: Final = 2.0
"""A dying process lets go of its pipe and of its locks one after the other."""


@dataclass(slots=True)
class _HeldContainer:
    leader: Leader
    docker: DockerContainer
    record: Record
    group: ContainerGroup | None
    attached_cpu_s: float
    limits: dict[str, int]
    """As they were set last; those that it had are `full`."""
    paused: bool = field(default=False)


class DockerResizer:
    """The resizer of one Docker daemon."""

    name = "docker"
    slow = True
    pauses_only = False

    def __init__(self, url: str = DEFAULT_URL, records: Path = DEFAULT_FOLDER, timeout_s: float = 10.0) -> None:
        self.engine, self.records = Engine(url, timeout_s), records
        self._containers: dict[str, _HeldContainer] = {}

    def knows(self, container_id: str) -> bool:
        """Return whether a Docker container of this name exists. Raises ResizeRefusedError."""
        return self.engine.find(container_id, container_id) is not None

    def attach(self, container_id: str, leader: Leader) -> None:
        """Attach a Docker container; while it is still starting, the refusal is retriable."""
        container = self._containers.get(container_id)
        if container is not None:
            if container.leader == leader:
                return
            self.detach(container_id)  # it was launched again
        docker = self._running(container_id)
        group = group_of(docker.pid)
        shares = docker.limits.cpu_shares > 0 or (group is not None and not group.v2)
        record = Record.make(self.records, container_id, self.engine.url, docker, shares)
        try:
            if record.adopted:
                give_back(self.engine, record)
            elif docker.paused:
                raise ResizeRefusedError(
                    container_id, "attach", "somebody else paused it", remedy="docker unpause", retriable=True
                )
        except ResizeRefusedError as error:
            if record.adopted and not error.gone:
                record.close()
            else:
                record.drop()
            raise
        used_s = (group.cpu_s() if group else None) or 0.0
        self._containers[container_id] = _HeldContainer(
            leader, docker, record, group, used_s, full(record.limits, record.shares)
        )

    def shrink(self, container_id: str, cores: float) -> None:
        """Bound the container's CPU; a paused one is resumed within the bound."""
        container = self._of(container_id, "shrink")
        self._set(container_id, container, shrunk(container.record.limits, cores, container.record.shares))
        self._unpause(container_id, container)

    def freeze(self, container_id: str) -> None:
        """Pause the container."""
        container = self._of(container_id, "freeze")
        if container.paused:
            return
        unanswered = container.record.paused
        self._note(container, paused=True)
        try:
            self._pause(container_id, container)
        except ResizeRefusedError as error:
            if error.retriable or container.paused:  # the daemon may have done it; or did, but not its bound again
                raise
            if not (unanswered and self._running(container_id).paused):
                self._note(container, paused=False)
                raise
        container.paused = True

    def restore(self, container_id: str) -> None:
        """Restore the container's own limits, and resume it if it was paused here."""
        container = self._of(container_id, "restore")
        self._set(container_id, container, full(container.record.limits, container.record.shares))
        self._unpause(container_id, container)

    def holds(self, container_id: str) -> bool:
        """Return whether the cgroup still has the limits that were set last; True if it is gone."""
        container = self._containers.get(container_id)
        if container is None:
            return False
        if container.group is None:
            return self._holds_by_engine(container_id, container)
        quota, shares, frozen = container.group.quota_us(), container.group.shares(), container.group.frozen()
        return (
            quota in (None, quota_us(container.limits))
            and (shares is None or shares == container.limits.get("CpuShares", shares))
            and (not container.paused or frozen in (None, True))
        )

    def reassert(self, container_id: str) -> None:
        """Write the limits that were set last again."""
        container = self._of(container_id, "reassert")
        self._update(container_id, container, container.limits)
        if container.paused and not self._running(container_id).paused:
            self._pause(container_id, container)

    def usage(self, container_id: str) -> ContainerUsage:
        """Return the use of the container's cgroup since it was attached, all its processes together."""
        container = self._containers.get(container_id)
        if container is None or container.group is None:
            return ContainerUsage(None, None)
        cpu_s = container.group.cpu_s()
        return ContainerUsage(None if cpu_s is None else cpu_s - container.attached_cpu_s, container.group.memory_mb())

    def detach(self, container_id: str) -> None:
        """Restore the container's limits and forget it."""
        container = self._containers.get(container_id)
        if container is None:
            return
        try:
            self.restore(container_id)
        except ResizeRefusedError as error:
            if not error.gone:
                raise
        container.record.drop()
        del self._containers[container_id]

    def undo(self, container_id: str) -> dict[str, str | float | int | list[int]]:
        """Return the path of the record with the original limits."""
        return {"resizer": self.name, "record": str(self._of(container_id, "undo").record.path)}

    def close(self) -> None:
        """Detach everything. Raises the last ResizeRefusedError; those records stay for the guardian."""
        last: ResizeRefusedError | None = None
        for container_id, container in list(self._containers.items()):
            try:
                self.detach(container_id)
            except ResizeRefusedError as error:
                container.record.close()
                last = error
        self._containers.clear()
        self.engine.close()
        if last is not None:
            raise last

    def parents(self) -> list[str]:
        """Return no parent groups: the Engine creates its own."""
        return []

    def _running(self, container_id: str) -> DockerContainer:
        docker = self.engine.find(container_id, container_id)
        if docker is None or docker.begins:
            why = "there is no Docker container of this name" if docker is None else "it has not begun yet"
            raise ResizeRefusedError(container_id, "attach", why, retriable=True)
        if not docker.runs:
            raise ResizeRefusedError(container_id, "attach", f"the Docker container is {docker.status}", gone=True)
        return docker

    def _of(self, container_id: str, setting: str) -> _HeldContainer:
        container = self._containers.get(container_id)
        if container is None:
            raise ResizeRefusedError(container_id, setting, "it was not attached")
        return container

    def _set(self, container_id: str, container: _HeldContainer, limits: dict[str, int]) -> None:
        if limits != container.limits or not self.holds(container_id):
            self._update(container_id, container, limits)
            container.limits = limits

    def _update(self, container_id: str, container: _HeldContainer, limits: dict[str, int]) -> None:
        self.engine.update(container.docker.docker_id, limits, container_id)
        group = container.group
        if group is not None and group.quota_us() is None:  # the Engine takes limits for the next start
            raise ResizeRefusedError(container_id, "docker update", "its processes are over", gone=True)

    def _pause(self, container_id: str, container: _HeldContainer) -> None:
        """Pause, with retries: the kernel freezes tasks when they run next, and the Engine gives up before.

        A container that its bound has stopped gets its own limits for that time.
        """
        bound, until_s = container.limits, time.monotonic() + _PAUSE_WITHIN_S
        try:
            while not self._paused(container_id, container, time.monotonic() >= until_s):
                self._set(container_id, container, full(container.record.limits, container.record.shares))
                time.sleep(_PAUSE_AGAIN_S)
        finally:
            self._set(container_id, container, bound)

    def _paused(self, container_id: str, container: _HeldContainer, is_last: bool) -> bool:
        try:
            self.engine.pause(container.docker.docker_id, container_id)
        except ResizeRefusedError as error:
            if is_last or _UNFROZEN not in error.why:
                raise
            return False
        container.paused = True
        return True

    def _unpause(self, container_id: str, container: _HeldContainer) -> None:
        if container.record.paused:
            _let_go_on(self.engine, container.docker.docker_id, container_id)
            container.paused = False
            self._note(container, paused=False)

    def _note(self, container: _HeldContainer, *, paused: bool) -> None:
        container.record.paused = paused
        container.record.write()

    def _holds_by_engine(self, container_id: str, container: _HeldContainer) -> bool:
        docker = self.engine.find(container.docker.docker_id, container_id)
        if docker is None or not docker.runs:
            return True
        limits = {"NanoCpus": docker.limits.nano_cpus, "CpuQuota": docker.limits.cpu_quota or -1}
        return all(limits.get(key, value) == value for key, value in container.limits.items()) and (
            not container.paused or docker.paused
        )


def give_back(engine: Engine, record: Record) -> None:
    """Restore a container's limits from its record. Raises ResizeRefusedError; `gone` when it does not exist."""
    engine.update(record.docker_id, full(record.limits, record.shares), record.container_id)
    if record.paused:
        _let_go_on(engine, record.docker_id, record.container_id)
        record.paused = False
        record.write()


def undo_docker(undo: Mapping[str, object], wait_s: float = _LOCK_WAIT_S) -> None:
    """Restore limits that a dead sidecar set; ignored if another sidecar has the container, or it has its limits.

    Raises ResizeRefusedError, also when Docker does not answer; the record then stays for the next sidecar.
    """
    record = Record.open(Path(str(undo["record"])), wait_s=wait_s)
    if record is None:
        return
    engine = Engine(record.url)
    try:
        if record.adopted:
            give_back(engine, record)
    except ResizeRefusedError as error:
        if not error.gone:
            record.close()
            raise
    finally:
        engine.close()
    record.drop()


def undo_all(folder: Path = DEFAULT_FOLDER) -> list[ResizeRefusedError]:
    """Undo every record that no living sidecar holds, and return the refusals."""
    refused = []
    for path in sorted(folder.glob("*.json")):
        try:
            undo_docker({"record": str(path)}, wait_s=0)
        except ResizeRefusedError as error:
            refused.append(error)
    return refused


def _let_go_on(engine: Engine, docker_id: str, container_id: str) -> None:
    """Unpause; it is no error if another program did so already."""
    try:
        engine.unpause(docker_id, container_id)
    except ResizeRefusedError:
        docker = engine.find(docker_id, container_id)
        if docker is None or docker.paused:
            raise
