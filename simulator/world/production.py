"""Everything together under the virtual clock: masters, attempts, coordinator, ResourceManager, sidecars.

The proxy's and the sidecars' machines are those of the product; messages between them and to masters and the
ResourceManager are real, and arrive at once. What takes time: heartbeats, starts, kills, reports, rounds, tasks.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import partial
from math import inf
from random import Random
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import AppView, Resources
from policies.section import Estimate
from policies.settings import Policies
from rm_proxy import ids
from rm_proxy.coordinator import Coordinator
from rm_proxy.estimator import Estimator
from rm_proxy.inventory import Limits
from rm_proxy.records import AppRecord
from rm_proxy.world import Announce, Decided, DropHeld, Effect, Faulted, FellBack, Granted, Returned
from rm_proxy.yarn_json import YarnNode, YarnQueue
from shell.messages import ContainerReport
from sidecar.events import Start
from simulator.clock import Clock
from simulator.world.master import Master
from simulator.world.scheduler import YarnNode as RmNode
from simulator.world.site import HELD, Site
from simulator.world.work import Job
from simulator.world.yarn import Yarn

EPOCH_S: Final = 1_000_000.0
"""When a run begins by its clock: late enough for nothing to look as if it had just been heard of."""
ROUND_S: Final = 1.0
"""Between rounds of the proxy."""
_FRESH_REPORTS: Final = 5.0
"""A node that told nothing for so many times the time between reports is stale, as in production."""
COALESCE_S: Final = 0.02
"""Of changes into one report, as in the sidecar."""
REFRESH_S: Final = 5.0
_PER_RACK: Final = 20
_TOKEN_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Setup:
    """The cluster, and what things take in it. Times in seconds, shares in 0..1."""

    nodes: int
    size: Resources
    """Of each node."""
    queues: tuple[str, ...] = ()
    """Paths of the queues that there are from the begin; others come with their first job."""
    window_s: float = inf
    """When it is looked at how much was used."""
    until_s: float = inf
    """When a run is broken off."""
    node_beat_s: float = 1.0
    """Between heartbeats of a NodeManager."""
    master_beat_s: float = 1.0
    report_s: float = 1.0
    """Between reports of a sidecar."""
    start_s: float = 0.1
    """From a start that goes to the NodeManager to its process."""
    off_switch: int = 1
    """Guaranteed containers without locality that a node is given in one heartbeat."""
    shares: bool = False
    """Whether containers share the cores of a node, where the `preempt` policy shrinks them."""
    max_jobs: int = 0
    """Jobs that run at once; 0 for any number."""
    slow_nodes: float = 0.0
    slow_times: float = 1.0
    """How much longer tasks take on slow nodes."""
    remote_times: float = 1.0
    """How much longer a task takes that does not run on its host."""


@dataclass(slots=True)
class Run:
    """What a run showed; times in seconds since its begin."""

    masters: list[Master]
    slots: int
    window_s: float
    busy_s: float = 0.0
    """Core seconds used by the end of the arrivals."""
    sheds: Counter[str] = field(default_factory=Counter)
    lost_s: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Effects of the proxy by name, warnings of sidecars, steps of the simulation."""
    faults: list[str] = field(default_factory=list)
    over_capacity: int = 0
    """Nodes where more ran at once than they have."""


class Told(Estimator):
    """Estimates that never learn: what masters told stays."""

    def observe(self, app: AppView, priority: int, ran_s: float, estimate: Estimate) -> None:
        """Leave a task that ended."""

    def lost(self, container_id: str, ran_s: float, follows: str = "") -> None:
        """Leave a task that was lost."""

    def running(
        self,
        node_id: str,
        containers: Iterable[ContainerReport],
        apps: Mapping[str, AppView],
        policies: Policies,
        slow_ratio: float = 1.0,
    ) -> list[float]:
        """Leave what runs."""
        return []


