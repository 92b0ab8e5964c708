"""What a sidecar asks and tells over REST: a NodeManager that lists containers, a proxy that takes reports."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from quicksilver.common.messages import Ack, Report
from quicksilver_lab.bench.resize.stand_ins import ResizeStandIn

MEMORY_MB: Final = 256
NODE_ID: Final = "node1:8041"


class _Rest(BaseHTTPRequestHandler):
    """Both of them, by path."""

    protocol_version = "HTTP/1.1"
    listed: bytes = b""

    def do_GET(self) -> None:
        """Answer as the NodeManager."""
        if self.path == "/ws/v1/node/containers":
            self._answer(self.listed)
        else:
            self._answer(json.dumps({"nodeInfo": {"id": NODE_ID}}).encode())

    def do_POST(self) -> None:
        """Take a report, as the proxy."""
        report = Report.model_validate_json(self.rfile.read(int(self.headers["Content-Length"])))
        last = max((event.seq for event in report.events), default=0)
        self._answer(Ack(events_to=last).model_dump_json().encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(stand_ins: Sequence[ResizeStandIn]) -> Iterator[int]:
    """Serve both at one port of loopback, which is yielded, for the time of a with block."""
    rows = [
        {
            "id": stand_in.id,
            "state": "RUNNING",
            "executionType": "OPPORTUNISTIC",
            "totalMemoryNeededMB": MEMORY_MB,
            "totalVCoresNeeded": 1,
        }
        for stand_in in stand_ins
    ]
    listed = json.dumps({"containers": {"container": rows}}).encode()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Listing", (_Rest,), {"listed": listed}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="surroundings")
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
