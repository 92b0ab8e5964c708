"""A small vocabulary for tests: messages of application masters and of the ResourceManager, and a coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.model import Resources
from quicksilver.common.messages import ContainerEvent, ContainerReport, ContainerState, EventKind, Report
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.effects import Effect
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain import ids
from rm_proxy.domain.records import AppRecord
from rm_proxy.yarn.models import YarnNode, YarnQueue

TIMESTAMP = 1_700_000_000_000
APP = f"application_{TIMESTAMP}_0001"
ATTEMPT = f"appattempt_{TIMESTAMP}_0001_000001"
ALL_Q: Mapping[str, Any] = {
    "queues": "*",
    "routes": [{"policy": "only_q"}],
    "place": {"policy": "least_queue"},
    "quota": {"policy": "none"},
}


def capability(memory_mb: int = 1024, vcores: int = 1, gpus: int = 0) -> y.ResourceProto:
    """Return a capability."""
    proto = y.ResourceProto(memory=memory_mb, virtual_cores=vcores)
    if gpus:
        proto.resource_value_map.add(key="yarn.io/gpu", value=gpus)
    return proto


def row(
    name: str = "*",
    count: int = 1,
    priority: int = 20,
    *,
    request_id: int | None = None,
    opportunistic: bool = False,
    enforced: bool | None = None,
    relax: bool = True,
    label: str | None = None,
    size: y.ResourceProto | None = None,
) -> y.ResourceRequestProto:
    """Return one row of an ask, without a request id unless one is given; enforced: if OPPORTUNISTIC, by default."""
    proto = y.ResourceRequestProto(resource_name=name, num_containers=count, relax_locality=relax)
    proto.priority.priority = priority
    proto.capability.CopyFrom(size if size is not None else capability())
    proto.execution_type_request.execution_type = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED
    proto.execution_type_request.enforce_execution_type = opportunistic if enforced is None else enforced
    if request_id is not None:
        proto.allocation_request_id = request_id
    if label is not None:
        proto.node_label_expression = label
    return proto


def container_proto(number: int, attempt: int = 1) -> y.ContainerIdProto:
    """Return a container's id."""
    proto = y.ContainerIdProto(id=number)
    proto.app_attempt_id.attemptId = attempt
    proto.app_attempt_id.application_id.id = 1
    proto.app_attempt_id.application_id.cluster_timestamp = TIMESTAMP
    return proto


def cid(number: int) -> str:
    """Return a container's id as text."""
    return ids.container_id_text(container_proto(number))


def node_id(number: int) -> str:
    """Return a node's id."""
    return f"host{number}:8041"


def container(number: int, node: int, asked: y.ResourceRequestProto) -> y.ContainerProto:
    """Return the container that the ResourceManager grants for a row."""
    proto = y.ContainerProto()
    proto.id.CopyFrom(container_proto(number))
    proto.nodeId.host, proto.nodeId.port = f"host{node}", 8041
    proto.resource.CopyFrom(asked.capability)
    proto.priority.CopyFrom(asked.priority)
    proto.execution_type = asked.execution_type_request.execution_type
    proto.allocation_request_id = asked.allocation_request_id
    return proto


def ended(number: int, exit_status: int = 0, diagnostics: str = "") -> y.ContainerStatusProto:
    """Return a completion."""
    proto = y.ContainerStatusProto(state=y.C_COMPLETE, exit_status=exit_status, diagnostics=diagnostics)
    proto.container_id.CopyFrom(container_proto(number))
    return proto


def event(number: int, kind: EventKind, seq: int = 1, reason: str = "", ran_s: float | None = None) -> ContainerEvent:
    """Return what a sidecar says of a container."""
    return ContainerEvent(seq=seq, container_id=cid(number), kind=kind, at_s=0.0, reason=reason, ran_s=ran_s)


def container_report(number: int = 0, **fields: Any) -> ContainerReport:
    """Return what a sidecar reports of a queueable container of 1 GB and one vcore that runs."""
    base = {"container_id": cid(number), "app_id": APP, "kind": "Q", "state": ContainerState.RUNNING}
    return ContainerReport(**(base | {"memory_mb": 1024, "vcores": 1} | fields))


def yarn_node(number: int, *, rack: str = "/r1", label: str = "", state: str = "RUNNING") -> YarnNode:
    """Return the ResourceManager's record of a node of 8 GB and 8 vcores."""
    size = Resources(8192, 8)
    return YarnNode(node_id(number), f"host{number}", rack, state, label, size, Resources(), f"host{number}:8042")


