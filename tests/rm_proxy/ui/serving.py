"""An application served on loopback, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from starlette.types import ASGIApp

from quicksilver.common.http.rest_server import serve


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serve `app` as the daemons do; yields the URL, without a slash at its end."""
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve(app, sock))

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=run, name="served")
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)
        assert not thread.is_alive()
