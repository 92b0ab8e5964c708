"""An app server with its store, before a cluster that the test moves; in the test's loop or a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from quicksilver.common.http.security import OPEN, Security, SecuritySettings
from quicksilver_apps.server.backend import Backend
from quicksilver_apps.server.config import AppServerSettings
from quicksilver_apps.server.server import AppServer

HELLO = """\
version: 1
name: hello
title: Says hello
parameters:
  workers: {type: integer, default: 2, description: How many of them}
  words: {description: What it says}
services:
  - name: head
    core: 1
    command: echo ${parameters.words}
    resources: {memory_mb: 256, vcores: 1}
    ports: [{name: web, link: http}]
  - name: worker
    core: 1
    elastic: ${parameters.workers}
    command: sleep 60
    resources: {memory_mb: 512, vcores: 1}
    after: [head]
"""
FAST: dict[str, Any] = {"poll_s": 0.1, "master_poll_s": 0.1, "kill_grace_s": 0.5, "lost_after_s": 1.0}


def simple(name: str = "one", **fields: Any) -> dict[str, Any]:
    """Return a description as data."""
    service = {"name": "work", "core": 1, "elastic": 2, "command": "sleep 1", "resources": {"memory_mb": 128}}
    return {"version": 1, "name": name, "services": [service], **fields}


def settings(folder: Path, **fields: Any) -> AppServerSettings:
    """Return settings with a store in a folder, unless another is named."""
    store = {"store_url": f"sqlite:///{folder / 'app-server.db'}"} if "store_url" not in fields else {}
    return AppServerSettings.model_validate(
        {"rest_listen": "127.0.0.1:0", "open_user": "lab", **store, **FAST, **fields}
    )


def token_security(folder: Path, *lines: str) -> Security:
    """Return security with a token file of these lines."""
    file = folder / "tokens"
    file.write_text("".join(f"{line}\n" for line in lines))
    file.chmod(0o600)
    return Security(SecuritySettings(token_file=file, insecure=True))


@contextmanager
def served(config: AppServerSettings, backend: Backend, security: Security = OPEN) -> Iterator[tuple[AppServer, str]]:
    """Run a server in a thread; yields it and its URL."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sock.setblocking(False)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    loop = asyncio.new_event_loop()
    made: list[AppServer] = []
    begun = threading.Event()
    stop = asyncio.Event()

    async def main() -> None:
        server = AppServer(config, backend, security)
        await server.start(sock)
        made.append(server)
        begun.set()
        await stop.wait()
        await server.close()

    def run() -> None:
        try:
            loop.run_until_complete(main())
        finally:
            begun.set()
            loop.close()

    thread = threading.Thread(target=run, name="app-server")
    thread.start()
    begun.wait(60)
    try:
        yield made[0], url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        assert not thread.is_alive()


def eventually(check: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    """Return what `check` returns once it is true."""
    deadline = time.monotonic() + timeout_s
    while True:
        if found := check():
            return found
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        time.sleep(0.02)


class Client:
    """REST of a server for one caller."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def __call__(self, method: str, path: str, status: int, **body: Any) -> Any:
        """Return the JSON of a call that has to be answered with `status`."""
        arguments = {"json": body} if body else {}
        answer = self._session.request(method, f"{self.url}{path}", timeout=60, **arguments)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json() if answer.content and "json" in answer.headers.get("content-type", "") else answer.text

    def state(self, app_id: str) -> str:
        return str(self("GET", f"/v1/applications/{app_id}", 200)["state"])

    def until_state(self, app_id: str, *states: str, timeout_s: float = 60.0) -> dict[str, Any]:
        """Return an application once it is in one of these states."""

        def there() -> Any:
            found = self("GET", f"/v1/applications/{app_id}", 200)
            return found if found["state"] in states else None

        try:
            found: dict[str, Any] = eventually(there, timeout_s)
        except AssertionError:
            raise AssertionError(f"it is {self.state(app_id)}, not {states}") from None
        return found

    def close(self) -> None:
        self._session.close()