def report(number: int, **fields: Any) -> Report:
    """Return a sidecar's report of an empty node."""
    base = {"boot": "b", "seq": 1, "sidecar_url": "http://127.0.0.1:1", "memory_mb": 8192, "vcores": 8}
    return Report(node_id=node_id(number), **(base | fields))


@cache
def _registry() -> Registry:
    return Registry()


def coordinator(
    policies: Mapping[str, Any] = ALL_Q, nodes: int = 3, app_type: str = "MAPREDUCE", **app: Any
) -> Coordinator:
    """Return a coordinator that knows some nodes, the queue root.default, and one application."""
    world = Coordinator(Policies.load(policies, _registry()), Random(7))
    world.yarn_nodes([yarn_node(n) for n in range(1, nodes + 1)], 0.0)
    for number in range(1, nodes + 1):
        world.reports.report(node_id(number), report(number), 0.0)
    size = Resources(8192 * nodes, 8 * nodes)
    world.inventory.update_queues([YarnQueue("root.default", True, "RUNNING", size, Resources(), frozenset(), "")])
    base = {"queue": "default", "user": "u", "name": "job", "tags": (), "priority": 0, "submitted_s": 0.0}
    world.inventory.update_app(AppRecord(id=APP, type=app_type, **(base | app)))
    return world


class Am:
    """One application master and its ResourceManager, message by message, through an attempt of a coordinator."""

    def __init__(self, world: Coordinator) -> None:
        self.world = world
        self.attempt: Attempt = world.attempt(ATTEMPT)
        self.now_s = 0.0
        self.response_id = 0
        self.sent = y.AllocateRequestProto()
        """The last request as the ResourceManager got it."""
        self.effects: list[Effect] = []

    def asks(
        self, *rows: y.ResourceRequestProto, release: Sequence[int] = (), blacklist: Sequence[str] = ()
    ) -> list[y.ResourceRequestProto]:
        """Send a request; returns its rows as the ResourceManager got them."""
        request = y.AllocateRequestProto(ask=rows, response_id=self.response_id)
        request.release.extend(container_proto(n) for n in release)
        if blacklist:
            request.blacklist_request.blacklist_additions.extend(blacklist)
        raw = request.SerializeToString()
        rewritten = self.attempt.exchange.on_allocate(raw, self.now_s)
        self.sent = y.AllocateRequestProto.FromString(raw if rewritten is None else rewritten)
        return list(self.sent.ask)

    def gets(
        self,
        *allocated: y.ContainerProto,
        completed: Sequence[y.ContainerStatusProto] = (),
        limit: y.ResourceProto | None = None,
        repeated: bool = False,
    ) -> y.AllocateResponseProto:
        """Answer; returns the answer as the application master got it."""
        self.response_id += 0 if repeated else 1
        answer = y.AllocateResponseProto(response_id=self.response_id)
        answer.allocated_containers.extend(allocated)
        answer.completed_container_statuses.extend(completed)
        if limit is not None:
            answer.limit.CopyFrom(limit)
        raw = answer.SerializeToString()
        rewritten = self.attempt.exchange.on_answer(raw, self.now_s)
        self.effects = self.attempt.take_effects()
        return y.AllocateResponseProto.FromString(raw if rewritten is None else rewritten)

    def granted(self, first: int = 1) -> list[y.ContainerProto]:
        """Return all queueable containers of the last request, on their nodes; numbered from `first`."""
        rows = granted_rows(self.sent.ask).values()
        return [container(first + n, int(r.resource_name.removeprefix("host")), r) for n, r in enumerate(rows)]


def shown(rows: Sequence[y.ResourceRequestProto]) -> list[tuple[str, int, str, int]]:
    """Return rows as (name, count, G or Q, original request id) to compare with."""
    return [
        (
            r.resource_name,
            r.num_containers,
            "Q" if r.execution_type_request.execution_type == y.OPPORTUNISTIC else "G",
            ids.original_id(r.allocation_request_id)
            if ids.is_private(r.allocation_request_id)
            else r.allocation_request_id,
        )
        for r in rows
    ]


def granted_rows(rows: Sequence[y.ResourceRequestProto]) -> dict[int, y.ResourceRequestProto]:
    """Return the queueable host rows that ask for something, by private request id."""
    return {
        r.allocation_request_id: r
        for r in rows
        if r.num_containers and ids.is_private(r.allocation_request_id) and r.resource_name != "*"
    }
