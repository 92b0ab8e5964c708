"""Jobs and their masters under the virtual clock: arrival, submission, heartbeats, tasks, end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import partial
from math import inf
from random import Random
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.simulator.clock import Clock
from quicksilver.simulator.world.berths import Berths
from quicksilver.simulator.world.master import Master
from quicksilver.simulator.world.regular import Regular
from quicksilver.simulator.world.rest import Rest
from quicksilver.simulator.world.setup import EPOCH_S, Run, Setup
from quicksilver.simulator.world.site import HELD, Site
from quicksilver.simulator.world.work import WorldJob
from quicksilver.simulator.world.yarn import Yarn
from rm_proxy.attempt.effects import Effect
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.promotion_choice import promotes
from rm_proxy.domain import ids
from rm_proxy.domain.records import AppRecord
from sidecar.node.events import Start

_TOKEN_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldCluster:
    """The cluster that the masters run on."""

    setup: Setup
    clock: Clock
    coordinator: Coordinator
    yarn: Yarn
    sites: dict[str, Site]
    names: list[tuple[str, str]]
    """Host and rack of each node."""
    slow: set[str]
    """Nodes where tasks take longer."""
    rest: Rest
    regular: Regular
    run: Run


class JobMasters:
    """The jobs of a run: their masters talk to the proxy and to YARN, and start containers at the sites."""

    def __init__(
        self,
        cluster: WorldCluster,
        jobs: Iterable[WorldJob],
        carry_out: Callable[[Iterable[Effect]], None],
        rng: Random,
    ) -> None:
        """Prepare. jobs: by arrival; carry_out: does what the proxy decided."""
        setup = self._setup = cluster.setup
        self._clock, self._coordinator, self._yarn = cluster.clock, cluster.coordinator, cluster.yarn
        self._sites, self._names, self._slow = cluster.sites, cluster.names, cluster.slow
        self._rest, self._regular, self._run = cluster.rest, cluster.regular, cluster.run
        self._carry_out = carry_out
        self.masters: dict[int, Master] = {}
        """By job."""
        self.queues = dict.fromkeys(setup.queues)
        """Paths of the queues that there are by now."""
        self._open_jobs = 0
        """Jobs that have arrived and are not over."""
        self._jobs: Iterator[WorldJob] | None = iter(jobs)
        self._before: WorldJob | None = None
        """The job that may not run yet; those behind it have not arrived for it."""
        self._berths = Berths(self._yarn, setup.master, rng)
        self._records: dict[int, AppRecord] = {}
        self._masters_rest = not (setup.eager or promotes(self._coordinator.policies))

    @property
    def going(self) -> bool:
        """Whether jobs are still to arrive or to end."""
        return self._open_jobs > 0 or self._jobs is not None

    def next(self) -> None:
        """Have the next job arrive in its time, or at once when it had to wait for the one before it."""
        job = next(self._jobs, None) if self._jobs is not None else None
        if job is None:
            self._jobs = None
        else:
            self._clock.at(max(self._clock.now_s, EPOCH_S + job.arrives_s), self._arrive, job)

    def _arrive(self, job: WorldJob) -> None:
        self._open_jobs += 1
        if self._setup.max_jobs and self._open_jobs > self._setup.max_jobs:
            self._before = job
        else:
            self._submit(job)
            self.next()

    def _submit(self, job: WorldJob) -> None:
        if job.queue not in self.queues:
            self.queues[job.queue] = None
            self._rest.report(self.queues, self._clock.now_s)
        attempt = y.ApplicationAttemptIdProto(attemptId=1)
        attempt.application_id.id = job.number
        attempt.application_id.cluster_timestamp = int(EPOCH_S * 1000)
        answer = self._yarn.register(attempt, job.queue)
        if not self._berths.take(job):
            self._yarn.unregister(job.number)
            return
        since_s, ratio = self._clock.now_s - EPOCH_S, self._setup.slow_start_ratio
        master = self.masters[job.number] = Master(job, attempt, self._names.__getitem__, since_s, ratio)
        app_id = ids.app_of_attempt(master.attempt_id)
        name = f"{job.kind} {job.number}"
        record = AppRecord(app_id, job.queue, job.user, self._setup.app_type, name, master.tags, 0, self._clock.now_s)
        self._records[job.number] = record
        self._coordinator.inventory.update_app(record)
        self._coordinator.attempt(master.attempt_id).on_registered(answer, self._clock.now_s)
        own = self._berths.of(job.number)
        if own is not None:
            self._start(master, own)
        if self._setup.master_start_s:
            self._clock.later(self._setup.master_start_s, partial(self._beat, master))
        else:
            self._beat(master)

    def _beat(self, master: Master) -> None:
        self._regular.beats(master.job.number)
        attempt = self._coordinator.attempt(master.attempt_id)
        if master.done:
            self._finish(master)
            return
        number, sent = master.job.number, master.request()
        rewritten = attempt.exchange.on_allocate(sent, self._clock.now_s)
        got = self._allocate(number, sent if rewritten is None else rewritten)
        changed = attempt.exchange.on_answer(got, self._clock.now_s)
        self._carry_out(attempt.take_effects())
        self._answered(number, got if changed is None else changed)

    def _allocate(self, number: int, body: bytes) -> bytes:
        """Send a request to the ResourceManager; return its answer."""
        wanting = self._yarn.scheduler.wanting
        got = self._yarn.allocate(number, body)
        if self._yarn.scheduler.wanting and not wanting:
            self._regular.on_demand()
        return got

    def _answered(self, number: int, answer: bytes) -> None:
        """Have a master handle its answer; its next heartbeat comes a period later."""
        master = self.masters[number]
        for container in master.take(answer):
            self._start(master, container)
        for container_id in master.take_to_end():
            for site in self._site(master, container_id):
                site.end(container_id)
        attempt = self._coordinator.attempt(master.attempt_id)
        at_rest = self._masters_rest and master.at_rest and self._yarn.apps[number].at_rest and attempt.at_rest
        if not at_rest:
            self.rouse(number)

    def rouse(self, number: int) -> None:
        """Have a master heartbeat at its next time."""
        if number in self._records:
            self._regular.rouse(number, partial(self._beat, self.masters[number]))

    def _start(self, master: Master, container: y.ContainerProto) -> None:
        known = self._yarn.apps[master.job.number].containers[container.id.id]
        self._sites[known.node_id].start(
            Start(
                container_id=ids.container_id_text(container.id),
                app_id=ids.app_of_attempt(master.attempt_id),
                attempt_id=master.attempt_id,
                resources=known.size,
                opportunistic=known.opportunistic,
                priority=container.priority.priority,
                user=master.job.user,
                expires_s=self._clock.now_s + _TOKEN_S,
                payload=HELD,
            )
        )

    def _finish(self, master: Master) -> None:
        number = master.job.number
        self._coordinator.attempt(master.attempt_id).on_finished()
        self._coordinator.inventory.update_app(changed(self._records.pop(number), finished_s=self._clock.now_s))
        self._yarn.unregister(number)
        self._open_jobs -= 1
        own = self._berths.leave(number)
        if own is not None:
            self._sites[ids.node_id_text(own.nodeId)].end(ids.container_id_text(own.id))
        waiting = self._berths.next()
        if waiting is not None:
            self._submit(waiting)
        if self._before is not None:
            job, self._before = self._before, None
            self._submit(job)
            self.next()

    def _site(self, master: Master, container_id: str) -> Iterator[Site]:
        """Yield the node of a container, if the ResourceManager still counts it."""
        known = self._yarn.apps[master.job.number].containers.get(int(container_id.split("_")[4]))
        if known is not None:
            yield self._sites[known.node_id]

    def _master(self, container_id: str) -> Master:
        return self.masters[int(container_id.split("_")[2])]

    # Tasks

    def run_s(self, container_id: str, node_id: str) -> float:
        """Return how long a container runs on a node; inf until it is told to end."""
        master = self._master(container_id)
        if container_id in self._berths:
            return 0.0 if master.done else inf
        if master.stands(container_id):
            return inf
        task = master.job.tasks[master.assigned[container_id]]
        remote = task.host is not None and f"{self._names[task.host][0]}:8041" != node_id
        times = self._setup.remote_times if remote else 1.0
        return task.true_s * times * (self._setup.slow_times if node_id in self._slow else 1.0)

    def began(self, container_id: str) -> None:
        """Note that a task runs."""
        if container_id not in self._berths:
            self._run.counts["began"] += 1
            master = self._master(container_id)
            master.began(container_id, self._clock.now_s - EPOCH_S)
            if not master.at_rest:
                self.rouse(master.job.number)

    def ended(self, container_id: str) -> None:
        """Note that a task has run to its end."""
        if container_id in self._berths:
            self._berths.ended(container_id)
            return
        master = self._master(container_id)
        if container_id not in master.assigned:
            return  # it stood still and had to make room
        master.ended(container_id, self._clock.now_s - EPOCH_S)
        for next_id in master.take_to_begin():
            for site in self._site(master, next_id):
                site.begin_task(next_id)
        if not master.at_rest:
            self.rouse(master.job.number)

    def reused(self, container_id: str) -> bool:
        """Have a container whose task is done take another one of its job; False when it has to end."""
        master = self._master(container_id)
        if not master.reuse(container_id):
            return False
        self.rouse(master.job.number)
        return True
