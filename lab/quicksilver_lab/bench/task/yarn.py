"""A stand-in for the ResourceManager: it grants each OPPORTUNISTIC container at once on the node that is asked for."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast

from google.protobuf.message import Message

from hadoop_rpc.connection import ServerConnection
from hadoop_rpc.events import Call, SaslFrame
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from hadoop_rpc.protos.yarn_server_pb2 import (
    DistributedSchedulingAllocateRequestProto,
    DistributedSchedulingAllocateResponseProto,
)
from quicksilver_lab.bench.emulator.nodes.node_login import NodeLogin, signature
from rm_proxy.minting.tokens import MasterKey, NodeKeys, add_container_token, nm_token
from rm_proxy.relay.minted_frames import METHOD

TIMESTAMP: Final = 1_700_000_000_000
TASK_MB: Final = 1024
_KEY: Final = b"key of the stand-in"
_PORT: Final = 8041
NODE_KEYS: Final = NodeKeys(MasterKey(1, b"Ckey8byt"), MasterKey(2, b"Nkey8byt"), TIMESTAMP)
_EXPIRY_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class TaskCluster:
    """Nodes with slots of one vcore, and applications with one master each."""

    nodes: int
    slots: int
    masters: int


@dataclass(slots=True)
class ClusterLog:
    """What happened up to now."""

    counts: Counter[str] = field(default_factory=Counter)
    ended: defaultdict[int, list[y.ContainerIdProto]] = field(default_factory=lambda: defaultdict(list))
    """By application: containers whose ends its master has not been sent."""
    faults: list[str] = field(default_factory=list)
    own_grants: Counter[str] = field(default_factory=Counter)
    """By application: containers of the proxy's own that the ResourceManager got to know."""


def host_name(number: int) -> str:
    """Return a node's host."""
    return f"host{number}"


def node_id(number: int) -> str:
    """Return a node's id."""
    return f"{host_name(number)}:{_PORT}"


def app_id(number: int) -> str:
    """Return an application's id."""
    return f"application_{TIMESTAMP}_{number:04d}"


def am_token(app: int) -> TokenProto:
    """Return the AMRMToken of an application's first attempt."""
    identifier = y.AMRMTokenIdentifierProto(keyId=1)
    identifier.appAttemptId.CopyFrom(_attempt(app))
    name = identifier.SerializeToString()
    return TokenProto(identifier=name, password=signature(name, _KEY), kind="YARN_AM_RM_TOKEN", service="")


def _attempt(app: int) -> y.ApplicationAttemptIdProto:
    attempt = y.ApplicationAttemptIdProto(attemptId=1)
    attempt.application_id.id, attempt.application_id.cluster_timestamp = app, TIMESTAMP
    return attempt


