"""What a launcher says to its master, and how the master of a later attempt finds it. Threads; the standard library."""

from __future__ import annotations

import http.client
import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from quicksilver_apps.master.launcher.rendezvous import SIGNATURE, candidate_ports, sign, signed

TIMEOUT_S: Final = 10.0
RETRY_S: Final = 1.0
NO_MASTER_S: Final = 900.0
"""A launcher without an answer of any master ends after this time, when its command does not run yet."""
LAST_S: Final = 3.0
LIMIT_BYTES: Final = 16 * 1024 * 1024
SMALL_BYTES: Final = 64 * 1024
"""Bodies beyond this size are read one at a time: whoever reaches the port may send some before the signature."""
MAX_CONNECTIONS: Final = 8
"""Open at a time; a further one takes the place of the oldest."""


class Known(Protocol):
    """What the listener answers with."""

    notes: dict[str, Any]

    def state(self) -> dict[str, Any]:
        """Return the state of the instance as JSON data."""


class LinkReporter:
    """Sends messages to the master, one after another, again until it answers."""

    def __init__(self, master: str, container_id: str, key: str) -> None:
        """Prepare. master: its base URL."""
        self._master, self._key = master, key
        self._path = f"/v1/instances/{container_id}"
        self._messages: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self._turned = threading.Event()
        threading.Thread(target=self._run, name="reporter", daemon=True).start()

    def turn_to(self, master: str) -> None:
        """Send to another master from now on."""
        self._master = master
        self._turned.set()

    def introduce(self, state: dict[str, Any]) -> dict[str, Any] | None:
        """Send the ports until a master answers with where its instances are; None after NO_MASTER_S."""
        until = time.monotonic() + NO_MASTER_S
        while time.monotonic() < until:
            peers = (self._put("ports", state, TIMEOUT_S) or {}).get("peers")
            if isinstance(peers, dict):
                return peers
            self._pause()
        return None

    def send(self, topic: str, body: dict[str, Any]) -> None:
        """Send a message in the background."""
        self._messages.put((topic, body))

    def last(self, body: dict[str, Any]) -> None:
        """Send how the command ended, once; the ResourceManager reports the end in any case."""
        self._put("end", body, LAST_S)

    def _run(self) -> None:
        while True:
            topic, body = self._messages.get()
            while self._put(topic, body, TIMEOUT_S) is None:
                self._pause()

    def _pause(self) -> None:
        self._turned.wait(RETRY_S)
        self._turned.clear()

    def _put(self, topic: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
        """Return the answer; None when there is none, or when the master does not know the container yet."""
        url = urlsplit(self._master)
        path, data = f"{self._path}/{topic}", json.dumps(body).encode()
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=timeout_s)
        try:
            connection.request("PUT", path, data, {SIGNATURE: sign(self._key, path, data)})
            response = connection.getresponse()
            answer = response.read(LIMIT_BYTES)
            if response.status != 200:
                return None
            parsed = json.loads(answer)
        except (OSError, http.client.HTTPException, ValueError, RecursionError):
            return None
        else:
            return parsed if isinstance(parsed, dict) else None  # another program may have the master's port by now
        finally:
            connection.close()


class LinkListener:
    """Answers the master: who this is, and what the notes of the master before are."""

    def __init__(self, known: Known, key: str, turn_to: Callable[[str], None]) -> None:
        """Listen on the first free port of the container's candidates. Raises OSError when none is free."""
        container_id = known.state()["container_id"]
        for port in candidate_ports(container_id):
            try:
                self._server = _Server(("", port), _handler(known, key, turn_to))
            except OSError as error:
                refused = error
                continue
            self.port = port
            break
        else:
            raise refused
        threading.Thread(target=self._server.serve_forever, name="listener", daemon=True).start()


class _Server(ThreadingHTTPServer):
    """A few connections, each in a thread of its own."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        """Listen. Raises OSError."""
        super().__init__(address, handler)
        self._connections: dict[Any, None] = {}
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection; the oldest one ends where too many are open."""
        with self._lock:
            if len(self._connections) >= MAX_CONNECTIONS:
                oldest = next(iter(self._connections))
                del self._connections[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._connections[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Say nothing: standard error is the command's, and a caller that breaks the protocol hears nothing."""


def _handler(known: Known, key: str, turn_to: Callable[[str], None]) -> type[BaseHTTPRequestHandler]:
    large = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_S

        def do_PUT(self) -> None:
            """Handle `/v1/master` and `/v1/notes`."""
            length = int(self.headers.get("Content-Length") or 0)
            if not 0 <= length <= LIMIT_BYTES:
                self.send_error(413)
                return
            with large if length > SMALL_BYTES else nullcontext():
                body = self._body(length)
            if not signed(key, self.path, body, self.headers.get(SIGNATURE, "")):
                self.send_error(401)
                return
            message = json.loads(body)
            if self.path == "/v1/master":
                turn_to(message["url"])
            elif self.path == "/v1/notes":
                known.notes = message
            else:
                self.send_error(404)
                return
            self._answer(json.dumps(known.state()).encode())

        def _body(self, length: int) -> bytes:
            """Return the body, or what came of it within TIMEOUT_S."""
            until, body = time.monotonic() + TIMEOUT_S, bytearray()
            while len(body) < length and time.monotonic() < until:
                part = self.rfile.read1(min(SMALL_BYTES, length - len(body)))
                if not part:
                    break
                body += part
            return bytes(body)

        def _answer(self, data: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header(SIGNATURE, sign(key, "answer", data))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing: standard error is the command's."""

    return Handler
