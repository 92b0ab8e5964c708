"""Applications that wait for the turn of a place in a node's queue, not for any free place (Sparrow, Hawk, Eagle).

A queue holds probes, not containers: a container is bound to the node, with its application's next allocate, when the
turn of a probe comes. So nothing waits behind a task that runs longer than expected without a way out, and a probe
moves to another node at once. An application that is silent, or leaves a place unused, loses its turn to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, ContainerView, JobClass, NodeView, Resources
from policies.probes import NewTasks, ProbedNode
from rm_proxy.dispatch.central_queue import CentralQueue
from rm_proxy.dispatch.free_places import FreePlaces, LabelledSize
from rm_proxy.dispatch.group_queue import Demand
from rm_proxy.dispatch.heartbeats import Heartbeats
from rm_proxy.domain.comparison import Compare, Question, not_compared, shadowed
from rm_proxy.probes.probe_queue import Ordering, Probe, ProbeQueue, seen
from rm_proxy.probes.probed_cluster import ProbedCluster
from rm_proxy.probes.unprobed import Unprobed

PASSED_S: Final = 2.0
"""How long others go before a probe whose application left its place unused."""
MAX_PASSES: Final = 3
"""Times after which such a probe is dropped: its application may have that node on its blacklist."""
MAX_PROBES: Final = 10_000
"""Probes of one application; further tasks get theirs when these were used."""
FORGOTTEN_S: Final = 600.0
"""Probes of an application that is silent for as long are dropped."""
_SHADOW: Final = Random(0)
"""For alternatives, whose decisions change nothing."""


@dataclass(slots=True, eq=False)
class ProbingJob:
    """An application with tasks that wait, and its probes."""

    attempt_id: str
    app: AppView
    beats: Heartbeats
    expected_s: float
    tasks: int = 0
    """That wait; each had its probes drawn."""
    sizes: Collection[LabelledSize] = ()
    probes: dict[str, list[Probe]] = field(default_factory=dict)
    """By node."""
    count: int = 0
    """Of its probes."""
    sticky: bool = False
    off_long: bool = False
    """It has no turn at a node whose cores long tasks hold, though one of them is expected to end soon."""
    offered: Collection[str] = ()
    """Nodes that it may place containers on with the request at hand."""

    @property
    def short_of(self) -> int:
        """Tasks without any probe: those that had one lost it with its node."""
        return max(0, min(self.tasks, MAX_PROBES) - self.count) if not self.sticky else self.tasks * (not self.count)


class Prober:
    """A machine in front of the central queue, which goes on counting what YARN queues and users may have.

    policies: returns those in force; left_s: returns the task-seconds that an application has left; failed: called with
    an application's id and a fault; compare: called with each choice of nodes.
    """

    idle: Final = False
    """Probes are drawn for each application that waits, so that all are known."""

    def __init__(
        self,
        cluster: ProbedCluster,
        central: CentralQueue,
        free: FreePlaces,
        rng: Random,
        *,
        policies: Callable[[], Policies],
        left_s: Callable[[str, float], float],
        failed: Callable[[str, str], None],
        compare: Compare = not_compared,
    ) -> None:
        self.cluster, self._central, self._free, self._rng = cluster, central, free, rng
        self._policies, self._left_s, self._failed = policies, left_s, failed
        self._compare = compare
        self.jobs: dict[str, ProbingJob] = {}
        """By attempt; those that have probes."""
        self.queues: dict[str, ProbeQueue] = {}
        """By node; none is empty."""
        self._by_app: dict[str, str] = {}
        self._number = 0
        self._looked: dict[str, tuple[NodeView, int, ProbedNode]] = {}
        """By node: its view and its last probe when policies last saw it; most nodes are as they were."""
        self._partition: frozenset[str] = frozenset()
        self._now_s = 0.0
        self._unprobed = Unprobed()

    # What an attempt asks

    def waits(
        self,
        attempt_id: str,
        demand: Demand,
        now_s: float,
        placed: int = 0,
        full: Collection[LabelledSize] = (),
    ) -> None:
        """Handle a message of an application: what it wants now. Arguments as of `CentralQueue.waits`."""
        self._now_s = now_s
        app = demand.waiting.app
        policies = self._policies().for_app(app)
        if policies.cluster.probes and demand.sizes:
            self._follow(attempt_id, demand, policies, now_s)
        else:
            self.forget(attempt_id)
            more = self._unprobed.more(attempt_id, demand, now_s) if shadowed(self._policies(), "probe") else 0
            if more:  # for alternatives alone: the policy in force chooses no node
                job = ProbingJob(
                    attempt_id, app, Heartbeats(now_s), demand.waiting.expected_s, sizes=list(demand.sizes)
                )
                self._draw(job, more, policies, now_s)
        self._central.waits(attempt_id, demand, now_s, placed, full)

    def placed(self, app: AppView, sizes: Mapping[LabelledSize, int], count: int, now_s: float) -> None:
        """Note that an application of which it did not know got places, of any of these sizes."""
        self._central.placed(app, sizes, count, now_s)

    def waits_no_more(self, attempt_id: str, placed: int = 0, now_s: float = 0.0) -> None:
        """Forget an application: it waits for nothing, or is over."""
        self.forget(attempt_id)
        self._unprobed.forget(attempt_id)
        self._central.waits_no_more(attempt_id, placed, now_s)

    def allowance(self, attempt_id: str, label: str, size: Resources, now_s: float) -> int:
        """Return how many containers of this label and size an application may place now."""
        allowed = self._central.allowance(attempt_id, label, size, now_s)
        job = self.jobs.get(attempt_id)
        if job is None:
            return allowed
        self._now_s = now_s
        turns = self._turns(job, label, size)
        job.offered = {*job.offered, *turns}
        return min(allowed, sum(turns.values()))

    def starved(self, app: AppView, label: str, size: Resources, asked_s: float, now_s: float) -> int:
        """Return how many containers an application may ask for as guaranteed: its queue and user are owed them."""
        return self._central.starved(app, label, size, asked_s, now_s)

    def turns(self, ask: Ask) -> list[str] | None:
        """Return the nodes where it is the turn of the application of an ask; None if it may go anywhere."""
        job = self._job_of(ask)
        return None if job is None else list(self._turns(job, ask.label, ask.resources))

    def taken(self, ask: Ask, node_id: str) -> None:
        """Note that a container is asked for on a node: a probe there was served."""
        job = self._job_of(ask)
        if job is None:
            return
        job.tasks = max(0, job.tasks - 1)
        probes = job.probes.get(node_id)
        if probes:
            probe = probes[0]
            self.queues[node_id].served(probe, job.expected_s)
            if not job.sticky:
                self.remove(job, probe)
        if not job.tasks:
            self.forget(job.attempt_id)

    def _job_of(self, ask: Ask) -> ProbingJob | None:
        return self.jobs.get(self._by_app.get(ask.app.id, "")) if ask.anywhere else None

    # Probes

    def _follow(self, attempt_id: str, demand: Demand, policies: Policies, now_s: float) -> None:
        waiting = demand.waiting
        job = self.jobs.get(attempt_id)
        if job is None:
            job = ProbingJob(attempt_id, waiting.app, Heartbeats(now_s), waiting.expected_s)
        job.app, job.expected_s, job.sticky = waiting.app, waiting.expected_s, policies.cluster.sticky
        job.off_long = off_long(waiting.app, policies)
        job.beats.beat(now_s)
        self._pass_on(job, now_s)
        tasks = sum(demand.sizes.values())
        more, job.tasks = tasks - job.tasks, tasks
        more = max(more, job.short_of)
        job.sizes = list(demand.sizes)
        if more > 0:
            self._draw(job, more, policies, now_s)
        if job.count:
            self.jobs[attempt_id], self._by_app[job.app.id] = job, attempt_id
        else:
            job.sizes = ()
            self.forget(attempt_id)

    def _pass_on(self, job: ProbingJob, now_s: float) -> None:
        """Let others go before probes whose application had the turn with its last request, and has it still.

        One that is passed on again and again is dropped, and another node is probed in its place.
        """
        offered, job.offered = job.offered, ()
        for label, size in job.sizes if offered else ():
            for node_id in self._turns(job, label, size):
                if node_id in offered:
                    for probe in list(job.probes[node_id]):
                        probe.passed_until_s = now_s + PASSED_S
                        probe.passes += 1
                        if probe.passes >= MAX_PASSES:
                            self.remove(job, probe)

    def _draw(self, job: ProbingJob, tasks: int, policies: Policies, now_s: float) -> None:
        """Have nodes probed for further tasks of an application."""
        nodes = self._where(job, now_s)
        new = NewTasks(job.app, tasks, job.expected_s, more=bool(job.count))
        try:
            node_ids = policies.cluster.probe(new, nodes, self._rng) if nodes else ()
        except PolicyFaultError as error:
            self._failed(job.app.id, str(error))
            return
        self._compare(
            Question("probe", job.app, node_ids, lambda rival: rival.cluster.probe(new, nodes, _SHADOW), _counted)
        )
        for node_id in node_ids[: MAX_PROBES - job.count]:
            self.add(job, node_id, now_s)

    def _where(self, job: ProbingJob, now_s: float) -> list[ProbedNode]:
        """Return the nodes where all containers of an application may go that it waits for."""
        (label, size), *_ = job.sizes
        nodes = []
        for node_id in self.cluster.nodes:
            view = self.cluster.usable(node_id)
            fits = view is not None and view.label == label and size.fits(view.capacity)
            if view is not None and fits and view.host not in job.app.kept_off:
                nodes.append(self.probed(view, now_s))
        return nodes

    def probed(self, view: NodeView, now_s: float) -> ProbedNode:
        """Return a node as `probe` policies see it."""
        queue = self.queues.get(view.id)
        changes = queue.changes if queue is not None else 0
        before = self._looked.get(view.id)
        if before is None or before[0] is not view or before[1] != changes:
            before = self._looked[view.id] = view, changes, self._look(view, queue, now_s)
        return before[2]

    def _look(self, view: NodeView, queue: ProbeQueue | None, now_s: float) -> ProbedNode:
        waits_s, long_waits = 0.0, False
        for probe in queue.by_number.values() if queue is not None else ():
            job = self.jobs.get(probe.attempt_id)
            if job is not None:
                waits_s += job.expected_s * min(1.0, job.tasks / job.count)
                long_waits = long_waits or job.app.job_class is JobClass.LONG
        return self.cluster.probed(view.id, waits_s, long_waits, view.host in self._partition, now_s)

    def add(self, job: ProbingJob, node_id: str, now_s: float, moves: int = 0) -> None:
        """Put a probe into a node's queue. moves: how often it moved."""
        self._number += 1
        probe = Probe(self._number, job.attempt_id, node_id, now_s, moves=moves)
        job.probes.setdefault(node_id, []).append(probe)
        job.count += 1
        queue = self.queues.get(node_id)
        if queue is None:
            queue = self.queues[node_id] = ProbeQueue()
        queue.add(probe)

    def remove(self, job: ProbingJob, probe: Probe) -> None:
        """Take a probe out of its node's queue."""
        node_id = probe.node_id
        job.probes[node_id].remove(probe)
        if not job.probes[node_id]:
            del job.probes[node_id]
        job.count -= 1
        self.queues[node_id].remove(probe)
        if not self.queues[node_id]:
            del self.queues[node_id]
            self._looked.pop(node_id, None)

    def forget(self, attempt_id: str) -> None:
        """Drop all probes of an application."""
        job = self.jobs.pop(attempt_id, None)
        if job is None:
            return
        self._by_app.pop(job.app.id, None)
        for probe in [probe for probes in job.probes.values() for probe in probes]:
            self.remove(job, probe)

    def clear(self) -> None:
        """Forget all."""
        for attempt_id in list(self.jobs):
            self.forget(attempt_id)
        self._unprobed = Unprobed()

    # Turns

    def _turns(self, job: ProbingJob, label: str, size: Resources) -> dict[str, int]:
        """Return the nodes where it is the turn of an application, and how many containers it may place on each."""
        free, turns = self._free.by_node(label, size), {}
        both = job.probes if len(job.probes) <= len(free) else free
        for node_id in [node_id for node_id in both if node_id in job.probes and node_id in free]:
            mine = sum(count for member, count in self.served(node_id, free[node_id]) if member is job)
            if mine:
                turns[node_id] = mine
        return turns

    def served(self, node_id: str, free: int) -> Iterator[tuple[ProbingJob, int]]:
        """Yield the applications whose turn it is at a node with so many free places, and how many each gets."""
        for probe in self.in_order(node_id):
            job = self.jobs.get(probe.attempt_id)
            if job is None or probe.passed_until_s > self._now_s:
                continue
            if self._now_s > job.beats.alive_until_s:
                continue
            if job.off_long and self.cluster.all_long(node_id):
                continue
            count = min(free, job.tasks) if job.sticky else 1
            yield job, count
            free -= count
            if free <= 0:
                return

    def in_order(self, node_id: str) -> Sequence[Probe]:
        """Return the probes of a node, first the one whose turn is next."""
        queue = self.queues.get(node_id)
        if queue is None:
            return ()
        slots = self._policies().for_nodes.node
        try:
            return queue.in_order(Ordering(self.view, slots.order_key, slots.bypass_limit_s), self._now_s)
        except PolicyFaultError as error:
            self._failed("", str(error))
            return list(queue.by_number.values())

    def view(self, probe: Probe) -> ContainerView:
        """Return a probe as a waiting container."""
        job = self.jobs[probe.attempt_id]
        return seen(probe, job.app, job.expected_s, self._left_s(job.app.id, self._now_s))

    # Rounds

    def round(self, partition: frozenset[str], now_s: float) -> None:
        """Do the work of each second. partition: hosts that are kept for short jobs."""
        self._now_s, self._partition = now_s, partition
        for job in [job for job in self.jobs.values() if now_s - job.beats.last_s > FORGOTTEN_S]:
            self.forget(job.attempt_id)
        for node_id in self._looked.keys() - self.cluster.nodes.keys():
            del self._looked[node_id]
        for node_id in [node_id for node_id in self.queues if self.cluster.usable(node_id) is None]:
            for probe in list(self.queues[node_id].by_number.values()):
                self.remove(self.jobs[probe.attempt_id], probe)

    # What people see

    def why(self, attempt_id: str, now_s: float) -> str:
        """Return in words what an application waits for; "" if it does not wait."""
        text = self._central.why(attempt_id, now_s)
        job = self.jobs.get(attempt_id)
        return f"{text}; {job.count} places in the queues of {len(job.probes)} nodes" if job is not None else text


def off_long(app: AppView, policies: Policies) -> bool:
    """Return whether no container of an application is to wait at a node whose cores long tasks hold."""
    return not policies.cluster.behind_long and app.job_class is not JobClass.LONG


def _counted(nodes: Sequence[str]) -> str:
    return f"{len(nodes)} places at {len(set(nodes))} nodes"
