"""Everything together under the virtual clock: masters, attempts, coordinator, ResourceManager, sidecars.

The proxy's and the sidecars' machines are those of the product; messages between them and to masters and the
ResourceManager are real, and arrive at once. What takes time: heartbeats, starts, kills, reports, rounds, tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import partial
from math import inf
from random import Random
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.messages import Targets
from quicksilver.simulator.clock import Clock
from quicksilver.simulator.world.berths import Berths
from quicksilver.simulator.world.master import Master
from quicksilver.simulator.world.regular import REFRESH, ROUND, Regular
from quicksilver.simulator.world.rest import Rest
from quicksilver.simulator.world.scheduler import YarnNode as RmNode
from quicksilver.simulator.world.site import HELD, Site
from quicksilver.simulator.world.views import ReportedPlacer, Told, understated
from quicksilver.simulator.world.work import Job
from quicksilver.simulator.world.yarn import Yarn
from rm_proxy.attempt.effects import Announce, Decided, DropHeld, Effect, Faulted, FellBack, Granted, Returned
from rm_proxy.coordinator.cluster_state import Limits
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.placement import Placer
from rm_proxy.coordinator.promotion_choice import wanted as promotes
from rm_proxy.domain import ids
from rm_proxy.domain.records import AppRecord
from rm_proxy.estimates.estimator import Estimator
from sidecar.node.events import Start

EPOCH_S: Final = 1_000_000.0
"""When a run begins by its clock: late enough for nothing to look as if it had just been heard of."""
ROUND_S: Final = 1.0
"""Between rounds of the proxy."""
COALESCE_S: Final = 0.02
"""Of changes into one report, as in the sidecar."""
REFRESH_S: Final = 5.0
_PER_RACK: Final = 20
_TOKEN_S: Final = 600.0
_NOTHING: Final = Resources()


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
    end_beats: bool = False
    """Whether a NodeManager heartbeats as well when a container has ended (Hadoop 3; 2.4.1 did not)."""
    launch_s: float = 0.0
    """From a container's process to its first task's begin: localization, the JVM. The sidecar takes it for work."""
    reuse_s: float | None = None
    """From a task's end to the next one's begin in the same container, as Tez has it; None: a container for each."""
    master_start_s: float = 0.0
    """From a job's turn to its master's first heartbeat."""
    master: Resources = _NOTHING
    """What a job's master holds, guaranteed, from its turn to its end; nothing: it runs elsewhere."""
    max_jobs: int = 0
    """Jobs that run at once; 0 for any number."""
    counted: bool = True
    """Whether placements are counted at once, as in production; else reports alone tell, and at their time only."""
    wrong_nodes: float = 0.0
    wrong_times: float = 1.0
    """How much longer one waits at such nodes than their sidecars tell."""
    slow_nodes: float = 0.0
    slow_times: float = 1.0
    """How much longer tasks take on slow nodes."""
    remote_times: float = 1.0
    """How much longer a task takes that does not run on its host."""
    eager: bool = False
    """Whether heartbeats and reports that can change nothing are done as well."""
    app_type: str = "BENCH"
    """YARN's application type of all jobs."""


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


