"""A light application master for the virtual clock: it asks, starts what it gets, and asks again for what is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.simulator.world.work import WorldJob
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
class MasterProgress:
    """One task; times since the begin of the run, None while they are unknown."""

    wanted_s: float
    began_s: float | None = None
    ended_s: float | None = None
    lost: int = 0
    """How often its container ended without it: shed or killed."""


class Master:
    """One job. It heartbeats until all tasks are done; asks are absolute rows, and only changed ones are sent.

    Tasks of a stage are asked for with the heartbeat after enough of the stage before have ended and none of it waits
    (MapReduce's slow start); containers that begin before all of it has ended stand still. If a task of the stage that
    is on is lost, those of the next one are asked for no more, and a container that stands still makes room for it.
    """

    def __init__(
        self,
        job: WorldJob,
        attempt: y.ApplicationAttemptIdProto,
        where: Where,
        now_s: float,
        slow_start_ratio: float = 1.0,
    ) -> None:
        """Begin. slow_start_ratio: share of a stage that has ended when the next one is asked for."""
        self.job, self.attempt = job, attempt
        self.attempt_id = ids.attempt_id_text(attempt)
        self.tasks = [MasterProgress(now_s) for _ in job.tasks]
        self.assigned: dict[str, int] = {}
        """Containers to tasks."""
        self.grants: set[str] = set()
        self.released = 0
        self._open_tasks = len(self.tasks)
        self._where, self._ratio = where, slow_start_ratio
        self._named = any(task.host is not None for task in job.tasks)
        self._demand: dict[int, dict[int, tuple[str, ...]]] = {}
        """By stage: tasks that have no container."""
        self._rows: dict[Row, int] = {}
        self._changed: dict[Row, None] = {}
        self._release: list[y.ContainerIdProto] = []
        self._response_id = 0
        sizes = [tasks for tasks, _ in job.stages] or [len(self.tasks)]
        self._firsts = [0, *accumulate(sizes)]
        """Of each stage the number of its first task; then that of all tasks."""
        self._stage_of = [stage for stage, size in enumerate(sizes) for _ in range(size)]
        self._left_of = list(sizes)
        """Of each stage, how many tasks have not ended."""
        self._on = self._last_stage = 0
        """The stage whose tasks may run, and the last one that is asked for."""
        self._begun: set[int] = set()
        """Tasks with a container that runs or has done them."""
        self._standing: dict[str, None] = {}
        """Containers of the stage behind the one that is on."""
        self._to_begin: list[str] = []
        self._to_end: list[str] = []
        self._ask(now_s)

    @property
    def tags(self) -> tuple[str, ...]:
        """What it tells of its tasks' durations, of each stage its own."""
        stages = (f"expected_s:{priority_of(n)}:{told_s:.3f}" for n, (_, told_s) in enumerate(self.job.stages))
        return (f"expected_s:{self.job.told_s:.3f}", *stages)

    @property
    def done(self) -> bool:
        """Whether all tasks have ended."""
        return not self._open_tasks

    @property
    def at_rest(self) -> bool:
        """Whether it has tasks left, and nothing to say."""
        return bool(self._open_tasks) and not self._changed and not self._release

    # Stages

    def _ask(self, now_s: float) -> None:
        """Want all tasks of the stage that is to be asked for, as far as none has a container."""
        assigned, stage = set(self.assigned.values()), self._last_stage
        for number in range(self._firsts[stage], self._firsts[stage + 1]):
            if number not in assigned and self.tasks[number].ended_s is None:
                self.tasks[number].wanted_s = now_s
                self._want(number)

    def _look_ahead(self, now_s: float) -> None:
        """Ask for the next stage when it is time."""
        on, last = self._on, len(self._left_of) - 1
        if self._last_stage != on or on == last or self._demand.get(on) or priority_of(on) == priority_of(on + 1):
            return
        first, end = self._firsts[on], self._firsts[on + 1]
        if end - first - self._left_of[on] < self._ratio * (end - first):
            return
        if all(number in self._begun for number in range(first, end)):
            self._last_stage = on + 1
            self._ask(now_s)

    def _next_stage(self, now_s: float) -> None:
        """Begin the next stage: containers that stood still go on."""
        self._on += 1
        self._to_begin += self._standing
        for container_id in self._standing:
            self.tasks[self.assigned[container_id]].began_s = now_s
        self._standing = {}
        if self._last_stage < self._on:
            self._last_stage = self._on
            self._ask(now_s)
        self._look_ahead(now_s)

    def _fall_behind(self) -> None:
        """Put off the next stage: a task of the one that is on needs a container again."""
        self._last_stage = self._on
        for number, names in self._demand.pop(self._on + 1, {}).items():
            self._count(number, names, -1)
        lacking = max(0, len(self._demand[self._on]) - len(self._to_end))
        for container_id in list(self._standing)[:lacking]:
            del self._standing[container_id]
            self._begun.discard(self.assigned.pop(container_id))
            self._to_end.append(container_id)

    def stands(self, container_id: str) -> bool:
        """Return whether a container's task may not run yet."""
        return self._stage_of[self.assigned[container_id]] > self._on

    def take_to_begin(self) -> list[str]:
        """Return containers whose tasks may run from now on, and forget them."""
        begin, self._to_begin = self._to_begin, []
        return begin

    def take_to_end(self) -> list[str]:
        """Return containers that stand still and have to end, and forget them."""
        end, self._to_end = self._to_end, []
        return end

    # Asks

    def _want(self, number: int) -> None:
        host = self.job.tasks[number].host
        names = (_ANY,) if host is None else (*self._where(host), _ANY)
        self._demand.setdefault(self._stage_of[number], {})[number] = names
        self._count(number, names, 1)

    def _count(self, number: int, names: tuple[str, ...], more: int) -> None:
        priority = priority_of(self._stage_of[number])
        for name in names:
            row = priority, name
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

    # Containers

    def take(self, body: bytes) -> list[y.ContainerProto]:
        """Handle an answer; return the containers that are to be started."""
        answer = y.AllocateResponseProto.FromString(body)
        self._response_id = answer.response_id
        for status in answer.completed_container_statuses:
            self._completed(status)
        return [container for container in answer.allocated_containers if self._assign(container)]

    def _assign(self, container: y.ContainerProto) -> bool:
        container_id = ids.container_id_text(container.id)
        assert container_id not in self.grants, f"{container_id} was given twice"
        self.grants.add(container_id)
        host, priority = container.nodeId.host, container.priority.priority
        stage = next((n for n, tasks in self._demand.items() if tasks and priority_of(n) == priority), None)
        if stage is None:
            self.released += 1
            self._release.append(container.id)
            return False
        tasks = self._demand[stage]
        number = next(iter(tasks))
        if self._named:
            number = next((n for n, names in tasks.items() if host in names), number)
        self._count(number, tasks.pop(number), -1)
        self.assigned[container_id] = number
        return True

    def reuse(self, container_id: str) -> bool:
        """Give a container whose task is done the next one that may run; False when none is wanted."""
        tasks = self._demand.get(self._on)
        if not tasks:
            return False
        number = next(iter(tasks))
        self._count(number, tasks.pop(number), -1)
        self.assigned[container_id] = number
        return True

    def _completed(self, status: y.ContainerStatusProto) -> None:
        container_id = ids.container_id_text(status.container_id)
        self._standing.pop(container_id, None)
        number = self.assigned.pop(container_id, None)
        if number is None or self.tasks[number].ended_s is not None:
            return
        assert status.exit_status != 0, "a task that ended well was told to have ended"
        self.tasks[number].lost += 1
        self._begun.discard(number)
        if self._stage_of[number] <= self._last_stage:
            self._want(number)
        if self._stage_of[number] == self._on:
            self._fall_behind()

    def began(self, container_id: str, now_s: float) -> None:
        """Note that a container runs, and its task, if its stage is on."""
        number = self.assigned.get(container_id)
        if number is None:
            return
        self._begun.add(number)
        if self.stands(container_id):
            self._standing[container_id] = None
        else:
            self.tasks[number].began_s = now_s
        self._look_ahead(now_s)

    def ended(self, container_id: str, now_s: float) -> None:
        """Note that a task says that it is done."""
        number = self.assigned[container_id]
        task, stage = self.tasks[number], self._stage_of[number]
        assert task.ended_s is None, f"{container_id}: its task was done before"
        assert stage == self._on, f"{container_id}: its task ran before its stage"
        task.ended_s = now_s
        self._open_tasks -= 1
        self._left_of[stage] -= 1
        if self._left_of[stage]:
            self._look_ahead(now_s)
        elif self._open_tasks:
            self._next_stage(now_s)
