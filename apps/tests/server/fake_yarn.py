"""YARN's RPC for clients without a wire, and peers on loopback that answer with whatever bytes a test wants."""

from __future__ import annotations

import itertools
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from hadoop_rpc.protos import yarn_client_pb2 as c
from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.address import Address
from quicksilver_apps.client.rm import Rm
from quicksilver_apps.client.session import Session
from quicksilver_apps.yarn.yarn_client import RmClient

STAMP = 1700000000000
Answerer = Callable[[str, str], Iterable[bytes]]
"""Of method and path: the bytes to send."""


class Peer:
    """A server on loopback. A request is remembered; its answer goes out as it is made, until the client hangs up."""

    def __init__(self, answer: Answerer) -> None:
        self.answer, self.asked, self.sent = answer, list[str](), 0
        self.url = ""

    def handle(self, reader: Any, write: Callable[[bytes], None]) -> None:
        words = reader.readline().decode("latin-1").split(" ")
        if len(words) != 3:
            return
        length = 0
        while line := reader.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        reader.read(length)
        self.asked.append(f"{words[0]} {words[1]}")
        try:
            for part in self.answer(words[0], words[1]):
                write(part)
                self.sent += len(part)
        except OSError:
            return  # the client hung up, which is its right


@contextmanager
def peer(answer: Answerer) -> Iterator[Peer]:
    made = Peer(answer)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            made.handle(self.rfile, self.request.sendall)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads, allow_reuse_address = True, True

    with Server(("127.0.0.1", 0), Handler) as listening:
        made.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield made
        finally:
            listening.shutdown()
            thread.join()


def ok(body: bytes, kind: str = "application/json") -> list[bytes]:
    return [f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode(), body]


class FakeYarn:
    """Applications by name; each runs as soon as `run` names its master's address."""

    def __init__(self, *node_addresses: str) -> None:
        self.node_addresses = node_addresses
        self.host = "127.0.0.1"
        self.ids: dict[int, str] = {}
        self.urls: dict[str, str] = {}
        self.killed: set[str] = set()
        self._numbers = itertools.count(1)

    def run(self, name: str, url: str) -> None:
        self.urls[name] = url

    def answer(self, method: str, request: Any) -> Any:
        match method:
            case "getNewApplication":
                most = y.ResourceProto(memory=8192, virtual_cores=8)
                return c.GetNewApplicationResponseProto(application_id=_id(next(self._numbers)), maximumCapability=most)
            case "submitApplication":
                context = request.application_submission_context
                self.ids[context.application_id.id] = context.application_name
                return c.SubmitApplicationResponseProto()
            case "getApplicationReport":
                return c.GetApplicationReportResponseProto(application_report=self._report(request.application_id))
            case "getApplicationAttemptReport":
                attempt = request.application_attempt_id
                found = c.ApplicationAttemptReportProto(
                    am_container_id=y.ContainerIdProto(app_attempt_id=attempt, id=1)
                )
                return c.GetApplicationAttemptReportResponseProto(application_attempt_report=found)
            case "getContainerReport":
                node = c.ContainerReportProto(node_id=y.NodeIdProto(host=self.host, port=8041))
                return c.GetContainerReportResponseProto(container_report=node)
            case "getClusterNodes":
                nodes = [y.NodeReportProto(httpAddress=each) for each in self.node_addresses]
                return c.GetClusterNodesResponseProto(nodeReports=nodes)
            case "forceKillApplication":
                self.killed.add(self.ids[request.application_id.id])
                return c.KillApplicationResponseProto(is_kill_completed=True)
        raise AssertionError(method)

    def _report(self, app_id: y.ApplicationIdProto) -> c.ApplicationReportProto:
        name = self.ids[app_id.id]
        url = self.urls.get(name)
        state = c.KILLED if name in self.killed else c.RUNNING if url else c.ACCEPTED
        return c.ApplicationReportProto(
            applicationId=app_id,
            yarn_application_state=state,
            originalTrackingUrl=url or "N/A",
            currentApplicationAttemptId=y.ApplicationAttemptIdProto(application_id=app_id, attemptId=1),
        )


def _id(number: int) -> y.ApplicationIdProto:
    return y.ApplicationIdProto(cluster_timestamp=STAMP, id=number)


class _Client(RmClient):
    def __init__(self, yarn: FakeYarn) -> None:
        super().__init__(user="lab")
        self._yarn = yarn

    async def connect(self) -> None:
        """There is no wire."""

    async def close(self) -> None:
        """There is no wire."""

    async def call(self, method: str, parameter: Any, result: Any) -> Any:  # type: ignore[override]
        return self._yarn.answer(method, parameter)


@dataclass(frozen=True, slots=True)
class YarnSession(Session):
    """A session at a FakeYarn."""

    yarn: FakeYarn = field(default=cast(FakeYarn, None))

    def rm(self, patience_s: float = 30.0) -> Rm:
        return Rm([Address("127.0.0.1", 1)], lambda _: _Client(self.yarn), patience_s)


def drip(head: bytes, every_s: float) -> Iterator[bytes]:
    """Yield a byte now and then, for a minute at most."""
    yield head
    until_s = time.monotonic() + 60.0
    while time.monotonic() < until_s:
        yield b" "
        time.sleep(every_s)