class World:
    """One run; `go` is its life."""

    def __init__(
        self, setup: Setup, jobs: Iterable[Job], policies: Policies, seed: int, corrected: bool = True
    ) -> None:
        """Prepare. jobs: by arrival; corrected: whether estimates learn from tasks that ended."""
        self.setup, self.start_s, self.clock = setup, setup.start_s, Clock(EPOCH_S)
        self.launch_s, self.reuse_s = setup.launch_s, setup.reuse_s
        self.coordinator = Coordinator(
            policies,
            Random(f"coordinator {seed}"),
            Limits(report_fresh_s=inf),  # sidecars never fall silent here
            estimator=Estimator() if corrected else Told(),
            placer=Placer if setup.counted else ReportedPlacer,
        )
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
        self.wrong = set(rng.sample(list(self.sites), round(setup.wrong_nodes * setup.nodes)))
        self.masters: dict[int, Master] = {}
        self.run = Run([], round(setup.nodes * setup.size.vcores), setup.window_s)
        self.left = 0
        """Jobs that have arrived and are not over."""
        self._berths = Berths(self.yarn, setup.master, rng)
        self._queues = dict.fromkeys(setup.queues)
        self._jobs: Iterator[Job] | None = iter(jobs)
        self._before: Job | None = None
        """The job that may not run yet; those behind it have not arrived for it."""
        self._records: dict[int, AppRecord] = {}
        self._reporting: set[str] = set()
        self._rng = rng
        self._rest = Rest(self.yarn, self.coordinator, setup.eager)
        self._masters_rest = not (setup.eager or promotes(policies))
        self.yarn.news = self._rouse
        self._regular = Regular(self.clock, self.yarn, self.sites, setup)

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
        self._rest.tell(self._queues, self.now_s)
        setup, policies = self.setup, self.coordinator.policies.for_nodes
        for site in self.sites.values():
            self._report(site)
        self._regular.begin(
            self._rng, all(policies.chosen(slot) == "none" for slot in ("police", "correct")), self._report
        )
        self.clock.regularly(EPOCH_S + REFRESH_S, REFRESH_S, REFRESH, self._refresh)
        self.clock.regularly(EPOCH_S + ROUND_S, ROUND_S, ROUND, self._round)
        if setup.window_s < inf:
            self.later(setup.window_s, self._look_at_use)
        self._next()
        until_s = EPOCH_S + setup.until_s
        while self.going and self.clock.next_s <= until_s:
            self.clock.step()
        return self._summed_up()

    def _next(self) -> None:
        """Have the next job arrive in its time, or at once when it had to wait for the one before it."""
        job = next(self._jobs, None) if self._jobs is not None else None
        if job is None:
            self._jobs = None
        else:
            self.clock.at(max(self.now_s, EPOCH_S + job.arrives_s), self._arrive, job)

    def _arrive(self, job: Job) -> None:
        self.left += 1
        if self.setup.max_jobs and self.left > self.setup.max_jobs:
            self._before = job
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
        self._rest.tell(self._queues, self.now_s)
        self.clock.regularly(EPOCH_S + REFRESH_S, REFRESH_S, REFRESH, self._refresh)

    def _submit(self, job: Job) -> None:
        if job.queue not in self._queues:
            self._queues[job.queue] = None
            self._rest.tell(self._queues, self.now_s)
        attempt = y.ApplicationAttemptIdProto(attemptId=1)
        attempt.application_id.id = job.number
        attempt.application_id.cluster_timestamp = int(EPOCH_S * 1000)
        answer = self.yarn.register(attempt, job.queue)
        if not self._berths.take(job):
            self.yarn.unregister(job.number)
            return
        master = self.masters[job.number] = Master(job, attempt, self.names.__getitem__, self.since_s())
        app_id = ids.app_of_attempt(master.attempt_id)
        name = f"{job.kind} {job.number}"
        record = AppRecord(app_id, job.queue, job.user, self.setup.app_type, name, master.tags, 0, self.now_s)
        self._records[job.number] = record
        self.coordinator.yarn_app(record)
        self.coordinator.attempt(master.attempt_id).on_registered(answer, self.now_s)
        own = self._berths.of(job.number)
        if own is not None:
            self._start(master, own)
        if self.setup.master_start_s:
            self.later(self.setup.master_start_s, partial(self._beat, master))
        else:
            self._beat(master)

    def busy_vcores(self) -> float:
        """Return the cores that tasks hold now."""
        return sum(site.busy_vcores() for site in self.sites.values())

    def since_s(self) -> float:
        """Return the seconds since the begin of the run."""
        return self.now_s - EPOCH_S

    # Masters

    def _beat(self, master: Master) -> None:
        self._regular.beats(master.job.number)
        attempt = self.coordinator.attempt(master.attempt_id)
        if master.done:
            self._finish(master)
            return
        sent = master.request()
        rewritten = attempt.on_allocate(sent, self.now_s)
        wanting = self.yarn.scheduler.wanting
        got = self.yarn.allocate(master.job.number, sent if rewritten is None else rewritten)
        if self.yarn.scheduler.wanting and not wanting:
            self._regular.wanted()
        told = attempt.on_answer(got, self.now_s)
        self._carry_out(attempt.take_effects())
        for container in master.take(got if told is None else told):
            self._start(master, container)
        quiet = self._masters_rest and master.at_rest and self.yarn.apps[master.job.number].at_rest and attempt.at_rest
        if not quiet:
            self._rouse(master.job.number)

    def _rouse(self, number: int) -> None:
        """Have a master heartbeat at its next time."""
        if number in self._records:
            self._regular.rouse(number, partial(self._beat, self.masters[number]))

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
        own = self._berths.leave(number)
        if own is not None:
            self.sites[ids.node_id_text(own.nodeId)].end(ids.container_id_text(own.id))
        waiting = self._berths.next()
        if waiting is not None:
            self._submit(waiting)
        if self._before is not None:
            job, self._before = self._before, None
            self._submit(job)
            self._next()

    def _master(self, container_id: str) -> Master:
        return self.masters[int(container_id.split("_")[2])]

    def run_s(self, container_id: str, node_id: str) -> float:
        """Return how long a container runs on a node; inf until it is told to end."""
        master = self._master(container_id)
        if container_id in self._berths:
            return 0.0 if master.done else inf
        task = master.job.tasks[master.assigned[container_id]]
        remote = task.host is not None and f"{self.names[task.host][0]}:8041" != node_id
        times = self.setup.remote_times if remote else 1.0
        return task.true_s * times * (self.setup.slow_times if node_id in self.slow else 1.0)

    def began(self, container_id: str) -> None:
        """Take in that a task runs."""
        if container_id not in self._berths:
            self.run.counts["began"] += 1
            self._master(container_id).began(container_id, self.since_s())

    def ended(self, container_id: str) -> None:
        """Take in that a task has run to its end."""
        if container_id in self._berths:
            self._berths.ended(container_id)
            return
        master = self._master(container_id)
        master.ended(container_id, self.since_s())
        if not master.at_rest:
            self._rouse(master.job.number)

    def reused(self, container_id: str) -> bool:
        """Have a container whose task is done take another one of its job; False when it has to end."""
        master = self._master(container_id)
        if not master.reuse(container_id):
            return False
        self._rouse(master.job.number)
        return True

    # The proxy

    def _round(self) -> None:
        self.coordinator.round(self.now_s)
        self._carry_out(self.coordinator.take_effects())
        self.clock.regularly(EPOCH_S + ROUND_S, ROUND_S, ROUND, self._round)

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
        """Have a node report soon, and heartbeat when containers ended and it does so then."""
        site = self.sites[node_id]
        if site.ends and self.setup.end_beats:
            self._regular.heartbeat(site)
        elif site.ends:
            self._regular.ended(site)
        if self.setup.counted and node_id not in self._reporting:
            self._reporting.add(node_id)
            self.later(COALESCE_S, partial(self._report, site))

    def stirred(self, node_id: str) -> Targets | None:
        """Have a node report regularly again; return what the proxy wants of it."""
        self._regular.stir(self.sites[node_id])
        return self.coordinator.targets.of(node_id)

    def _report(self, site: Site) -> None:
        self._reporting.discard(site.id)
        report = site.report()
        if site.id in self.wrong:
            report = understated(report, self.setup.wrong_times)
        site.acknowledged(self.coordinator.report(site.id, report, self.now_s))
        touched = self.coordinator.attempts.touched
        for attempt in touched.values():
            if not attempt.at_rest:
                self._rouse(int(attempt.app_id.rpartition("_")[2]))
        touched.clear()
