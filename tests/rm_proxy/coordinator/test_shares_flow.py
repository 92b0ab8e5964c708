"""Users and queues over a minute of heartbeats, starts and ends: each has its share while it wants it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Resources
from quicksilver.common.messages import ContainerReport, ContainerState, EventKind
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain import ids
from rm_proxy.yarn.models import YarnQueue
from tests.rm_proxy.coordinator.test_dispatch import LATE, Master
from tests.rm_proxy.yarn_messages import (
    TIMESTAMP,
    container,
    coordinator,
    ended,
    event,
    granted_rows,
    node_id,
    report,
    row,
)

NODES, CORES, TASK_S, STEP_S = 8, 8, 5.0, 0.25
PLACES = NODES * CORES


def queue(path: str, percent: int, user_ratio: float = 1.0, priority: int = 0) -> YarnQueue:
    size, most = (Resources(1024 * PLACES * part // 100, PLACES * part / 100) for part in (percent, 100))
    return YarnQueue(
        path,
        path != "root",
        "RUNNING",
        most,
        Resources(),
        frozenset(),
        "",
        capacity=size,
        user_ratio=user_ratio,
        priority=priority,
    )


@dataclass
class Job:
    """An application master that wants so many tasks of TASK_S; it heartbeats each second."""

    master: Master
    number: int
    user: str
    queue: str
    left: int
    beats_s: float
    granted: list[y.ContainerProto] = field(default_factory=list)
    """Delivered with the next answer."""
    over: list[y.ContainerStatusProto] = field(default_factory=list)


@dataclass
class Running:
    job: Job
    proto: y.ContainerProto
    text: str
    ends_s: float
    guaranteed: bool


class Cluster:
    """Nodes of eight places, whose containers start at once and run for TASK_S."""

    def __init__(self, queues: Sequence[YarnQueue]) -> None:
        self.world: Coordinator = coordinator(LATE, nodes=NODES)
        self.world.inventory.update_queues(queues)
        self.jobs: list[Job] = []
        self.running: dict[str, Running] = {}
        self.now_s, self._serial, self._seq = 0.0, 0, 1
        self.guaranteed: set[int] = set()
        """Numbers of the guaranteed containers."""
        self.held: list[Counter[str]] = []
        """Running containers by user, each step."""

    def submit(self, user: str, tasks: int, queue: str = "default") -> None:
        number = len(self.jobs) + 2
        master = Master(self.world, number, user=user, queue=queue)
        phase_s = number * 0.37 % 1.0
        self.jobs.append(Job(master, number, user, queue, tasks, self.now_s + phase_s))

    def run_for(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.now_s += STEP_S
            self._end()
            for job in self.jobs:
                if job.beats_s <= self.now_s:
                    job.beats_s += 1.0
                    self._beat(job)
            self.world.rounds.all_parts(self.now_s)
            self.held.append(Counter(one.job.user for one in self.running.values()))

    def _end(self) -> None:
        """Let nodes report what runs and what ended."""
        over = [one for one in self.running.values() if one.ends_s <= self.now_s]
        for one in over:
            del self.running[one.text]
            status = ended(one.proto.id.id)
            status.container_id.CopyFrom(one.proto.id)
            one.job.over.append(status)
        for number in range(1, NODES + 1):
            host = f"host{number}"
            here = [one for one in self.running.values() if one.proto.nodeId.host == host]
            events = []
            for one in over:
                if one.proto.nodeId.host == host:
                    self._seq += 1
                    text = {"container_id": one.text}
                    events.append(event(1, EventKind.ENDED, self._seq, ran_s=TASK_S).model_copy(update=text))
            shown = [self._shown(one) for one in here]
            g = sum(one.guaranteed for one in here)
            used = {"used_q_mb": 1024 * (len(here) - g), "used_q_vcores": len(here) - g}
            used |= {"used_g_mb": 1024 * g, "used_g_vcores": g}
            self.world.reports.report(
                node_id(number), report(number, containers=shown, events=events, **used), self.now_s
            )

    def _shown(self, one: Running) -> ContainerReport:
        app = f"application_{TIMESTAMP}_{one.job.number:04d}"
        state, size = ContainerState.RUNNING, {"memory_mb": 1024, "vcores": 1}
        kind = "G" if one.guaranteed else "Q"
        return ContainerReport(container_id=one.text, app_id=app, kind=kind, state=state, **size)

    def _beat(self, job: Job) -> None:
        master, master.now_s = job.master, self.now_s
        if master.attempt.exchange.allocates:
            granted, job.granted, over, job.over = job.granted, [], job.over, []
            answer = master.gets(*granted, completed=over)
            for proto in answer.allocated_containers:
                text = ids.container_id_text(proto.id)
                self.running[text] = Running(job, proto, text, self.now_s + TASK_S, proto.id.id in self.guaranteed)
                job.left -= 1
        master.asks(row("*", max(0, job.left)))
        for asked in granted_rows(master.sent.ask).values():
            self._grant(job, int(asked.resource_name.removeprefix("host")), asked)
        for asked in master.sent.ask:
            if not ids.is_private(asked.allocation_request_id):
                for _ in range(asked.num_containers):  # guaranteed: the ResourceManager sees room everywhere
                    self._grant(job, self._serial % NODES + 1, asked)
                    self.guaranteed.add(self._serial)

    def _grant(self, job: Job, node: int, asked: y.ResourceRequestProto) -> None:
        self._serial += 1
        proto = container(self._serial, node, asked)
        proto.id.app_attempt_id.application_id.id = job.number
        job.granted.append(proto)

    def mean(self, user: str, seconds: float) -> float:
        return fmean(step[user] for step in self.held[-round(seconds / STEP_S) :])


DEFAULT, PROD = queue("root.default", 60, 0.5), queue("root.prod", 40)


@pytest.mark.long
def test_each_queue_and_user_has_its_share_over_thirty_seconds_while_one_floods_the_cluster() -> None:
    cluster = Cluster([queue("root", 100), DEFAULT, PROD])
    for _ in range(8):
        cluster.submit("alice", 200)
    cluster.run_for(10.0)
    assert cluster.mean("alice", 4.0) > 0.7 * PLACES, "she has the whole cluster as a loan"
    for _ in range(4):
        cluster.submit("bob", 200)
    cluster.run_for(35.0)
    alice, bob = cluster.mean("alice", 30.0), cluster.mean("bob", 30.0)
    assert abs(alice - bob) < 0.05 * bob, (alice, bob)
    for _ in range(3):
        cluster.submit("carol", 300, "prod")
    cluster.run_for(35.0)
    alice, bob, carol = (cluster.mean(user, 30.0) for user in ("alice", "bob", "carol"))
    whole = alice + bob + carol
    assert whole > 0.75 * PLACES, "what is lost are heartbeats and starts"
    assert abs(carol - 0.4 * whole) < 0.05 * 0.4 * whole and abs(alice - bob) < 0.05 * bob, (alice, bob, carol)


def test_weights_of_the_fair_scheduler_hold_as_well() -> None:
    """Its queues have steady fair shares; within a queue there are no users."""
    cluster = Cluster([queue("root", 100), queue("root.default", 75), queue("root.prod", 25)])
    for number in range(8):
        cluster.submit("alice" if number % 2 else "carol", 300, "default" if number % 2 else "prod")
    cluster.run_for(40.0)
    alice, carol = cluster.mean("alice", 30.0), cluster.mean("carol", 30.0)
    assert abs(alice - 3 * carol) < 0.05 * alice, (alice, carol)
    assert alice + carol > 0.7 * PLACES


def test_a_queue_that_wants_little_gets_it_soon_and_leaves_the_rest_to_others() -> None:
    """The flood's tasks end all at once each 5 s: what is not freed within a second is taken back."""
    cluster = Cluster([queue("root", 100), DEFAULT, PROD])
    for _ in range(8):
        cluster.submit("alice", 300)
    cluster.run_for(10.0)
    for _ in range(5):
        cluster.submit("carol", 4, "prod")
        cluster.run_for(4.5)
        assert not cluster.jobs[-1].left
        cluster.run_for(2.0)
    assert cluster.mean("alice", 28.0) > 0.65 * PLACES
