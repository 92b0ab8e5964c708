"""A MapReduce master as the cluster sees it: what RMContainerAllocator asks, assigns, releases and asks again (3.4).

A machine: answers of the ResourceManager and notes of the tasks go in; asks, starts and stops come out. Left out:
blacklists, limits of running tasks, speculation, and running maps again whose output was lost with their node.
Assignment follows MapReduce to its quirks: a grant of any map priority may go to a map asked for at another one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_lab.bench.emulator.masters import reduces
from quicksilver_lab.bench.emulator.masters.waiting import Given, RackOf, WaitingTasks
from quicksilver_lab.bench.emulator.model import MAP, JobSpec, TaskRecord
from rm_proxy.domain.ids import container_id_text, copied

KILLED: Final = frozenset({-100, -102, -108})
"""Exit codes that MapReduce takes for a kill by the system (ABORTED, PREEMPTED, KILLED_BY_CONTAINER_SCHEDULER); every
other one fails the attempt."""
_MOST_ERRORS: Final = 20


def one_rack(_host: str) -> str:
    """Return the rack of a host in a cluster without a topology script."""
    return "/default-rack"


@dataclass(frozen=True, slots=True)
class AmSettings:
    """How masters behave; names of Hadoop's settings in brackets."""

    opportunistic_percent: int = 0
    """Of 100 maps the first so many are asked for as OPPORTUNISTIC (mapreduce.job.num-opportunistic-maps-percent)."""
    slow_start: float = 1.0
    """Share of maps done before reduces are asked for (mapreduce.job.reduce.slowstart.completedmaps, 0.05 as shipped).
    1 here: the emulated reduces are timers, which do not wait for the output of the last map."""
    ramp_up_limit: float = 0.5
    """[yarn.app.mapreduce.am.job.reduce.rampup.limit]"""
    preemption_limit: float = 0.5
    """[yarn.app.mapreduce.am.job.reduce.preemption.limit]"""
    most_failures: int = 4
    """[mapreduce.map.maxattempts, mapreduce.reduce.maxattempts]"""

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        if not 0 <= self.opportunistic_percent <= 100:
            raise ValueError(f"opportunistic_percent={self.opportunistic_percent}: give a percentage, 0 to 100")
        if not (0 <= self.slow_start <= 1 and 0 <= self.ramp_up_limit <= 1 and 0 <= self.preemption_limit <= 1):
            raise ValueError("slow_start, ramp_up_limit and preemption_limit are shares: give each within 0 and 1")
        if self.most_failures < 1:
            raise ValueError(f"most_failures={self.most_failures}: a task needs at least one attempt")


@dataclass(frozen=True, slots=True)
class TaskLaunch:
    """Start a task in a granted container."""

    container_id: str
    container: y.ContainerProto
    task: int


@dataclass(frozen=True, slots=True)
class TaskStop:
    """Have a container killed by its node: its reduce makes room for maps."""

    container_id: str
    container: y.ContainerProto


Command = TaskLaunch | TaskStop


@dataclass(slots=True)
class _Attempt:
    """One task in a container."""

    task: int
    container: y.ContainerProto
    began_s: float | None = None
    done: bool = False
    stopping: bool = False


