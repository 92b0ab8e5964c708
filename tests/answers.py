"""An HTTP server of fixed answers, for tests of what asks it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, str | bytes]
"""Status and body."""


@contextmanager
def answering(answer: Callable[[str, str, bytes], Answer]) -> Iterator[str]:
    """Yield the URL of a server on this host that answers each call by `answer`, from method, path and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers["Content-Length"] or 0)
            status, text = answer(self.command, self.path, self.rfile.read(length))
            body = text.encode() if isinstance(text, str) else text
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
