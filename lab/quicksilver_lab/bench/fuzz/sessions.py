"""Conversations to mutate: recorded ones of real daemons, cut into frames, and answers built for the requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from google.protobuf.message import DecodeError, Message

from hadoop_rpc.connection import AM_PROTOCOL, NM_PROTOCOL, Call, ClientConnection, ServerConnection
from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos import yarn_server_pb2 as s
from quicksilver_lab.bench.fuzz.mutation import mutated_bytes, mutated_frame, mutated_message
from quicksilver_lab.bench.fuzz.node_reports import NodeReports, report_steps
from quicksilver_lab.bench.fuzz.targets import CLIENT_ID, OPENING, AmRelay, NodeGate, NodeTracker, Step, Target
from sidecar.tracker.relay import TRACKER_PROTOCOL

RECORDINGS: Final = Path(__file__).parents[4] / "tests" / "data" / "hadoop_rpc"
_PREAMBLE: Final = 7
_MAX_STEPS: Final = 200
_POOL: Final = 20_000
_AM: Final = ("am_auth", "am_grants")
_NM: Final = ("nm_containers",)


@dataclass(frozen=True)
class Recording:
    """A conversation: who sent which frame; the first of the client has the preamble before it."""

    frames: tuple[Step, ...]

    @property
    def login(self) -> tuple[Step, ...]:
        """The frames up to the connection context."""
        replies = [n for n, (side, _) in enumerate(self.frames) if side == "server"]
        last = replies[1]  # the offer, then success
        return self.frames[: last + 2]

    @property
    def rest(self) -> tuple[Step, ...]:
        """The frames behind those."""
        return self.frames[len(self.login) :]


def read_recordings(folder: Path = RECORDINGS) -> dict[str, Recording]:
    """Return the recorded conversations by name."""
    return {file.stem: _read(file) for file in sorted(folder.glob("*.txt"))}


def _read(file: Path) -> Recording:
    streams: list[Step] = []
    for line in file.read_text().splitlines():
        side, text = line.split(" ")
        if side != "password":
            streams.append((side, bytes.fromhex(text)))
    frames: list[Step] = []
    rest = {"client": b"", "server": b""}
    begun = False
    for side, data in streams:
        rest[side] += data
        while True:
            skip = _PREAMBLE if side == "client" and not begun else 0
            if len(rest[side]) < skip + 4:
                break
            size = skip + 4 + int.from_bytes(rest[side][skip : skip + 4], "big")
            if len(rest[side]) < size:
                break
            frames.append((side, rest[side][:size]))
            rest[side] = rest[side][size:]
            begun = begun or side == "client"
    return Recording(tuple(frames))


class FuzzSessions:
    """Makes sessions; keeps mutated frames for later ones, where they meet others."""

    def __init__(self, recordings: dict[str, Recording]) -> None:
        self._recordings = recordings
        self._pool: dict[str, list[bytes]] = {"client": [], "server": []}

    def steps(self, target: Target, rng: Random) -> Iterator[Step]:
        """Yield the steps of one session; the next one may depend on what the last one did to the target."""
        if isinstance(target, AmRelay):
            yield from _bounded(_relay(target, self._recordings[rng.choice(_AM)], rng))
        elif isinstance(target, NodeGate):
            yield from _bounded(_gate(target, self._recordings[rng.choice(_NM)], rng))
        elif isinstance(target, NodeTracker):
            yield from _bounded(_tracker(target, rng))
        elif isinstance(target, NodeReports):
            yield from _bounded(report_steps(rng))
        elif rng.random() < 0.2 or not all(self._pool.values()):
            yield from _bounded(_wire(list(self._recordings.values()), rng, self._pool))
        else:
            yield from _bounded(_mixed(rng, self._pool))


def _mixed(rng: Random, pool: dict[str, list[bytes]]) -> Iterator[Step]:
    """Frames of earlier sessions in a new order, several in a chunk."""
    while True:
        side = rng.choice(("client", "server"))
        yield side, b"".join(rng.choices(pool[side], k=rng.choice((1, 2, 8, 32))))


def _bounded(steps: Iterator[Step]) -> Iterator[Step]:
    for step, _ in zip(steps, range(_MAX_STEPS), strict=False):
        yield step


def _wire(recordings: Sequence[Recording], rng: Random, pool: dict[str, list[bytes]]) -> Iterator[Step]:
    """Mutated frames in chunks of any size; most sessions stay readable, so that the fast lane is met too."""
    tame = rng.choice((0.0, 0.9, 1.0))
    frames = rng.choice(recordings).frames
    chunk: dict[str, bytes] = {"client": b"", "server": b""}
    for _ in range(20):
        for side, raw in frames:
            skip = _PREAMBLE if raw.startswith(b"hrpc") else 0
            frame = raw if rng.random() < 0.3 else raw[:skip] + mutated_frame(raw[skip:], rng, tame=tame)
            if skip and rng.random() < 0.02:
                frame = mutated_bytes(frame, rng)
            chunk[side] += frame
            if tame and not skip:
                _keep(pool[side], frame, rng)
            if rng.random() < 0.6:
                cut = len(chunk[side]) if rng.random() < 0.7 else rng.randrange(len(chunk[side]) + 1)
                yield side, chunk[side][:cut]
                chunk[side] = chunk[side][cut:]
        frames = tuple(step for step in frames if not step[1].startswith(b"hrpc"))


def _keep(pool: list[bytes], frame: bytes, rng: Random) -> None:
    if len(pool) < _POOL:
        pool.append(frame)
    else:
        pool[rng.randrange(_POOL)] = frame


def _login(recording: Recording, rng: Random) -> Iterator[Step]:
    for side, raw in recording.login:
        skip = _PREAMBLE if raw.startswith(b"hrpc") else 0
        if rng.random() < 0.02:
            yield side, raw[:skip] + mutated_frame(raw[skip:], rng, tame=0.7)
        else:
            yield side, raw


def _relay(target: AmRelay, recording: Recording, rng: Random) -> Iterator[Step]:
    """An application master that asks and a ResourceManager that grants, both mutated."""
    yield from _login(recording, rng)
    for side, raw in recording.rest[:2]:  # the registration
        yield side, mutated_frame(raw, rng) if rng.random() < 0.05 else raw
    am, rm = ClientConnection(client_id=CLIENT_ID), ServerConnection()
    rm.receive_data(OPENING)
    recorded = [raw for side, raw in recording.rest if side == "client"]
    answers = [raw for side, raw in recording.rest if side == "server"]
    wild = rng.choice((0.0, 0.0, 0.05))
    serial, container = 0, 1
    while True:
        if rng.random() < 0.15:
            yield "client", mutated_frame(rng.choice(recorded), rng, tame=1 - wild)
        else:
            body = _asks(rng, serial).SerializeToString()
            changed = mutated_message(body, rng) if rng.random() < 0.25 else body
            yield "client", am.call("allocate", AM_PROTOCOL, changed)
        for call in _calls(rm, target.to_rm):
            serial += 1
            answer, container = _grants(call, rng, serial, container)
            changed = mutated_message(answer, rng) if rng.random() < 0.25 else answer
            raw = rm.response(call, changed) if rng.random() < 0.97 else rm.error(call, _exception(rng), "so")
            yield "server", mutated_frame(raw, rng, tame=0.0) if rng.random() < wild else raw
        if rng.random() < 0.05 and answers:
            yield "server", mutated_frame(rng.choice(answers), rng, tame=1 - wild)


def _calls(server: ServerConnection, chunks: Sequence[bytes]) -> list[Call]:
    """Return the calls in what was relayed; what cannot be read is none."""
    try:
        events = [event for data in chunks for event in server.receive_data(data)]
    except RemoteProtocolError:
        return []
    return [event for event in events if isinstance(event, Call)]


def _exception(rng: Random) -> str:
    yarn = "org.apache.hadoop.yarn.exceptions."
    return rng.choice((f"{yarn}ApplicationMasterNotRegisteredException", f"{yarn}InvalidResourceRequestException", ""))


def _asks(rng: Random, serial: int) -> y.AllocateRequestProto:
    request = y.AllocateRequestProto(response_id=serial if rng.random() < 0.9 else max(0, serial - 1))
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        row = request.ask.add(
            resource_name=rng.choice(("*", "*", "/r1", "node1", "node9")),
            num_containers=rng.choice((0, 1, 2, 5)) if rng.random() < 0.98 else 300,
            relax_locality=rng.random() < 0.9,
        )
        row.priority.priority = rng.choice((5, 10, 20))
        row.capability.memory, row.capability.virtual_cores = rng.choice((512, 1024, 1 << 20)), 1
        if rng.random() < 0.3:
            row.allocation_request_id = rng.choice((-1, 0, 7, 2**31, 2**40))
        if rng.random() < 0.1:
            row.execution_type_request.execution_type = y.OPPORTUNISTIC
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        request.release.add().CopyFrom(_container_id(rng.randrange(1, 40)))
    if rng.random() < 0.05:
        request.blacklist_request.blacklist_additions.append(rng.choice(("node1", "")))
    if rng.random() < 0.03:
        update = request.update_requests.add(container_version=0, update_type=y.PROMOTE_EXECUTION_TYPE)
        update.container_id.CopyFrom(_container_id(rng.randrange(1, 40)))
    return request


def _container_id(number: int) -> y.ContainerIdProto:
    proto = y.ContainerIdProto(id=number)
    proto.app_attempt_id.attemptId = 1
    proto.app_attempt_id.application_id.id, proto.app_attempt_id.application_id.cluster_timestamp = 1, 1795248426084
    return proto


def _grants(call: Call, rng: Random, serial: int, container: int) -> tuple[bytes, int]:
    """Return an answer that grants some of what a call asks for, and ends some containers."""
    answer = y.AllocateResponseProto(response_id=serial, num_cluster_nodes=3)
    answer.limit.memory, answer.limit.virtual_cores = 8192, 8
    try:
        rows = y.AllocateRequestProto.FromString(call.body).ask if call.method == "allocate" else []
    except DecodeError:
        rows = []
    for row in rows:
        if rng.random() < 0.5 and len(answer.allocated_containers) < 20:
            grant = answer.allocated_containers.add(
                execution_type=row.execution_type_request.execution_type,
                allocation_request_id=row.allocation_request_id,
            )
            grant.id.CopyFrom(_container_id(container))
            grant.nodeId.host, grant.nodeId.port = rng.choice(("node1", "node2", "node9")), 8041
            grant.resource.CopyFrom(row.capability)
            grant.priority.CopyFrom(row.priority)
            container += 1
    for _ in range(rng.choice((0, 0, 1, 2))):
        status = answer.completed_container_statuses.add(state=y.C_COMPLETE, diagnostics="")
        status.container_id.CopyFrom(_container_id(rng.randrange(1, container + 1)))
        status.exit_status = rng.choice((0, 1, -100, -102, -105, -108))
    return answer.SerializeToString(), container


def _gate(target: NodeGate, recording: Recording, rng: Random) -> Iterator[Step]:
    """An application master that starts, asks, stops; a NodeManager that answers; a node that holds and lets go."""
    yield from _login(recording, rng)
    nm = ServerConnection()
    nm.receive_data(OPENING)
    client = ClientConnection(client_id=CLIENT_ID)
    calls = _bodies(recording)
    answers = [raw for side, raw in recording.rest if side == "server"]
    answer_bodies = [body for body in (_body(raw) for raw in answers) if body is not None]
    wild = rng.choice((0.0, 0.0, 0.05))
    while True:
        kind = rng.random()
        if kind < 0.5:
            method, body = rng.choice(calls)
            changed = mutated_message(body, rng) if rng.random() < 0.6 else body
            raw = client.call(rng.choice((method, method, method, "signalToContainer")), NM_PROTOCOL, changed)
            yield "client", mutated_frame(raw, rng, tame=0.0) if rng.random() < wild else raw
        elif kind < 0.75:
            yield "decide", rng.choice((b"0", b"1"))
        elif kind < 0.85:
            yield "going", b""
        elif kind < 0.9:
            yield rng.choice((("ping", b""), ("own", rng.choice(calls)[1]), ("own", b"")))
        elif kind < 0.905:
            yield "closed", b""
        for call in _calls(nm, target.to_nm):
            body = rng.choice(answer_bodies)
            changed = mutated_message(body, rng) if rng.random() < 0.25 else body
            raw = (
                nm.response(call, changed)
                if rng.random() < 0.9
                else nm.error(call, _exception(rng), "token is expired")
            )
            if rng.random() < 0.9:
                yield "server", mutated_frame(raw, rng, tame=0.0) if rng.random() < wild else raw


def _tracker(target: NodeTracker, rng: Random) -> Iterator[Step]:
    """A NodeManager that registers and beats, and a ResourceManager that answers; without a login, as is usual."""
    node, rm = ClientConnection(client_id=CLIENT_ID), ServerConnection()
    rm.receive_data(OPENING)
    yield "client", OPENING + node.context(TRACKER_PROTOCOL, "yarn")
    wild = rng.choice((0.0, 0.0, 0.05))
    while True:
        method, message = _beat(rng) if rng.random() < 0.9 else _registration(rng)
        body = message.SerializeToString()
        changed = mutated_message(body, rng) if rng.random() < 0.6 else body
        raw = node.call(method, TRACKER_PROTOCOL, changed)
        yield "client", mutated_frame(raw, rng, tame=0.0) if rng.random() < wild else raw
        for call in _calls(rm, target.to_rm):
            answer = _size_answer(call.method, rng).SerializeToString()
            changed = mutated_message(answer, rng) if rng.random() < 0.6 else answer
            raw = rm.response(call, changed) if rng.random() < 0.95 else rm.error(call, _exception(rng), "so")
            yield "server", mutated_frame(raw, rng, tame=0.0) if rng.random() < wild else raw


def _registration(rng: Random) -> tuple[str, Message]:
    message = s.RegisterNodeManagerRequestProto()
    message.node_id.host, message.node_id.port = "node1", 8041
    message.resource.memory, message.resource.virtual_cores = rng.choice((8192, 4096, 1, 0)), rng.choice((8, 4, 0))
    return "registerNodeManager", message


def _beat(rng: Random) -> tuple[str, Message]:
    message = s.NodeHeartbeatRequestProto()
    status = message.node_status
    status.node_id.host, status.node_id.port = "node1", 8041
    for _ in range(rng.choice((0, 1, 3))):
        container_status = status.containersStatuses.add(state=rng.choice((y.C_RUNNING, y.C_COMPLETE)), diagnostics="")
        container_status.container_id.CopyFrom(_container_id(rng.randrange(1, 40)))
        container_status.executionType = rng.choice((y.OPPORTUNISTIC, y.GUARANTEED))
        container_status.capability.memory, container_status.capability.virtual_cores = 1024, 1
    return "nodeHeartbeat", message


def _size_answer(method: str, rng: Random) -> Message:
    registered = method == "registerNodeManager"
    answer: s.RegisterNodeManagerResponseProto | s.NodeHeartbeatResponseProto = (
        s.RegisterNodeManagerResponseProto() if registered else s.NodeHeartbeatResponseProto()
    )
    if rng.random() < 0.5:
        answer.resource.memory, answer.resource.virtual_cores = rng.choice((8192, 4096, 0)), rng.choice((8, 4, 0))
    return answer


def _bodies(recording: Recording) -> list[tuple[str, bytes]]:
    """Return methods and parameters of the recorded calls."""
    server = ServerConnection()
    server.receive_data(OPENING)
    events = [event for side, raw in recording.rest if side == "client" for event in server.receive_data(raw)]
    return [(event.method, event.body) for event in events if isinstance(event, Call)]


def _body(raw: bytes) -> bytes | None:
    try:
        (event,) = ClientConnection().receive_data(raw)
    except (RemoteProtocolError, ValueError):
        return None
    return getattr(event, "body", None)