class MapReduceAm:
    """One job; `request`, `answered`, `began`, `done` and `refused` are its life, until `over`."""

    def __init__(
        self,
        job: JobSpec,
        settings: AmSettings,
        now_s: float,
        rack_of: RackOf = one_rack,
    ) -> None:
        """Ask for all maps. rack_of: the rack of a host."""
        self.job, self.settings = job, settings
        self.records = [TaskRecord(job.number, index, now_s) for index in range(len(job.tasks))]
        self.waiting = WaitingTasks(job.memory_mb, settings.opportunistic_percent, rack_of)
        self.broken = ""
        """Why the job failed, "" when it did not."""
        self.errors: list[str] = []
        self.granted = self.released = 0
        self.exits: Counter[int] = Counter()
        """Exit statuses of attempts that did not come to their end."""
        self._stage = [task.stage for task in job.tasks]
        self._pending: deque[int] = deque(n for n, stage in enumerate(self._stage) if stage != MAP)
        """Reduces that are not asked for yet."""
        self._attempts: dict[str, _Attempt] = {}
        self._releasing: dict[str, y.ContainerIdProto] = {}
        self._to_release: list[y.ContainerIdProto] = []
        self._failures: dict[int, int] = {}
        self._map_count = len(job.tasks) - len(self._pending)
        self._maps_done = self._reduces_done = 0
        self._headroom = 0
        self._reduces_started = False
        for number, task in enumerate(job.tasks):
            if task.stage == MAP:
                self.waiting.ask_map(number, task.hosts, now_s)

    # What the world asks

    @property
    def done_tasks(self) -> int:
        """How many tasks are done."""
        return self._maps_done + self._reduces_done

    @property
    def over(self) -> bool:
        """Whether all tasks are done, or the job has failed."""
        return bool(self.broken) or self.done_tasks == len(self.records)

    @property
    def open_containers(self) -> int:
        """Containers that were started, whose end YARN has not reported."""
        return len(self._attempts)

    @property
    def open_asks(self) -> tuple[int, int]:
        """Maps and reduces that wait for a container they were asked for."""
        return len(self.waiting.maps), len(self.waiting.reduces)

    # What happens

    def request(self) -> y.AllocateRequestProto | None:
        """Return the next heartbeat without its response id, None when it asks and releases nothing."""
        if not (self.waiting.table.changed or self._to_release):
            return None
        request = y.AllocateRequestProto(ask=self.waiting.table.drain(), release=self._to_release, progress=0.5)
        request.blacklist_request.SetInParent()
        self._to_release = []
        return request

    def resync(self) -> None:
        """Have everything sent again that is outstanding: the ResourceManager has forgotten this master."""
        self.waiting.table.resend()
        self._to_release = list(self._releasing.values())

    def answered(self, answer: y.AllocateResponseProto, now_s: float) -> list[Command]:
        """Handle an answer; return what is to be started and stopped."""
        if answer.HasField("limit"):
            self._headroom = max(0, answer.limit.memory) // self.job.memory_mb
        lost: list[tuple[int, bool]] = []
        for status in answer.completed_container_statuses:
            self._completed(status, now_s, lost)
        commands = self._assign(answer.allocated_containers, now_s)
        if self.broken:
            return []
        for task, failed in lost:
            self._ask_again(task, now_s, failed)
        if self._pending or self._reduces_started:
            commands += self._schedule_reduces(now_s)
        return commands

    def began(self, container_id: str, now_s: float) -> None:
        """Handle the start of a container's process."""
        attempt = self._attempts.get(container_id)
        if attempt is not None and not attempt.done:
            attempt.began_s = self.records[attempt.task].started_s = now_s

    def done(self, container_id: str, now_s: float) -> bool:
        """Handle the end of a task; False when its attempt was given up before."""
        attempt = self._attempts.get(container_id)
        if attempt is None or attempt.done or attempt.stopping:
            return False
        attempt.done = True
        self.records[attempt.task].ended_s = now_s
        if self._stage[attempt.task] == MAP:
            self._maps_done += 1
        else:
            self._reduces_done += 1
        return True

    def holds(self, container_id: str) -> bool:
        """Return whether a container has a task, and YARN has not reported its end."""
        return container_id in self._attempts

    def note(self, error: str) -> None:
        """Record an error, up to a limit."""
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(error)

    def refused(self, container_id: str, why: str, now_s: float) -> None:
        """Handle a container that could not be started: a failed attempt, and a container given back."""
        attempt = self._attempts.pop(container_id, None)
        if attempt is None or attempt.done:
            return
        self._give_back(container_id, attempt.container.id)
        if self._failed(attempt, f"{container_id} was not started: {why}", now_s) and not self.broken:
            self._ask_again(attempt.task, now_s, failed=True)

    # Asking and assigning

    def _ask_again(self, task: int, now_s: float, failed: bool) -> None:
        if self._stage[task] != MAP:
            (self._pending.appendleft if failed else self._pending.append)(task)
        elif failed:
            self.waiting.ask_failed_map(task, now_s)
        else:
            self.waiting.ask_map(task, self.job.tasks[task].hosts, now_s)

    def _assign(self, containers: Sequence[y.ContainerProto], now_s: float) -> list[Command]:
        self.granted += len(containers)
        assignments: list[Given] = []
        surplus = list(containers)
        if surplus and not self.broken:
            assignments, surplus = self.waiting.assign(surplus)
        for container in surplus:
            self._give_back(container_id_text(container.id), container.id)
        return [self._launch(task, container, now_s) for task, container in assignments]

    def _launch(self, task: int, container: y.ContainerProto, now_s: float) -> TaskLaunch:
        container_id = container_id_text(container.id)
        self._attempts[container_id] = _Attempt(task, container)
        identifier = y.ContainerTokenIdentifierProto.FromString(container.container_token.identifier)
        record = self.records[task]
        record.attempts += 1
        record.granted_s = now_s
        record.node = f"{container.nodeId.host}:{container.nodeId.port}"
        record.opportunistic = identifier.executionType == y.OPPORTUNISTIC
        return TaskLaunch(container_id, container, task)

    def _give_back(self, container_id: str, proto: y.ContainerIdProto) -> None:
        self.released += 1
        self._releasing[container_id] = released_id = copied(proto)
        self._to_release.append(released_id)

    # Ending

    def _completed(self, status: y.ContainerStatusProto, now_s: float, lost: list[tuple[int, bool]]) -> None:
        container_id = container_id_text(status.container_id)
        self._releasing.pop(container_id, None)
        attempt = self._attempts.pop(container_id, None)
        if attempt is None or attempt.done:
            return
        self.exits[status.exit_status] += 1
        if attempt.stopping or status.exit_status in KILLED:
            self._gone(attempt, now_s)
            self.records[attempt.task].killed += 1
            lost.append((attempt.task, False))
            return
        why = f"{container_id} exit {status.exit_status}: {status.diagnostics.strip()[:200]}"
        if self._failed(attempt, why, now_s):
            lost.append((attempt.task, True))

    def _gone(self, attempt: _Attempt, now_s: float) -> None:
        if attempt.began_s is not None:
            self.records[attempt.task].lost_s += now_s - attempt.began_s
        self.records[attempt.task].started_s = None

    def _failed(self, attempt: _Attempt, why: str, now_s: float) -> bool:
        """Count a failure of a task; return whether it may be tried again."""
        self._gone(attempt, now_s)
        task = attempt.task
        count = self._failures[task] = self._failures.get(task, 0) + 1
        self.note(f"task {task}: {why}")
        if count >= self.settings.most_failures:
            self.broken = self.broken or f"task {task} failed {count} times, at last: {why}"
            return False
        return True

    # Reduces

    def _schedule_reduces(self, now_s: float) -> list[Command]:
        stops = self._preempt(now_s)
        if stops:
            return stops
        stages = self._stages()
        self._reduces_started = self._reduces_started or reduces.started(stages, self.settings.slow_start)
        if not self._reduces_started:
            return []
        more = reduces.ramp(stages, self.settings.ramp_up_limit)
        for _ in range(more):
            task = self._pending.popleft()
            if not self.records[task].attempts:
                self.records[task].wanted_s = now_s
            self.waiting.ask_reduce(task, now_s)
        self._pending += self.waiting.drop_reduces(max(0, -more))
        return []

    def _preempt(self, now_s: float) -> list[Command]:
        waits = self.waiting.hanging(now_s)
        hanging = sum(wait > reduces.UNCONDITIONAL_S for wait in waits) or len(waits)
        count = reduces.preempted(self._stages(), max(waits, default=0.0), hanging, self.settings.preemption_limit)
        if not count:
            return []
        self._pending += self.waiting.drop_reduces(len(self.waiting.reduces))
        running = [
            (now_s if attempt.began_s is None else attempt.began_s, name)
            for name, attempt in self._attempts.items()
            if self._stage[attempt.task] != MAP and not (attempt.done or attempt.stopping)
        ]
        stops: list[Command] = []
        for _, name in sorted(running, reverse=True)[:count]:
            self._attempts[name].stopping = True
            stops.append(TaskStop(name, self._attempts[name].container))
        return stops

    def _stages(self) -> reduces.ReduceStages:
        maps = sum(self._stage[attempt.task] == MAP for attempt in self._attempts.values())
        return reduces.ReduceStages(
            headroom=self._headroom,
            maps=self._map_count,
            maps_done=self._maps_done,
            maps_asked=len(self.waiting.maps),
            maps_assigned=maps,
            reduces_asked=len(self.waiting.reduces),
            reduces_assigned=len(self._attempts) - maps,
            reduces_pending=len(self._pending),
        )
