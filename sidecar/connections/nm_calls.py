"""Our own calls on the attempts' sessions: late starts, and the calls that stop a container."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sidecar.connections.connection import Connection
from sidecar.connections.sessions import Sessions
from sidecar.gate.container_calls import Answer
from sidecar.gate.events import GateEvent, OwnAnswer, OwnCall
from sidecar.gate.gate import start_body
from sidecar.gate.start_messages import outcome_of
from sidecar.node.events import Answered, Launch


class NmCalls:
    """Finds a session for each call, and matches the answers."""

    def __init__(self, sessions: Sessions, put: Callable[[Connection, GateEvent], None]) -> None:
        self._sessions, self._put = sessions, put
        self._launching: dict[str, tuple[Launch, set[Connection]]] = {}
        """Starts that are not answered, by the tag of their call: one container may be launched again meanwhile."""
        self._calls: dict[str, asyncio.Future[Answer]] = {}
        self._number = 0

    def start(self, launch: Launch, tried: set[Connection] | None = None) -> bool:
        """Send a late start; False when the attempt has no session on which it was not `tried` yet."""
        tried = tried or set()
        connection = self._sessions.best(launch.attempt_id)
        if connection is None or connection in tried:
            return False
        name = self._new_name()
        self._launching[name] = (launch, tried)
        self._put(connection, OwnCall(("start", name), "startContainers", start_body(launch.payload)))
        return True

    async def call(self, attempt_id: str, method: str, body: bytes) -> Answer:
        """Call the NodeManager on a session of the attempt; None when there is none, or it was lost."""
        connection = self._sessions.best(attempt_id)
        if connection is None:
            return None
        name = self._new_name()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._calls[name] = future
        self._put(connection, OwnCall(("call", name), method, body))
        try:
            return await future
        finally:
            del self._calls[name]

    def answered(self, connection: Connection, answer: OwnAnswer, now_s: float) -> list[Answered]:
        """Handle an answer; return the events for the node machine. A start whose answer was lost is tried again
        on another session: the NodeManager then says that it runs already, or it did not.
        """
        kind, name = answer.tag
        if kind == "call":
            future = self._calls.get(name)
            if future is not None and not future.done():
                future.set_result(answer.answer)
            return []
        launch, tried = self._launching.pop(name)
        if answer.answer is None and self.start(launch, tried | {connection}):
            return []
        return [Answered(launch.container_id, *outcome_of(answer.answer, launch.container_id), now_s)]

    def _new_name(self) -> str:
        self._number += 1
        return str(self._number)
