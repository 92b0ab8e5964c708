"""The proxy's end of a sidecar's connection for reports, and what a sidecar sends there, whole and broken.

Whatever comes, the coordinator's next round works, and the connection is closed on what fits nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from quicksilver.common.messages import Ack, ContainerEvent, ContainerReport, ContainerState, EventKind, Report
from quicksilver.common.reports.deltas import DeltaWriter
from quicksilver.common.reports.frames import FrameKind, FrameReader, RefusalBody, frame
from quicksilver_lab.bench.fuzz.mutation import INTERESTING, mutated_bytes
from rm_proxy.api.report_connections import ReportConnection
from rm_proxy.coordinator.coordinator import Coordinator

NODE: Final = "node1:8041"
_APP: Final = "application_1700000000000_0001"
_VALUES: Final[tuple[Any, ...]] = (None, True, "", "x", "NaN", 0.5, -1, 1e308, [], [0], {}, {"0": 1}, {"-1": 1})
_STATES: Final = tuple(ContainerState)


class _KeepingTransport(asyncio.Transport):
    """Keeps what the proxy writes until it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += bytes(data)

    def get_write_buffer_size(self) -> int:
        return len(self.data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class NodeReports:
    """One connection to a proxy; between two frames the coordinator's rounds pass."""

    def __init__(self, world: Coordinator, max_bytes: int) -> None:
        self.over = False
        self._world, self._now_s = world, 1.0
        self._transport, self._frames = _KeepingTransport(), FrameReader(1 << 20)
        self._connection = ReportConnection(NODE, {"type": "http"}, self._handle, max_bytes, self._closed)
        self._connection.connection_made(self._transport)

    def _handle(self, node_id: str, report: Report, scope: object) -> Ack:
        return self._world.reports.report(node_id, report, self._now_s)

    def _closed(self, connection: ReportConnection, why: str) -> None:
        self.over = True

    def feed(self, step: tuple[str, bytes]) -> str:
        """Take bytes, or let a round pass."""
        side, data = step
        if side == "client":
            self._connection.data_received(data)
        else:
            self._round()
        written, self._transport.data = self._transport.data, b""
        answers = self._frames.feed(written)
        words = [kind.name for kind, _ in answers]
        words += [
            f"refused: {RefusalBody.model_validate_json(body).error.message}"
            for kind, body in answers
            if kind is FrameKind.REFUSAL
        ]
        if self.over and not self._transport.closed:
            raise AssertionError("the connection is over, and open")
        return " ".join(words)

    def _round(self) -> None:
        self._now_s += 1
        self._world.rounds.all_parts(self._now_s)
        self._world.take_effects()
        orders = self._world.reports.orders(NODE)
        if orders is not None:
            self._connection.notify(orders)
        self._connection.check()

    def kept_bytes(self) -> int:
        """Return what a frame that has not come whole keeps."""
        return self._connection.pending


class _ChangingNode:
    """A node whose state changes from report to report."""

    def __init__(self, rng: Random) -> None:
        self._rng, self._now_s, self._seq, self._number = rng, 0.0, 0, 0
        self._writer = DeltaWriter(lambda: self._now_s)
        self._containers: list[ContainerReport] = []
        self._events: list[ContainerEvent] = []

    def frame(self) -> tuple[FrameKind, bytes]:
        """Return the next report's frame."""
        rng = self._rng
        self._now_s += rng.choice((0.0, 0.5, 2.0))
        self._seq += 1
        for _ in range(rng.choice((0, 1, 3))):
            self._number += 1
            self._containers.append(self._container(f"container_1700000000000_0001_01_{self._number:06}"))
        if self._containers and rng.random() < 0.4:
            ended = self._containers.pop(rng.randrange(len(self._containers)))
            event = {"container_id": ended.container_id, "kind": rng.choice(tuple(EventKind)), "at_s": self._now_s}
            self._events.append(ContainerEvent(seq=len(self._events) + 1, ran_s=1.0, **event))
        containers = [
            self._container(c.container_id) if rng.random() < 0.3 else c.model_copy() for c in self._containers
        ]
        if rng.random() < 0.3:
            rng.shuffle(containers)
        self._containers = containers
        report = Report(
            node_id=NODE,
            boot="b",
            seq=self._seq,
            sidecar_url="http://node1:1",
            memory_mb=8192,
            vcores=8,
            containers=[c.model_copy() for c in containers],
            events=self._events[-rng.randrange(1, 9) :],
            queue_length=rng.randrange(9),
        )
        return self._writer.write(report)

    def _container(self, name: str) -> ContainerReport:
        rng, state = self._rng, self._rng.choice(_STATES)
        return ContainerReport(
            container_id=name,
            app_id=_APP,
            kind=rng.choice("QG"),
            state=state,
            memory_mb=1024,
            vcores=1,
            since_s=rng.random(),
            starts_in_s=rng.choice((None, 1.0)),
            shrunk_ago_s=rng.choice((None, 1.0)),
            attained_s=rng.choice((None, rng.random())),
        )


def report_steps(rng: Random) -> Iterator[tuple[str, bytes]]:
    """Yield frames of a node, whole and broken ones, and rounds between them."""
    node = _ChangingNode(rng)
    while True:
        kind, body = node.frame()
        if rng.random() < 0.02:
            kind = rng.choice(tuple(FrameKind))
        if rng.random() < 0.06:
            body = _broken(json.loads(body), rng)
        data = frame(kind, body)
        if rng.random() < 0.02:
            data = mutated_bytes(data, rng) or b"\0"
        cut = rng.randrange(1, len(data) + 1) if rng.random() < 0.2 else len(data)
        yield "client", data[:cut]
        if data[cut:]:
            yield "client", data[cut:]
        if rng.random() < 0.3:
            yield "round", b""


def _broken(body: Any, rng: Random) -> bytes:
    """Return JSON with another value at a place of any depth."""
    inner, steps = body, list[tuple[Any, Any]]()
    while isinstance(inner, dict | list) and inner and (not steps or rng.random() < 0.8):
        key = rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        steps.append((inner, key))
        inner = inner[key]
    holder, key = steps[-1]
    change: Callable[[], Any] = rng.choice((lambda: rng.choice(_VALUES), lambda: rng.choice((1, -1)) * _number(rng)))
    holder[key] = change()
    return json.dumps(body).encode()


def _number(rng: Random) -> int:
    return rng.choice((*INTERESTING, 10**24, 10**25, 10**400))
