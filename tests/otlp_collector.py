"""A server on loopback that takes traces as OpenTelemetry's collectors do: OTLP over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    """What the server got."""

    url: str
    got: list[tuple[str, Any]] = field(default_factory=list)
    """Name of the service, and span."""

    def spans(self) -> dict[str, Any]:
        """Return the spans by name."""
        return {span.name: span for _, span in self.got}

    def of(self, container_id: str) -> list[tuple[str, Any]]:
        """Return the spans of a container."""
        return [one for one in tuple(self.got) if attributes(one[1])["yarn.container.id"] == container_id]


def attributes(span: Any) -> dict[str, str]:
    """Return the attributes of a span that are text."""
    return {one.key: one.value.string_value for one in span.attributes}


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a server until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            for resource in request.resource_spans:
                (name,) = [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"]
                made.got.extend((name, span) for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Collector(f"http://127.0.0.1:{server.server_address[1]}/v1/traces")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