class SchedulerStandIn(asyncio.Protocol):
    """One connection to its scheduler."""

    def __init__(self, log: ClusterLog, nodes: int) -> None:
        self._log, self._nodes = log, nodes
        self._rpc, self._login = ServerConnection(), NodeLogin(_KEY)
        self._app = self._granted = 0
        self._logins: set[str] = set()
        """Nodes for which the application has an NMToken."""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer logins and calls."""
        assert self._transport is not None
        for event in self._rpc.receive_data(data):
            if isinstance(event, SaslFrame):
                self._transport.write(self._rpc.sasl(self._login.handle(event)))
                if self._login.done:
                    identifier = y.AMRMTokenIdentifierProto.FromString(self._login.identifier)
                    self._app = identifier.appAttemptId.application_id.id
            elif isinstance(event, Call):
                self._transport.write(self._rpc.response(event, self._answer(event)))

    def _answer(self, call: Call) -> Message:
        if call.method == METHOD:
            own = DistributedSchedulingAllocateRequestProto.FromString(call.body)
            self._log.own_grants[app_id(self._app)] += len(own.allocated_containers)
            answer = self._allocated(y.AllocateRequestProto.FromString(own.allocate_request))
            return DistributedSchedulingAllocateResponseProto(allocate_response=answer.SerializeToString())
        if call.method != "allocate":
            return y.RegisterApplicationMasterResponseProto(queue="default")
        return self._allocated(y.AllocateRequestProto.FromString(call.body))

    def _allocated(self, request: y.AllocateRequestProto) -> y.AllocateResponseProto:
        answer = y.AllocateResponseProto(response_id=request.response_id + 1, num_cluster_nodes=self._nodes)
        for row in request.ask:
            queueable = row.execution_type_request.execution_type == y.OPPORTUNISTIC
            if not queueable:
                self._log.counts["guaranteed"] += row.num_containers if row.resource_name == "*" else 0
            elif row.resource_name.startswith("host"):
                answer.allocated_containers.extend(self._container(row) for _ in range(row.num_containers))
                if row.num_containers and row.resource_name not in self._logins:
                    self._logins.add(row.resource_name)
                    node = answer.allocated_containers[-1].nodeId
                    answer.nm_tokens.append(nm_token(_attempt(self._app), node, _user(self._app), NODE_KEYS))
        for container_id in self._log.ended.pop(self._app, ()):
            answer.completed_container_statuses.add(
                container_id=container_id, state=y.C_COMPLETE, exit_status=0, diagnostics=""
            )
        return answer

    def _container(self, row: y.ResourceRequestProto) -> y.ContainerProto:
        self._granted += 1
        container = y.ContainerProto(execution_type=y.OPPORTUNISTIC, allocation_request_id=row.allocation_request_id)
        container.id.id = self._granted
        container.id.app_attempt_id.CopyFrom(_attempt(self._app))
        container.nodeId.host, container.nodeId.port = row.resource_name, _PORT
        container.resource.CopyFrom(row.capability)
        container.priority.CopyFrom(row.priority)
        add_container_token(container, _user(self._app), "", NODE_KEYS, time.time(), _EXPIRY_S)
        return container


class RestStandIn:
    """Its REST, in a thread; use it in a with block."""

    def __init__(self, size: TaskCluster) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_RestCall, size))
        self._thread = threading.Thread(target=self._server.serve_forever, name="rest-stand-in", daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> str:
        self._thread.start()
        return self.url

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _RestCall(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, size: TaskCluster, *arguments: Any) -> None:
        self._size = size
        super().__init__(*arguments)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer."""
        body = json.dumps(rest_answer(self.path.partition("?")[0], self._size)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def rest_answer(path: str, size: TaskCluster) -> dict[str, Any]:
    """Return what the ResourceManager answers to a GET."""
    slots = size.nodes * size.slots
    name = path.removeprefix("/ws/v1/cluster/")
    if name == "nodes":
        return {"nodes": {"node": [_node(number, size.slots) for number in range(size.nodes)]}}
    if name == "apps":
        return {"apps": {"app": [_app(app_id(number)) for number in range(1, size.masters + 1)]}}
    if name.startswith("apps/"):
        return {"app": _app(name.partition("/")[2])}
    if name == "info":
        running = {"state": "STARTED", "haState": "ACTIVE", "resourceManagerVersion": "3.4.2"}
        return {"clusterInfo": {"id": TIMESTAMP, "startedOn": TIMESTAMP, **running}}
    if name == "scheduler":
        amount = {"memory": slots * TASK_MB, "vCores": slots}
        shares = {"partitionName": "", "effectiveMinResource": amount, "effectiveMaxResource": amount}
        capacities = {"queueCapacitiesByPartition": [shares]}
        leaf = {"queueName": "default", "queuePath": "root.default", "capacities": capacities}
        root = {"type": "capacityScheduler", "queueName": "root", "capacities": capacities, "queues": {"queue": [leaf]}}
        return {"scheduler": {"schedulerInfo": root}}
    return {"property": {"key": "", "value": "true"}}


def _node(number: int, slots: int) -> dict[str, Any]:
    free = {"availMemoryMB": slots * TASK_MB, "availableVirtualCores": slots}
    name = {"id": node_id(number), "nodeHostName": host_name(number), "rack": "/default-rack"}
    return {**name, "state": "RUNNING", "usedMemoryMB": 0, "usedVirtualCores": 0, **free}


def _app(name: str) -> dict[str, Any]:
    user = _user(int(name.rpartition("_")[2]))
    fields = {"applicationType": "MAPREDUCE", "queue": "default", "name": "job", "startedTime": TIMESTAMP}
    return {"id": name, "user": user, **fields}


def _user(app: int) -> str:
    return f"user{app % 4}"
