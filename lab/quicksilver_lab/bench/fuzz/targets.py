"""What is fuzzed: the two ends of the wire, and the relays of proxy, sidecar and tracker; one object is a connection.

`feed` takes a step, the bytes of one side or an event beside them, and returns what came of it in a few words. Any
exception that leaves it is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from random import Random
from typing import Final, Protocol

from hadoop_rpc.connection import ClientConnection, ServerConnection
from hadoop_rpc.errors import RemoteProtocolError
from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.common.messages import ContainerState, Report
from quicksilver_lab.bench.fuzz.node_reports import NodeReports
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain.ids import app_of_attempt
from rm_proxy.domain.records import AppRecord
from rm_proxy.relay.commands import Identified, ToAm, ToRm
from rm_proxy.relay.relay import Relay
from rm_proxy.yarn.models import YarnNode, YarnQueue
from sidecar.gate.container_calls import ServicesMeta
from sidecar.gate.events import (
    ClientClosed,
    FromClient,
    FromUpstream,
    Garbage,
    GateDecided,
    GateEvent,
    Going,
    OwnCall,
    PingDue,
    StartAnswered,
    StartWanted,
    StartWithdrawn,
    ToUpstream,
    UpstreamClosed,
)
from sidecar.gate.gate import Gate
from sidecar.tracker.relay import ContainerSize, FromNode, FromRm, TrackerRelay
from sidecar.tracker.relay import ToResourceTracker as TrackerToRm

Step = tuple[str, bytes]
"""Who (client, server, or an event's name) and what."""
MAX_FRAME: Final = 1 << 20
CLIENT_ID: Final = b"0123456789abcdef"
"""Not drawn anew, so that the same seed gives the same bytes."""
OPENING: Final = b"hrpc\x09\x00\x00"
POLICIES: Final = {
    "queues": "*",
    "routes": [{"policy": "only_q"}],
    "place": {"policy": "least_queue"},
    "quota": {"policy": "none"},
}


class Target(Protocol):
    """One connection."""

    over: bool
    """Whether it was closed."""

    def feed(self, step: Step) -> str:
        """Take a step."""

    def kept_bytes(self) -> int:
        """Return how many bytes it keeps of what came, as far as it tells."""


class FuzzWire:
    """Both ends of the wire, each with the other side's bytes; one that refuses something is replaced by a new one."""

    def __init__(self) -> None:
        self.over = False
        self._server, self._client = ServerConnection(MAX_FRAME), ClientConnection(MAX_FRAME)

    def feed(self, step: Step) -> str:
        """Take bytes."""
        side, data = step
        try:
            events = self._server.receive_data(data) if side == "client" else self._client.receive_data(data)
        except RemoteProtocolError as error:
            if side == "client":
                self._server = ServerConnection(MAX_FRAME)
                self._server.receive_data(OPENING)
            else:
                self._client = ClientConnection(MAX_FRAME)
            return f"refused: {error}"
        return " ".join(type(event).__name__ for event in events[:4])

    def kept_bytes(self) -> int:
        """Return what unfinished frames keep."""
        return self._server.unfinished_bytes + self._client.unfinished_bytes


class AmRelay:
    """The proxy's relay in front of a coordinator with three nodes, where all goes queueable."""

    def __init__(self) -> None:
        self.over = False
        self.world = _world()
        self.relay = Relay(self.world.attempt, MAX_FRAME)
        self.to_rm: list[bytes] = []
        """What came to the ResourceManager with the last step."""
        self._now_s = 0.0

    def feed(self, step: Step) -> str:
        """Take bytes."""
        side, data = step
        self._now_s += 0.5
        self.to_rm.clear()
        try:
            beat = self.relay.beat_up if side == "client" else self.relay.beat_down
            if beat(data):
                self.to_rm += [data] if side == "client" else []
                return "heartbeat"
            take = self.relay.from_am if side == "client" else self.relay.from_rm
            commands = take(data, self._now_s)
        except RemoteProtocolError as error:
            self.over = True
            return f"refused: {error}"
        for command in commands:
            if isinstance(command, Identified):
                know_app(self.world, app_of_attempt(command.attempt_id))
        effects = [type(e).__name__ for c in commands if isinstance(c, ToAm) for e in c.effects]
        self.to_rm += [c.data for c in commands if isinstance(c, ToRm)]
        self.world.take_effects()
        return " ".join(dict.fromkeys([type(c).__name__ for c in commands[:6]] + effects[:6]))

    def kept_bytes(self) -> int:
        """Return what unfinished frames keep, and an entry for each call that waits."""
        relay = self.relay
        return relay._am.unfinished_bytes + relay._rm.unfinished_bytes + 100 * len(relay._calls)


class NodeGate:
    """The sidecar's gate; its node machine is played here: starts are held, passed, gone on by events."""

    def __init__(self) -> None:
        self.over = False
        self.states: dict[str, ContainerState] = {}
        self.starts: list[str] = []
        self.to_nm: list[bytes] = []
        self.gate = Gate(self, ServicesMeta(), MAX_FRAME)
        self.gate._client.client_id = CLIENT_ID

    def held_state(self, container_id: str) -> ContainerState | None:
        """Return the state of a held start."""
        return self.states.get(container_id)

    def held_by(self, attempt_id: str) -> Iterable[tuple[str, Resources]]:
        """Return the held starts."""
        return [(cid, Resources(1024, 1)) for cid in self.states] if attempt_id == self.gate.attempt_id else []

    def was_answered(self, container_id: str) -> bool:
        """Return whether a start was answered before; some were."""
        return container_id.endswith("1")

    def feed(self, step: Step) -> str:
        """Take bytes, or an event of the node."""
        event = self._event(*step)
        if event is None:
            return "nothing"
        self.to_nm.clear()
        words = []
        for command in self.gate.handle(event):
            words.append(type(command).__name__)
            if isinstance(command, StartWanted):
                self.starts.append(command.start.container_id)
            elif isinstance(command, Garbage):
                words.append(f"refused: {command.text}")
            elif isinstance(command, ToUpstream):
                self.to_nm.append(command.data)
            elif isinstance(command, StartAnswered | StartWithdrawn):
                self.states.pop(command.container_id, None)
        self.over = not self.gate.client_open and not self.gate.upstream_open
        return " ".join(dict.fromkeys(words))

    def kept_bytes(self) -> int:
        """Return what the gate keeps."""
        gate = self.gate
        frames = gate._server.unfinished_bytes + gate._client.unfinished_bytes
        return gate.kept_bytes + frames + 100 * len(gate._awaited)

    def _event(self, source: str, data: bytes) -> GateEvent | None:
        if source == "client":
            return FromClient(data)
        if source == "server":
            return FromUpstream(data)
        if source == "closed":
            return ClientClosed() if self.gate.client_open else UpstreamClosed()
        if source == "ping":
            return PingDue()
        if source == "own":
            return OwnCall(("fuzz", ""), "startContainers", data)
        if source == "decide":
            return self._decided(hold=data == b"1")
        if source == "going" and self.states:
            cid = next(iter(self.states))
            self.states[cid] = ContainerState.STARTING
            return Going(cid)
        return None

    def _decided(self, *, hold: bool) -> GateEvent | None:
        if not self.starts:
            return None
        cid = self.starts.pop(0)
        if hold:
            self.states[cid] = ContainerState.WAITING
        return GateDecided(cid, hold)


class NodeTracker:
    """The relay between NodeManager and resource tracker, which hides 4 vcores and 4 GB."""

    def __init__(self) -> None:
        self.over = False
        self.to_rm: list[bytes] = []
        self.tracker = TrackerRelay(ContainerSize(4096, 4), max_frame_bytes=MAX_FRAME)

    def feed(self, step: Step) -> str:
        """Take bytes."""
        side, data = step
        self.to_rm.clear()
        words = []
        for command in self.tracker.handle(FromNode(data) if side == "client" else FromRm(data)):
            words.append(type(command).__name__)
            if isinstance(command, Garbage):
                words.append(f"refused: {command.text}")
                self.over = True
            elif isinstance(command, TrackerToRm):
                self.to_rm.append(command.data)
        return " ".join(dict.fromkeys(words))

    def kept_bytes(self) -> int:
        """Return what unfinished frames keep, and an entry for each call that waits."""
        tracker = self.tracker
        return tracker._server.unfinished_bytes + tracker._client.unfinished_bytes + 100 * len(tracker._calls)


TARGETS: Final[dict[str, Callable[[], Target]]] = {
    "wire": FuzzWire,
    "relay": AmRelay,
    "gate": NodeGate,
    "tracker": NodeTracker,
    "reports": lambda: NodeReports(_world(), MAX_FRAME),
}


@cache
def _policies() -> Policies:
    return Policies.load(POLICIES)


def _world() -> Coordinator:
    """Return a coordinator that knows three nodes, a queue and the application of the recordings."""
    world = Coordinator(_policies(), Random(7))
    size = Resources(8192, 8)
    nodes = [f"node{n}" for n in (1, 2, 3)]
    world.yarn_nodes(
        [YarnNode(f"{n}:8041", n, "/r1", "RUNNING", "", size, Resources(), f"{n}:8042") for n in nodes], 0.0
    )
    for name in nodes:
        report = Report(
            node_id=f"{name}:8041", boot="b", seq=1, sidecar_url="http://127.0.0.1:1", memory_mb=8192, vcores=8
        )
        world.reports.report(report.node_id, report, 0.0)
    world.inventory.update_queues([YarnQueue("root.default", True, "RUNNING", size, Resources(), frozenset(), "")])
    return world


def know_app(world: Coordinator, app_id: str) -> None:
    """Let the coordinator know an application, as YARN's REST would."""
    world.inventory.update_app(
        AppRecord(
            id=app_id, type="MAPREDUCE", queue="default", user="u", name="job", tags=(), priority=0, submitted_s=0.0
        )
    )
