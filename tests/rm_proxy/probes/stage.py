"""Nodes with queues of places, and applications that wait."""

from collections.abc import Mapping
from math import inf
from random import Random
from typing import Any

from policies.config.policy_set import Policies
from policies.model import AppView, Ask, JobClass, NodeView, Resources
from policies.waiting import WaitingApp
from quicksilver.common.messages import ContainerReport, ContainerState, Report
from rm_proxy.attempt.effects import Effect
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.coordinator.queue_usage import AllUsage
from rm_proxy.dispatch.central_queue import CentralQueue
from rm_proxy.dispatch.free_places import FreePlaces
from rm_proxy.dispatch.group_queue import Demand
from rm_proxy.dispatch.shares import Shares
from rm_proxy.probes.corrector import Corrector
from rm_proxy.probes.probed_cluster import ProbedCluster
from rm_proxy.probes.prober import Prober
from rm_proxy.probes.thief import Thief

ONE = Resources(1024, 1)


class Stage:
    """Nodes n0, n1 .. of one slot each, all busy at first, and applications that wait."""

    def __init__(self, policies: Mapping[str, Any], nodes: int = 2) -> None:
        self.nodes = {f"n{number}": Node(f"n{number}") for number in range(nodes)}
        self.classes: dict[str, JobClass] = {}
        self.left_s: dict[str, float] = {}
        self.faults: list[str] = []
        self.effects: list[Effect] = []
        self.policies = Policies.load({"queues": "*", "routes": [{"policy": "only_q"}], **policies})
        free = FreePlaces(lambda node_id: self.nodes[node_id].view)
        self.free = free
        self.prober = Prober(
            ProbedCluster(self.nodes, lambda app_id: self.classes.get(app_id, JobClass.NONE)),
            CentralQueue(free, lambda applicant, now_s: (), Shares(AllUsage())),
            free,
            Random(3),
            policies=lambda: self.policies,
            left_s=lambda app_id, now_s: self.left_s.get(app_id, 0.0),
            failed=lambda app_id, why: self.faults.append(why),
        )
        self.rng = Random(3)
        moving = self.prober, lambda: self.policies, self.rng, self.effects.append
        self.thief, self.corrector = Thief(*moving), Corrector(*moving)
        for node_id in self.nodes:
            self.to(node_id, free=False)

    def to(self, node_id: str, free: bool, usable: bool = True, frees_s: float = inf) -> None:
        """Let a node be free or busy."""
        used = Resources() if free else ONE
        self.nodes[node_id].view = NodeView(node_id, node_id, capacity=ONE, used_q=used, usable=usable, frees_s=frees_s)
        self.free.changed[node_id] = None

    def runs(self, node_id: str, app_id: str, expected_s: float, ran_s: float) -> None:
        """Let a container run at a node."""
        one = ContainerReport(
            container_id="container_1_0001_01_000001",
            app_id=app_id,
            state=ContainerState.RUNNING,
            kind="O",
            memory_mb=1024,
            vcores=1,
            priority=1,
            since_s=ran_s,
            expected_s=expected_s,
        )
        self.nodes[node_id].report = Report(
            node_id=node_id,
            incarnation="i",
            boot="b",
            seq=1,
            sidecar_url="u",
            memory_mb=1024,
            vcores=1,
            containers=[one],
        )

    def waits(self, name: str, wanted: int, now_s: float = 0.0, expected_s: float = 10.0) -> None:
        app = AppView(name, job_class=self.classes.get(name, JobClass.NONE))
        demand = Demand(WaitingApp(app, wanted, expected_s=expected_s), {("", ONE): wanted})
        self.prober.waits(name, demand, now_s)

    def may(self, name: str, now_s: float = 0.0) -> int:
        return self.prober.allowance(name, "", ONE, now_s)

    def where(self, name: str) -> list[str] | None:
        return self.prober.turns(Ask(AppView(name), 1, ONE))

    def starts(self, name: str, node_id: str) -> None:
        """Have a container of an application asked for at a node."""
        self.prober.taken(Ask(AppView(name), 1, ONE), node_id)
        self.to(node_id, free=False)

    def at(self, node_id: str) -> list[str]:
        """Return the applications with places in a node's queue, the first turn first."""
        return [probe.attempt_id for probe in self.prober.in_order(node_id)]
