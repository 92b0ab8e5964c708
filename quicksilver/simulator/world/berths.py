"""Masters' own containers: guaranteed ones, which they hold until their jobs are over."""

from __future__ import annotations

from collections import deque
from random import Random

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Resources
from quicksilver.simulator.world.work import WorldJob
from quicksilver.simulator.world.yarn import Yarn
from rm_proxy.domain import ids


class Berths:
    """Which master holds what. With nothing to hold for each all masters run elsewhere."""

    def __init__(self, yarn: Yarn, size: Resources, rng: Random) -> None:
        """Begin without any. size: of each of them."""
        self._yarn, self._size, self._rng = yarn, size, rng
        self._containers: dict[int, y.ContainerProto] = {}
        """By job."""
        self._names: set[str] = set()
        """Of all that have not ended."""
        self._tasks: dict[int, Resources] = {}
        """Of the jobs under way, what a task of each takes."""
        self._waiting: deque[WorldJob] = deque()

    def __contains__(self, container_id: str) -> bool:
        """Return whether a container is a master's own."""
        return container_id in self._names

    def take(self, job: WorldJob) -> bool:
        """Give a job's master its container; False when it has to wait until another job is over."""
        if not self._size.vcores:
            return True
        sizes = [job.size, *self._tasks.values()]
        largest = Resources(max(size.memory_mb for size in sizes), max(size.vcores for size in sizes))
        own = self._yarn.place_master(job.number, self._size, largest, self._rng)
        if own is None:
            self._waiting.append(job)
            return False
        self._containers[job.number], self._tasks[job.number] = own, job.size
        self._names.add(ids.container_id_text(own.id))
        return True

    def of(self, number: int) -> y.ContainerProto | None:
        """Return what a job's master holds."""
        return self._containers.get(number)

    def leave(self, number: int) -> y.ContainerProto | None:
        """Note that a job is over; return the container that has to end."""
        self._tasks.pop(number, None)
        return self._containers.pop(number, None)

    def ended(self, container_id: str) -> None:
        """Forget a container that has ended."""
        self._names.remove(container_id)

    def next(self) -> WorldJob | None:
        """Return the job that has waited longest, which tries again."""
        return self._waiting.popleft() if self._waiting else None
