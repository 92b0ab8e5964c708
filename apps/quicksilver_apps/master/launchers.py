"""The master's messages to launchers: it finds those of the attempt before, and leaves notes for the attempt after."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from quicksilver_apps.master.launcher.rendezvous import SIGNATURE, candidate_ports, instance_key, sign, signed

CONNECT_S: Final = 2.0
ANSWER_S: Final = 5.0
FIND_S: Final = 20.0
"""So long a launcher of a kept container is looked for."""
SEARCHES: Final = 32
"""At a time, each over all candidate ports of a launcher."""
LIMIT_BYTES: Final = 16 * 1024 * 1024


class Launchers:
    """The launchers of one application."""

    def __init__(self, key: str, master_url: str) -> None:
        """Prepare. key: the secret of the application."""
        self._key, self._url = key, master_url
        self._room = asyncio.Semaphore(SEARCHES)

    async def find(self, container_id: str, host: str) -> dict[str, Any] | None:
        """Turn the launcher of a kept container to this master; return its state, None when there is none."""
        body = json.dumps({"url": self._url}).encode()
        async with self._room:
            until = time.monotonic() + FIND_S
            while time.monotonic() < until:
                began = time.monotonic()
                ports = candidate_ports(container_id)
                calls = (self._put(container_id, host, port, "/v1/master", body) for port in ports)
                for state in await asyncio.gather(*calls):
                    if state is not None and state.get("container_id") == container_id:
                        return state
                await asyncio.sleep(max(0.0, began + CONNECT_S - time.monotonic()))
        return None

    async def leave(self, container_id: str, host: str, port: int, notes: Mapping[str, Any]) -> bool:
        """Store notes at a launcher; return whether it did."""
        return await self._put(container_id, host, port, "/v1/notes", json.dumps(notes).encode()) is not None

    async def _put(self, container_id: str, host: str, port: int, path: str, body: bytes) -> dict[str, Any] | None:
        """Return the answer of a launcher that proves to be one; None for anything else that listens there."""
        key = instance_key(self._key, container_id)
        head = (
            f"PUT {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"
            f"{SIGNATURE}: {sign(key, path, body)}\r\nConnection: close\r\n\r\n"
        )
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(host, port, limit=LIMIT_BYTES)
        except (OSError, TimeoutError):
            return None
        try:
            async with asyncio.timeout(ANSWER_S):
                writer.write(head.encode() + body)
                status, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
                headers = dict(line.partition(": ")[::2] for line in rest.decode("latin-1").lower().split("\r\n"))
                answer = await reader.readexactly(min(int(headers.get("content-length", "0")), LIMIT_BYTES))
            if b" 200 " not in status or not signed(key, "answer", answer, headers.get(SIGNATURE.lower(), "")):
                return None
            state: dict[str, Any] = json.loads(answer)
            return state
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return None
        finally:
            writer.close()
