"""The relay as a process, between a NodeManager and a ResourceManager that are none: what dies, and what goes on."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from hadoop_rpc.connection import Call, ClientConnection, Response, ServerConnection
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos import yarn_server_pb2 as s
from quicksilver_lab.cluster.ports import free_port
from sidecar.tracker.relay import TRACKER_PROTOCOL

SITE = """<configuration>
<property><name>yarn.resourcemanager.hostname</name><value>127.0.0.1</value></property>
<property><name>yarn.nodemanager.resource.cpu-vcores</name><value>8</value></property>
</configuration>"""

ANSWER = s.NodeHeartbeatResponseProto(resource=y.ResourceProto(memory=4096, virtual_cores=4))


def until(what: Callable[[], Any], within_s: float = 60.0) -> Any:
    end_s = time.monotonic() + within_s
    while not (answer := what()):
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.01)
    return answer


class Rm:
    """Answers each call with the size that it has in mind, from a thread; `calls` are what it got."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listening.getsockname()[1])
        self.calls: list[Call] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            peer, _ = self.listening.accept()
            connection = ServerConnection()
            with peer:
                while data := peer.recv(65536):
                    if data == b"stop":
                        return
                    for event in connection.receive_data(data):
                        if isinstance(event, Call):
                            self.calls.append(event)
                            peer.sendall(connection.response(event, ANSWER))

    def close(self) -> None:
        if self._thread.is_alive():
            with socket.create_connection(("127.0.0.1", self.port)) as last:
                last.sendall(b"stop")
        self._thread.join()
        self.listening.close()


class Node:
    """A NodeManager's connection."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.client = ClientConnection()
        self.sock.sendall(self.client.preamble() + self.client.context(TRACKER_PROTOCOL, "yarn"))

    def heartbeat(self) -> int | None:
        """Return the vcores that the answer gives the node; None when the connection is closed."""
        body = s.NodeHeartbeatRequestProto(node_status=s.NodeStatusProto(response_id=1))
        try:
            self.sock.sendall(self.client.call("nodeHeartbeat", TRACKER_PROTOCOL, body))
            while data := self.sock.recv(65536):
                for event in self.client.receive_data(data):
                    assert isinstance(event, Response)
                    return s.NodeHeartbeatResponseProto.FromString(event.body).resource.virtual_cores
        except ConnectionError:
            return None
        return None


@dataclass
class Relay:
    """The process under test."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int
    nodes: list[Node] = field(default_factory=list)

    def node(self) -> Node:
        self.nodes.append(Node(self.port))
        return self.nodes[-1]

    def worker(self) -> int | None:
        pids = [child.pid for child in psutil.Process(self.process.pid).children()]
        return pids[0] if pids else None

    def said(self, words: str) -> int:
        return self.log.read_text().count(words)


@contextmanager
def relaying(folder: Path, upstream: int, **settings: Any) -> Iterator[Relay]:
    port = free_port()
    fields = {"listen": f"127.0.0.1:{port}", "upstream": f"127.0.0.1:{upstream}", "rm_vcores": 4} | settings
    with process(folder, SITE, port, fields) as relay:
        yield relay


@contextmanager
def process(folder: Path, site: str, port: int, fields: dict[str, Any]) -> Iterator[Relay]:
    (folder / "yarn-site.xml").write_text(site)
    config, log = folder / "quicksilver.yaml", folder / "tracker.log"
    config.write_text("tracker:\n" + "".join(f"  {name}: {value}\n" for name, value in fields.items()))
    command = [sys.executable, "-m", "quicksilver", "tracker", "run"]
    with log.open("wb") as out:
        started = subprocess.Popen(
            [*command, "--config", str(config), "--conf-dir", str(folder)], stdout=out, stderr=out
        )
    relay = Relay(started, log, port)
    try:
        until(lambda: relay.said("worker started") or started.poll() is not None)
        assert started.poll() is None, log.read_text()
        yield relay
    finally:
        for node in relay.nodes:
            node.sock.close()
        if started.poll() is None:
            started.terminate()
        started.wait(timeout=60)


@pytest.fixture
def rm() -> Iterator[Rm]:
    fake = Rm()
    try:
        yield fake
    finally:
        fake.close()


def test_sizes_are_translated_and_sigterm_ends_all(tmp_path: Path, rm: Rm) -> None:
    with relaying(tmp_path, rm.port) as relay:
        node = relay.node()
        assert node.heartbeat() == 8  # the ResourceManager said 4
        assert node.heartbeat() == 8
        worker = relay.worker()
        assert worker
        relay.process.terminate()
        assert relay.process.wait(timeout=60) == 0
        assert node.heartbeat() is None
        assert not psutil.pid_exists(worker)
    assert [call.method for call in rm.calls] == ["nodeHeartbeat", "nodeHeartbeat"]
    assert relay.said("the ResourceManager resized the node") == 1
    assert relay.said("tracker relay stopped") == 1
    assert "Traceback" not in relay.log.read_text()


