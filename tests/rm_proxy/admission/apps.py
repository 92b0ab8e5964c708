"""Several applications of one cluster, message by message, with a ResourceManager that grants what has room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.messages import Ack, ContainerReport, ContainerState
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain import ids
from rm_proxy.domain.records import AppRecord
from tests.rm_proxy.yarn_messages import TIMESTAMP, coordinator, node_id, report, row

ZOE: Mapping[str, Any] = {"preset": "zoe", "place": {"policy": "least_queue"}}
"""Nodes of 8 vcores; `least_queue` places on every node, so that the shares alone limit."""


@dataclass
class App:
    """One application: its master asks, the ResourceManager grants each guaranteed container on host1."""

    world: Coordinator
    number: int
    held: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By container: G or Q, and its node."""
    wanted_g: dict[int, y.ResourceRequestProto] = field(default_factory=dict)
    """Guaranteed rows that the ResourceManager has not granted, by priority."""
    blacklist: set[str] = field(default_factory=set)
    """As the ResourceManager has it."""
    response_id: int = 0
    serial: int = 0
    number_of_attempt: int = 1

    @property
    def id(self) -> str:
        return f"application_{TIMESTAMP}_{self.number:04}"

    @property
    def attempt(self) -> Attempt:
        return self.world.attempt(f"appattempt_{TIMESTAMP}_{self.number:04}_{self.number_of_attempt:06}")

    def proto(self, number: int) -> y.ContainerIdProto:
        proto = y.ContainerIdProto(id=number)
        proto.app_attempt_id.attemptId = 1
        proto.app_attempt_id.application_id.id = self.number
        proto.app_attempt_id.application_id.cluster_timestamp = TIMESTAMP
        return proto

    def container_id(self, number: int) -> str:
        return ids.container_id_text(self.proto(number))

    def beat(
        self,
        now_s: float,
        *rows: y.ResourceRequestProto,
        release: Sequence[int] = (),
        ended: Sequence[tuple[int, int]] = (),
        grant: bool = True,
    ) -> tuple[int, int]:
        """Exchange a heartbeat, and the next one if guaranteed containers came; returns how many G and Q came.

        grant: whether the ResourceManager grants the guaranteed ones that it was asked for.
        """
        g, q = self._exchange(now_s, rows, release, ended, grant)
        more_g, more_q = self._exchange(now_s, (), (), (), grant) if g else (0, 0)
        return g + more_g, q + more_q

    def _exchange(
        self,
        now_s: float,
        rows: Sequence[y.ResourceRequestProto],
        release: Sequence[int],
        ended: Sequence[tuple[int, int]],
        grant: bool,
    ) -> tuple[int, int]:
        request = y.AllocateRequestProto(ask=rows, response_id=self.response_id)
        request.release.extend(self.proto(number) for number in release)
        attempt = self.attempt
        raw = request.SerializeToString()
        sent = y.AllocateRequestProto.FromString(attempt.exchange.on_allocate(raw, now_s) or raw)
        self.blacklist |= set(sent.blacklist_request.blacklist_additions)
        self.blacklist -= set(sent.blacklist_request.blacklist_removals)
        self.response_id += 1
        answer = y.AllocateResponseProto(response_id=self.response_id)
        for asked in sent.ask:
            opportunistic = asked.execution_type_request.execution_type == y.OPPORTUNISTIC
            if opportunistic and asked.num_containers and asked.resource_name.startswith("host"):
                self._grant(answer, asked, asked.resource_name)
            elif asked.resource_name == "*" and not opportunistic:
                self.wanted_g[asked.priority.priority] = asked
        for priority, asked in list(self.wanted_g.items()) if grant else []:
            for _ in range(self.wanted_g.pop(priority).num_containers):
                self._grant(answer, asked, "host1")
        for number, status in ended:
            answer.completed_container_statuses.add(state=y.C_COMPLETE, exit_status=status).container_id.CopyFrom(
                self.proto(number)
            )
            self.held.pop(number, None)
        raw = answer.SerializeToString()
        seen = y.AllocateResponseProto.FromString(attempt.exchange.on_answer(raw, now_s) or raw)
        attempt.take_effects()
        got = [self.held[one.id.id][0] for one in seen.allocated_containers]
        return got.count("G"), got.count("Q")

    def _grant(self, answer: y.AllocateResponseProto, asked: y.ResourceRequestProto, host: str) -> None:
        self.serial += 1
        given = answer.allocated_containers.add(execution_type=asked.execution_type_request.execution_type)
        given.id.CopyFrom(self.proto(self.serial))
        given.nodeId.host, given.nodeId.port = host, 8041
        given.resource.CopyFrom(asked.capability)
        given.priority.CopyFrom(asked.priority)
        given.allocation_request_id = asked.allocation_request_id
        self.held[self.serial] = ("Q" if given.execution_type == y.OPPORTUNISTIC else "G", host)

    def count(self) -> tuple[int, int]:
        """Return how many G and Q it holds."""
        kinds = [kind for kind, _ in self.held.values()]
        return kinds.count("G"), kinds.count("Q")


def cluster(policies: Mapping[str, Any] = ZOE, nodes: int = 3) -> Coordinator:
    """Return a coordinator with nodes of 8 GB and 8 vcores, and no application but the one of its making."""
    return coordinator(policies, nodes)


def app(world: Coordinator, number: int, *tags: str, app_type: str = "QUICKSILVER", **other: Any) -> App:
    """Submit an application."""
    base = {"queue": "default", "user": "u", "name": f"app{number}", "priority": 0, "submitted_s": float(number)}
    made = App(world, number)
    world.inventory.update_app(AppRecord(id=made.id, type=app_type, tags=tags, **(base | other)))
    return made


def wants(core: int, elastic: int) -> tuple[y.ResourceRequestProto, ...]:
    """Return rows for core (priority 10) and elastic containers (11); 0 for none."""
    return (row("*", core, 10), row("*", elastic, 11))


def reported(world: Coordinator, now_s: float, *apps: App, attained_s: float | None = None) -> list[Ack]:
    """Have all nodes report the containers that these applications hold there as running; returns the answers."""
    acks = []
    for number in range(1, len(world.nodes) + 1):
        there = [
            ContainerReport(
                container_id=one.container_id(serial),
                app_id=one.id,
                kind=kind,
                state=ContainerState.RUNNING,
                memory_mb=1024,
                vcores=1,
                attained_s=attained_s,
            )
            for one in apps
            for serial, (kind, host) in one.held.items()
            if host == f"host{number}"
        ]
        g, q = (sum(c.kind == kind for c in there) for kind in "GQ")
        used = {"used_g_mb": 1024 * g, "used_g_vcores": g, "used_q_mb": 1024 * q, "used_q_vcores": q}
        acks.append(world.reports.report(node_id(number), report(number, containers=there, **used), now_s))
    return acks
