"""Site files of imaginary clusters, and a server that answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from quicksilver_apps.client.site import ClusterSite
from quicksilver_apps.description.model import Application

Answer = tuple[int, Mapping[str, str], bytes]
"""Status, headers, body."""
Answerer = Callable[[str, str, bytes, Mapping[str, str]], Answer]
"""Of method, path with query, body and headers."""


def site(
    folder: Path, core: Mapping[str, str], yarn: Mapping[str, str], hdfs: Mapping[str, str] | None = None
) -> ClusterSite:
    """Write site files and read them."""
    for name, properties in (("core", core), ("yarn", yarn), ("hdfs", hdfs or {})):
        lines = (
            f"<property><name>{key}</name><value>{escape(value)}</value></property>"
            for key, value in properties.items()
        )
        (folder / f"{name}-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    return ClusterSite.load(folder)


@contextmanager
def server(answer: Answerer) -> Iterator[str]:
    """Serve HTTP on loopback; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, data = answer(self.command, self.path, body, dict(self.headers))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = _answer

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{served.server_port}"
    finally:
        served.shutdown()
        served.server_close()
        thread.join()


def application(**changes: Any) -> Application:
    """Return an application of one service, with changes."""
    data: dict[str, Any] = {
        "version": 1,
        "name": "app",
        "services": [{"name": "main", "core": 1, "command": "true", "resources": {"memory_mb": 256}, "main": True}],
    }
    return Application.model_validate(data | changes)
