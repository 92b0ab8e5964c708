"""A light application master for the virtual clock: it asks, starts what it gets, and asks again for what is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.simulator.world.work import Job
from rm_proxy.domain import ids

PRIORITY: Final = 20
"""Of the first stage, as MapReduce's maps; reduces have 10, later stages precedence over earlier ones."""
_ANY: Final = "*"

Row = tuple[int, str]
"""Priority and name of a host, a rack or ANY."""
Where = Callable[[int], tuple[str, str]]
"""Number of a node to its host and rack."""


def priority_of(stage: int) -> int:
    """Return the request priority of a stage's tasks."""
    return PRIORITY if stage == 0 else max(1, 11 - stage)


@dataclass(slots=True)
class Progress:
    """One task; times since the begin of the run, None while they are unknown."""

    wanted_s: float
    began_s: float | None = None
    ended_s: float | None = None
    lost: int = 0
    """How often its container ended without it: shed or killed."""


class Master:
    """One job. It heartbeats until all tasks are done; asks are absolute rows, and only changed ones are sent.

    Tasks of a stage are asked for with the heartbeat after the end of the stage before.
    """

    def __init__(self, job: Job, attempt: y.ApplicationAttemptIdProto, where: Where, now_s: float) -> None:
        self.job, self.attempt = job, attempt
        self.attempt_id = ids.attempt_id_text(attempt)
        self.tasks = [Progress(now_s) for _ in job.tasks]
        self.assigned: dict[str, int] = {}
        """Containers to tasks."""
        self.given: set[str] = set()
        self.released = 0
        self._left = len(self.tasks)
        self._where = where
        self._named = any(task.host is not None for task in job.tasks)
        self._wanted: dict[int, tuple[str, ...]] = {}
        self._rows: dict[Row, int] = {}
        self._changed: dict[Row, None] = {}
        self._release: list[y.ContainerIdProto] = []
        self._response_id = 0
        self._stages = [tasks for tasks, _ in job.stages] or [len(self.tasks)]
        self._stage, self._first = -1, 0
        """The stage that is on, and the number of the first task of the next one."""
        self._next_stage(now_s)

    @property
    def tags(self) -> tuple[str, ...]:
        """What it tells of its tasks' durations, of each stage its own."""
        stages = (f"expected_s:{priority_of(n)}:{told_s:.3f}" for n, (_, told_s) in enumerate(self.job.stages))
        return (f"expected_s:{self.job.told_s:.3f}", *stages)

    @property
    def done(self) -> bool:
        """Whether all tasks have ended."""
        return not self._left

    @property
    def at_rest(self) -> bool:
        """Whether it has tasks left, and nothing to say."""
        return bool(self._left) and not self._changed and not self._release

    def _next_stage(self, now_s: float) -> None:
        self._stage += 1
        self.priority = priority_of(self._stage)
        """Of what is asked for now."""
        first, self._left_of_stage = self._first, self._stages[self._stage]
        self._first += self._left_of_stage
        for number in range(first, self._first):
            self.tasks[number].wanted_s = now_s
            self._want(number)

    def _names(self, number: int) -> tuple[str, ...]:
        host = self.job.tasks[number].host
        return (_ANY,) if host is None else (*self._where(host), _ANY)

    def _want(self, number: int) -> None:
        names = self._wanted[number] = self._names(number)
        self._count(names, 1)

    def _count(self, names: tuple[str, ...], more: int) -> None:
        for name in names:
            row = self.priority, name
            self._rows[row] = self._rows.get(row, 0) + more
            self._changed[row] = None

    def request(self) -> bytes:
        """Return the next heartbeat."""
        request = y.AllocateRequestProto(response_id=self._response_id, progress=0.5, release=self._release)
        for key in self._changed:
            row = request.ask.add(resource_name=key[1], num_containers=self._rows[key], relax_locality=True)
            row.priority.priority = key[0]
            row.capability.memory = self.job.size.memory_mb
            row.capability.virtual_cores = int(self.job.size.vcores)
            row.execution_type_request.execution_type = y.GUARANTEED
        self._rows = {key: count for key, count in self._rows.items() if count}
        self._changed, self._release = {}, []
        return request.SerializeToString()

    def take(self, body: bytes) -> list[y.ContainerProto]:
        """Handle an answer; return the containers that are to be started."""
        answer = y.AllocateResponseProto.FromString(body)
        self._response_id = answer.response_id
        for status in answer.completed_container_statuses:
            self._completed(status)
        return [container for container in answer.allocated_containers if self._assign(container)]

    def _assign(self, container: y.ContainerProto) -> bool:
        container_id = ids.container_id_text(container.id)
        assert container_id not in self.given, f"{container_id} was given twice"
        self.given.add(container_id)
        host = container.nodeId.host
        number = next(iter(self._wanted), None)
        if self._named:
            number = next((n for n, names in self._wanted.items() if host in names), number)
        if number is None or container.priority.priority != self.priority:
            self.released += 1
            self._release.append(container.id)
            return False
        self._count(self._wanted.pop(number), -1)
        self.assigned[container_id] = number
        return True

    def reuse(self, container_id: str) -> bool:
        """Give a container whose task is done the next one that is wanted; False when none is."""
        number = next(iter(self._wanted), None)
        if number is None:
            return False
        self._count(self._wanted.pop(number), -1)
        self.assigned[container_id] = number
        return True

    def _completed(self, status: y.ContainerStatusProto) -> None:
        number = self.assigned.pop(ids.container_id_text(status.container_id), None)
        if number is None or self.tasks[number].ended_s is not None:
            return
        assert status.exit_status != 0, "a task that ended well was told to have ended"
        self.tasks[number].lost += 1
        self._want(number)

    def began(self, container_id: str, now_s: float) -> None:
        """Note that the task in a container runs."""
        if container_id in self.assigned:
            self.tasks[self.assigned[container_id]].began_s = now_s

    def ended(self, container_id: str, now_s: float) -> None:
        """Note that a task says that it is done."""
        task = self.tasks[self.assigned[container_id]]
        assert task.ended_s is None, f"{container_id}: its task was done before"
        task.ended_s = now_s
        self._left -= 1
        self._left_of_stage -= 1
        if not self._left_of_stage and self._left:
            self._next_stage(now_s)