class World:
    """One run; `go` is its life."""

    def __init__(
        self, setup: Setup, jobs: Iterable[Job], policies: Policies, seed: int, corrected: bool = True
    ) -> None:
        """Prepare. jobs: by arrival; corrected: whether estimates learn from tasks that ended."""
        self.setup, self.start_s, self.clock = setup, setup.start_s, Clock(EPOCH_S)
        self.coordinator = Coordinator(
            policies, Random(f"coordinator {seed}"), Limits(report_fresh_s=_FRESH_REPORTS * setup.report_s)
        )
        if not corrected:
            self.coordinator.estimator = Told()
        rng = Random(f"nodes {seed}")
        racks = [f"/rack{n // _PER_RACK}" for n in range(setup.nodes)]
        self.names = [(f"node{n:04d}", rack) for n, rack in enumerate(racks)]
        nodes = (RmNode(f"{host}:8041", host, rack, setup.size) for host, rack in self.names)
        self.yarn = Yarn(nodes, setup.off_switch)
        self.sites = {
            node_id: Site(node_id, setup.size, policies, self, setup.shares, setup.report_s)
            for node_id in self.yarn.nodes
        }
        self.slow = set(rng.sample(list(self.sites), round(setup.slow_nodes * setup.nodes)))
        self.masters: dict[int, Master] = {}
        self.run = Run([], round(setup.nodes * setup.size.vcores), setup.window_s)
        self.left = 0
        """Jobs that have arrived and are not over."""
        self._queues = dict.fromkeys(setup.queues)
        self._jobs: Iterator[Job] | None = iter(jobs)
        self._before: deque[Job] = deque()
        """Jobs that may not run yet."""
        self._records: dict[int, AppRecord] = {}
        self._reporting: set[str] = set()
        self._rng = rng

    # Clock

    @property
    def now_s(self) -> float:
        """The time."""
        return self.clock.now_s

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something after so many seconds; what is due at once goes in the order in which it was asked for."""
        self.clock.later(seconds, what)

    @property
    def going(self) -> bool:
        """Whether jobs are still to arrive or to end."""
        return self.left > 0 or self._jobs is not None

    def go(self) -> Run:
        """Run to the end of all jobs; those that do not come to theirs are left unfinished."""
        self._tell_yarn()
        setup = self.setup
        for site in self.sites.values():
            self._report(site)
            phase = self._rng.uniform(0, 1)
            self.later(phase * setup.node_beat_s, partial(self._node_beat, site))
            self.later(phase * setup.report_s, partial(self._tick, site))
        self.later(ROUND_S, self._round)
        self.later(REFRESH_S, self._refresh)
        if setup.window_s < inf:
            self.later(setup.window_s, self._look_at_use)
        self._next()
        until_s = EPOCH_S + setup.until_s
        while self.going and self.clock.next_s <= until_s:
            self.clock.step()
        return self._summed_up()

    def _next(self) -> None:
        """Have the next job arrive in its time."""
        job = next(self._jobs, None) if self._jobs is not None else None
        if job is None:
            self._jobs = None
        else:
            self.clock.at(EPOCH_S + job.arrives_s, self._arrive, job)

    def _arrive(self, job: Job) -> None:
        self.left += 1
        if self.setup.max_jobs and self.left > self.setup.max_jobs:
            self._before.append(job)
        else:
            self._submit(job)
        self._next()

    def _look_at_use(self) -> None:
        self.run.busy_s = sum(site.so_far_s() for site in self.sites.values())

    def _summed_up(self) -> Run:
        run = self.run
        run.masters = list(self.masters.values())
        for site in self.sites.values():
            run.sheds.update(site.sheds)
            run.lost_s += site.lost_s
            run.counts.update(site.warnings)
            run.counts.update(site.resizes)
            run.over_capacity += not site.most.fits(site.capacity)
        run.counts["steps"] = self.clock.events
        return run

    # YARN's side

    def _refresh(self) -> None:
        self._tell_yarn()
        self.later(REFRESH_S, self._refresh)

    def _tell_yarn(self) -> None:
        nodes = self.yarn.nodes.values()
        self.coordinator.yarn_nodes(
            [YarnNode(n.id, n.host, n.rack, "RUNNING", "", n.capacity, n.used, f"{n.host}:8042") for n in nodes],
            self.now_s,
        )
        total = sum((n.capacity for n in nodes), Resources())
        used = self.yarn.used
        self.coordinator.yarn_queues(
            [
                YarnQueue(path, True, "RUNNING", total, used.get(path, Resources()), frozenset(), "")
                for path in self._queues
            ]
        )

    def _node_beat(self, site: Site) -> None:
        ended, site.ends = site.ends, []
        parts = [(container_id.split("_"), exit_status) for container_id, exit_status in ended]
        self.yarn.heartbeat(site.id, [(int(words[2]), int(words[4]), status) for words, status in parts])
        self.later(self.setup.node_beat_s, partial(self._node_beat, site))

    def _tick(self, site: Site) -> None:
        site.tick()
        self._report(site)
        self.later(self.setup.report_s, partial(self._tick, site))

    def _submit(self, job: Job) -> None:
        if job.queue not in self._queues:
            self._queues[job.queue] = None
            self._tell_yarn()
        attempt = y.ApplicationAttemptIdProto(attemptId=1)
        attempt.application_id.id = job.number
        attempt.application_id.cluster_timestamp = int(EPOCH_S * 1000)
        master = self.masters[job.number] = Master(job, attempt, self.names.__getitem__, self.since_s())
        app_id = ids.app_of_attempt(master.attempt_id)
        tags = (f"expected_s:{job.told_s:.3f}",)
        record = AppRecord(app_id, job.queue, job.user, "BENCH", f"{job.kind} {job.number}", tags, 0, self.now_s)
        self._records[job.number] = record
        self.coordinator.yarn_app(record)
        answer = self.yarn.register(attempt, job.queue)
        self.coordinator.attempt(master.attempt_id).on_registered(answer, self.now_s)
        self._beat(master)

    def busy_vcores(self) -> float:
        """Return the cores that tasks hold now."""
        return sum(site.busy_vcores() for site in self.sites.values())

    def since_s(self) -> float:
        """Return the seconds since the begin of the run."""
        return self.now_s - EPOCH_S

    # Masters

    def _beat(self, master: Master) -> None:
        attempt = self.coordinator.attempt(master.attempt_id)
        if master.done:
            self._finish(master)
            return
        sent = master.request()
        rewritten = attempt.on_allocate(sent, self.now_s)
        got = self.yarn.allocate(master.job.number, sent if rewritten is None else rewritten)
        told = attempt.on_answer(got, self.now_s)
        self._carry_out(attempt.take_effects())
        for container in master.take(got if told is None else told):
            self._start(master, container)
        self.later(self.setup.master_beat_s, partial(self._beat, master))

    def _start(self, master: Master, container: y.ContainerProto) -> None:
        known = self.yarn.apps[master.job.number].containers[container.id.id]
        self.sites[known.node_id].start(
            Start(
                container_id=ids.container_id_text(container.id),
                app_id=ids.app_of_attempt(master.attempt_id),
                attempt_id=master.attempt_id,
                resources=known.size,
                opportunistic=known.opportunistic,
                priority=container.priority.priority,
                user=master.job.user,
                expires_s=self.now_s + _TOKEN_S,
                payload=HELD,
            )
        )

    def _finish(self, master: Master) -> None:
        number = master.job.number
        self.coordinator.attempt(master.attempt_id).on_finished()
        self.coordinator.yarn_app(changed(self._records.pop(number), finished_s=self.now_s))
        self.yarn.unregister(number)
        self.left -= 1
        if self._before:
            self._submit(self._before.popleft())

    def _master(self, container_id: str) -> Master:
        return self.masters[int(container_id.split("_")[2])]

    def run_s(self, container_id: str, node_id: str) -> float:
        """Return how long the task in a container runs on a node."""
        master = self._master(container_id)
        task = master.job.tasks[master.assigned[container_id]]
        remote = task.host is not None and f"{self.names[task.host][0]}:8041" != node_id
        times = self.setup.remote_times if remote else 1.0
        return task.true_s * times * (self.setup.slow_times if node_id in self.slow else 1.0)

    def began(self, container_id: str) -> None:
        """Take in that a task runs."""
        self.run.counts["began"] += 1
        self._master(container_id).began(container_id, self.since_s())

    def ended(self, container_id: str) -> None:
        """Take in that a task has run to its end."""
        self._master(container_id).ended(container_id, self.since_s())

    # The proxy

    def _round(self) -> None:
        self.coordinator.round(self.now_s)
        self._carry_out(self.coordinator.take_effects())
        self.later(ROUND_S, self._round)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Announce():
                    self.sites[effect.node_id].announce(effect.grant)
                case DropHeld():
                    self.sites[effect.node_id].drop((effect.container_id,), effect.reason)
                case Granted():
                    self.run.counts[f"granted {effect.record.kind}"] += 1
                case FellBack() | Returned():
                    self.run.counts[type(effect).__name__] += 1
                case Faulted():
                    self.run.faults.append(effect.fault)
                case Decided():
                    self.run.counts[f"decided {effect.record.slot}"] += 1

    def changed(self, node_id: str) -> None:
        """Have a node report soon."""
        if node_id not in self._reporting:
            self._reporting.add(node_id)
            self.later(COALESCE_S, partial(self._report, self.sites[node_id]))

    def _report(self, site: Site) -> None:
        self._reporting.discard(site.id)
        site.acknowledged(self.coordinator.report(site.id, site.report(), self.now_s))
