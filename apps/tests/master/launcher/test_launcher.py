"""The launcher as a real process, before a master that the test plays."""

from __future__ import annotations

import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from quicksilver_apps.master.launcher import link
from quicksilver_apps.master.launcher.launcher import KEY_VARIABLE, SPEC_VARIABLE, Child, encode
from quicksilver_apps.master.launcher.rendezvous import SIGNATURE, candidate_ports, sign, signed
from tests.paths import ROOT

KEY = "secret"
PEERS = {"services": {"server": [{"index": 0, "host": "far", "ports": {"web-ui": 8080}, "ready": True}]}}
WAIT_S = 60.0


class Master:
    """Answers launchers; `messages` has what they sent, as (last part of the path, body)."""

    def __init__(self) -> None:
        self.messages: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.status, self.refusals = 200, 0
        self.lies: list[bytes] = []
        """Its next answers, before the peers."""
        master = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert signed(KEY, self.path, body, self.headers[SIGNATURE])
                if master.status == 200:
                    master.messages.put((self.path.rpartition("/")[2], json.loads(body)))
                else:
                    master.refusals += 1
                self.send_response(master.status)
                self.end_headers()
                self.wfile.write(master.lies.pop(0) if master.lies else json.dumps({"peers": PEERS}).encode())

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def next(self, what: str) -> dict[str, Any]:
        """Return the next message, which is of this kind."""
        found, body = self.messages.get(timeout=WAIT_S)
        assert found == what
        return body

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def master() -> Iterator[Master]:
    made = Master()
    yield made
    made.close()


class Launched:
    """A launcher with its command, in a folder of its own."""

    def __init__(self, folder: Path, master: Master, command: str, **changes: Any) -> None:
        self.id = f"container_{time.time_ns()}_0001_01_000002"
        self.logs = folder / "logs"
        self.logs.mkdir()
        spec = {
            "container_id": self.id,
            "service": "worker",
            "index": 3,
            "command": command,
            "ports": [{"name": "web-ui", "number": 0}, {"name": "fixed", "number": 4711}],
            "after": ["server"],
            "ready": {"log": "", "command": "", "every_s": 0.05},
            "environment": {"QUOTES": 'it\'s "$HOME"\nand a line'},
            "variables": {"QUICKSILVER_MASTER": master.url, "QUICKSILVER_INSTANCE": 3},
        }
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            SPEC_VARIABLE: encode(spec | changes),
            KEY_VARIABLE: KEY,
        }
        with (self.logs / "stdout").open("wb") as out, (self.logs / "stderr").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "quicksilver_apps.master", "launch", str(self.logs)],
                cwd=folder,
                env=environment,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def output(self, name: str = "stdout") -> str:
        return (self.logs / name).read_text()

    def put(self, port: int, path: str, body: dict[str, Any], key: str = KEY) -> tuple[int, dict[str, Any]]:
        """Send what a master sends; return the status and the answer."""
        data = json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("PUT", path, data, {SIGNATURE: sign(key, path, data)})
        answer = connection.getresponse()
        raw = answer.read()
        connection.close()
        if answer.status != 200:
            return answer.status, {}
        assert signed(KEY, "answer", raw, answer.getheader(SIGNATURE) or "")
        return 200, json.loads(raw)


@pytest.fixture
def started() -> Iterator[list[Launched]]:
    """Launchers that the test adds; those that are left are ended."""
    added: list[Launched] = []
    yield added
    for each in added:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.wait()


def test_a_command_gets_ports_peers_and_environment(master: Master, started: list[Launched], tmp_path: Path) -> None:
    command = 'echo "$PORT_WEB_UI $PORT_FIXED $SERVER_HOST $SERVER_PORT_WEB_UI $SERVER_HOSTS $QUICKSILVER_INSTANCE"; '
    command += 'echo "$QUOTES"; cat "$QUICKSILVER_PEERS"; env | grep -c QUICKSILVER_LAUNCH; echo broken >&2; exit 7'
    launched = Launched(tmp_path, master, command)
    started.append(launched)
    ports = master.next("ports")
    assert master.next("state") == {"phase": "running"}
    assert master.next("end") == {"exit_status": 7, "lines": "broken"}
    assert launched.process.wait(WAIT_S) == 7
    assert ports["listens_on"] in candidate_ports(launched.id)
    assert ports["ports"]["fixed"] == 4711
    lines = launched.output().splitlines()
    assert lines[0] == f"{ports['ports']['web-ui']} 4711 far 8080 far 3"
    assert lines[1:3] == ['it\'s "$HOME"', "and a line"]
    assert lines[3] == json.dumps(PEERS) + "0"  # the file, and how many lines have the launcher's own variable