def test_a_killed_worker_is_replaced_and_connections_wait_for_it(tmp_path: Path, rm: Rm) -> None:
    with relaying(tmp_path, rm.port) as relay:
        before = relay.node()
        assert before.heartbeat() == 8
        worker = relay.worker()
        assert worker
        os.kill(worker, signal.SIGKILL)
        after = relay.node()  # at once: never refused
        assert after.heartbeat() == 8
        assert before.heartbeat() is None
        assert relay.worker() not in (None, worker)
    assert relay.said('why="signal SIGKILL"') == 1


@pytest.mark.long
def test_a_hanging_worker_is_replaced(tmp_path: Path, rm: Rm) -> None:
    with relaying(tmp_path, rm.port, stall_s=6) as relay:
        assert relay.node().heartbeat() == 8
        worker = relay.worker()
        assert worker
        os.kill(worker, signal.SIGSTOP)
        assert relay.node().heartbeat() == 8
        assert re.search(rf"the worker hangs: killed.*\bworker={worker}\b", relay.log.read_text())
        assert not psutil.pid_exists(worker)


def test_without_its_keeper_the_worker_ends_and_leaves_the_port(tmp_path: Path, rm: Rm) -> None:
    with relaying(tmp_path, rm.port) as relay:
        node = relay.node()
        assert node.heartbeat() == 8
        worker = relay.worker()
        assert worker
        relay.process.kill()
        until(lambda: not psutil.pid_exists(worker))
        assert node.heartbeat() is None
        socket.create_server(("127.0.0.1", relay.port)).close()


def test_without_a_resourcemanager_connections_are_closed_until_there_is_one(tmp_path: Path) -> None:
    port = free_port()
    with relaying(tmp_path, port) as relay:
        assert relay.node().heartbeat() is None
        assert relay.node().heartbeat() is None
        assert relay.said("the ResourceManager does not answer") == 1  # said once
        assert relay.process.poll() is None and relay.worker()


def test_each_resourcemanager_has_its_listener(tmp_path: Path, rm: Rm) -> None:
    standby, active = free_port(), free_port()
    more = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": "rm1,rm2",
        "yarn.resourcemanager.resource-tracker.address.rm1": f"127.0.0.1:{standby}",
        "yarn.resourcemanager.resource-tracker.address.rm2": f"127.0.0.1:{active}",
        "yarn.resourcemanager.hostname.rm1": "127.0.0.1",
    }
    rows = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in more.items())
    fields = {
        "rms": f"{{rm1: {{upstream: '127.0.0.1:{free_port()}'}}, rm2: {{upstream: '127.0.0.1:{rm.port}'}}}}",
        "extra_vcores": 3,
    }
    with process(tmp_path, SITE.replace("</configuration>", rows + "</configuration>"), standby, fields) as relay:
        assert relay.node().heartbeat() is None
        relay.port = active
        assert relay.node().heartbeat() == 7
        assert relay.said("rm_id=rm1") == relay.said("rm_id=rm2") == 1


def test_garbage_and_silence_end_a_connection_with_one_line(tmp_path: Path, rm: Rm) -> None:
    with relaying(tmp_path, rm.port, handshake_timeout_s=2.0) as relay:
        with socket.create_connection(("127.0.0.1", relay.port), timeout=60) as http:
            http.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert http.recv(100) == b""
        until(lambda: relay.said("this looks like HTTP") == 1)
        with socket.create_connection(("127.0.0.1", relay.port), timeout=60) as silent:
            assert silent_end(silent) == b""
        until(lambda: relay.said("no handshake in time") == 1)
        assert relay.node().heartbeat() == 8
    assert "Traceback" not in relay.log.read_text()


def silent_end(sock: socket.socket) -> bytes:
    try:
        return sock.recv(100)
    except ConnectionResetError:
        return b""


def test_too_many_connections_are_closed_at_once(tmp_path: Path, rm: Rm) -> None:
    with relaying(tmp_path, rm.port, max_connections=1) as relay:
        first = relay.node()
        assert first.heartbeat() == 8
        assert relay.node().heartbeat() is None
        assert relay.said("connection closed: too many") == 1
        assert first.heartbeat() == 8


def test_a_heartbeat_of_many_containers_passes(tmp_path: Path, rm: Rm) -> None:
    """More than one read: 20000 statuses are several MB."""
    with relaying(tmp_path, rm.port) as relay:
        node = relay.node()
        request = s.NodeHeartbeatRequestProto()
        one = y.ContainerStatusProto(state=y.C_RUNNING, executionType=y.OPPORTUNISTIC, diagnostics="d" * 200)
        request.node_status.containersStatuses.extend([one] * 20_000)
        node.sock.sendall(node.client.call("nodeHeartbeat", TRACKER_PROTOCOL, request))
        until(lambda: rm.calls)
        seen = s.NodeHeartbeatRequestProto.FromString(rm.calls[0].body)
        assert {each.executionType for each in seen.node_status.containersStatuses} == {y.GUARANTEED}
        assert len(seen.node_status.containersStatuses) == 20_000