def test_another_program_at_the_masters_port_ends_no_launcher(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers may be anything; the launcher asks again until a master answers."""
    monkeypatch.setattr(link, "RETRY_S", 0.01)
    master.lies = [b"", b"[]", b"7", b"null", b"{}", b'{"peers": 5}', b'{"peers": [1]}', b"[" * 100_000, b"\xff"]
    asked = len(master.lies) + 1
    assert link.LinkReporter(master.url, "container_1_0001_01_000002", KEY).introduce({"ports": {}}) == PEERS
    assert master.messages.qsize() == asked


def test_a_line_of_the_log_makes_it_ready(master: Master, started: list[Launched], tmp_path: Path) -> None:
    ready = {"log": "listening on [0-9]+", "command": "", "every_s": 0.05}
    command = "echo starting; sleep 0.3; printf 'listening '; sleep 0.3; echo on 80 >&1; sleep 60"
    launched = Launched(tmp_path, master, command, ready=ready)
    started.append(launched)
    master.next("ports")
    assert master.next("state") == {"phase": "running"}
    assert master.next("state") == {"phase": "ready"}
    assert "listening on 80" in launched.output()


def test_a_command_makes_it_ready(master: Master, started: list[Launched], tmp_path: Path) -> None:
    ready = {"log": "", "command": 'test -f up && test "$PORT_FIXED" = 4711', "every_s": 0.05}
    started.append(Launched(tmp_path, master, "until test -f go; do sleep 0.05; done; touch up; sleep 60", ready=ready))
    master.next("ports")
    assert master.next("state") == {"phase": "running"}
    assert not (tmp_path / "up").exists()
    (tmp_path / "go").touch()
    assert master.next("state") == {"phase": "ready"}
    assert (tmp_path / "up").exists()


def test_signals_reach_the_command_and_decide_the_status(
    master: Master, started: list[Launched], tmp_path: Path
) -> None:
    launched = Launched(tmp_path, master, "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done")
    started.append(launched)
    master.next("ports")
    master.next("state")
    while "up" not in launched.output():
        time.sleep(0.05)
    launched.process.terminate()
    assert master.next("end")["exit_status"] == 5
    assert launched.process.wait(WAIT_S) == 5
    assert "bye" in launched.output()


@contextmanager
def signals_of_a_launcher() -> Iterator[Child]:
    """Have the signals of this process handled as a launcher's are, for the time of a with block."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield Child()
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_signal_that_comes_while_the_command_is_started_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = subprocess.Popen

    def interrupted(*arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
        process = starts(*arguments, **more)
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr("quicksilver_apps.master.launcher.launcher.subprocess.Popen", interrupted)
    with signals_of_a_launcher() as child:
        child.start("exec sleep 300", os.environ)
        assert child.wait() == 128 + signal.SIGTERM


def test_a_signal_that_another_thread_gets_reaches_the_command() -> None:
    """As one that arrives just before the call in which the first thread waits."""

    def signalled() -> None:
        time.sleep(0.3)  # until the first thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    with signals_of_a_launcher() as child:
        child.start("exec sleep 20", os.environ)  # its own end, when no signal reaches it
        threading.Thread(target=signalled).start()
        assert child.wait() == 128 + signal.SIGTERM


def test_a_command_that_is_killed_has_the_status_of_a_shell(
    master: Master, started: list[Launched], tmp_path: Path
) -> None:
    launched = Launched(tmp_path, master, "kill -9 $$")
    started.append(launched)
    assert launched.process.wait(WAIT_S) == 137


def test_a_command_dies_with_a_launcher_that_is_killed(master: Master, started: list[Launched], tmp_path: Path) -> None:
    launched = Launched(tmp_path, master, "echo $$; exec sleep 300")
    started.append(launched)
    until(lambda: launched.output().endswith("\n"))
    command = int(launched.output())
    launched.process.kill()
    until(lambda: not psutil.pid_exists(command))


def until(true: Callable[[], bool]) -> None:
    """Wait until this is so."""
    end_s = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_the_next_master_finds_it_and_gets_what_it_knows(
    master: Master, started: list[Launched], tmp_path: Path
) -> None:
    launched = Launched(tmp_path, master, "while [ ! -f go ]; do sleep 0.05; done")
    started.append(launched)
    port = master.next("ports")["listens_on"]
    master.next("state")
    assert launched.put(port, "/v1/notes", {"seq": 1}, key="wrong")[0] == 401
    assert launched.put(port, "/v1/nothing", {})[0] == 404
    assert launched.put(port, "/v1/notes", {"seq": 2})[1]["notes"] == {"seq": 2}
    second = Master()
    try:
        state = launched.put(port, "/v1/master", {"url": second.url})[1]
        assert state["container_id"] == launched.id
        assert (state["service"], state["index"], state["phase"]) == ("worker", 3, "running")
        assert (state["ports"]["fixed"], state["listens_on"], state["notes"]) == (4711, port, {"seq": 2})
        (tmp_path / "go").touch()
        assert second.next("end")["exit_status"] == 0
        assert launched.process.wait(WAIT_S) == 0
    finally:
        second.close()


@pytest.mark.long
def test_silent_callers_and_large_bodies_without_a_signature_keep_no_master_away(
    master: Master, started: list[Launched], tmp_path: Path
) -> None:
    launched = Launched(tmp_path, master, "while [ ! -f go ]; do sleep 0.05; done")
    started.append(launched)
    port = master.next("ports")["listens_on"]
    master.next("state")
    descriptors = Path(f"/proc/{launched.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    with ExitStack() as open_ones:
        for number in range(10 * link.MAX_CONNECTIONS):
            caller = open_ones.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            head = f"PUT /v1/notes HTTP/1.1\r\nContent-Length: {link.LIMIT_BYTES}\r\n\r\n"
            caller.sendall(b"" if number % 2 else head.encode() + bytes(link.SMALL_BYTES))
        assert launched.put(port, "/v1/notes", {"seq": 1})[1]["notes"] == {"seq": 1}
        deadline = time.monotonic() + WAIT_S
        while (count := len(list(descriptors.iterdir()))) > before + link.MAX_CONNECTIONS:
            assert time.monotonic() < deadline, f"{count} open files, {before} before the callers came"
            time.sleep(0.05)  # a thread closes the one whose place was taken
    with socket.create_connection(("127.0.0.1", port), timeout=60) as caller:
        caller.sendall(b"PUT /v1/notes HTTP/1.1\r\nContent-Length: many\r\n\r\n")
        assert caller.recv(100) == b""
    assert launched.put(port, "/v1/notes", {"seq": 2, "large": "x" * 2 * link.SMALL_BYTES})[0] == 200
    (tmp_path / "go").touch()
    assert launched.process.wait(WAIT_S) == 0
    assert launched.output("stderr") == "", "standard error is the command's"


def test_it_waits_for_a_master_before_it_starts_the_command(
    master: Master, started: list[Launched], tmp_path: Path
) -> None:
    master.status = 503
    launched = Launched(tmp_path, master, "echo started")
    started.append(launched)
    deadline = time.monotonic() + WAIT_S
    while master.refusals < 2:
        assert time.monotonic() < deadline, f"it tried {master.refusals} times"
        time.sleep(0.02)
    assert launched.output() == ""
    master.status = 200
    master.next("ports")
    assert launched.process.wait(WAIT_S) == 0
    assert launched.output() == "started\n"


def test_candidate_ports_follow_from_the_container_alone() -> None:
    ports = candidate_ports("container_1_0001_01_000002")
    assert ports == candidate_ports("container_1_0001_01_000002")
    assert len(set(ports)) == 16
    assert all(60999 < port < 65500 for port in ports)
