"""Which of an attempt's sessions stays open."""

from __future__ import annotations

import asyncio
from typing import cast

from sidecar.connections.connection import Connection
from sidecar.connections.sessions import Sessions
from sidecar.gate.container_calls import ServicesMeta
from sidecar.gate.events import ClientClosed
from sidecar.gate.gate import Gate
from tests.sidecar.words import ATTEMPT, node


class Transport:
    """A socket of which only one thing matters."""

    def __init__(self) -> None:
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True


def session(sessions: Sessions) -> Connection:
    """Return a connection whose client is gone, entered as a session of the attempt."""
    connection = Connection(Gate(node(), ServicesMeta()), lambda connection, event: None, 1024)
    connection.upstream.transport = cast(asyncio.Transport, Transport())
    connection.gate.attempt_id = ATTEMPT
    connection.gate.handle(ClientClosed())
    sessions.add(ATTEMPT, connection)
    return connection


def test_of_two_sessions_that_end_together_one_stays() -> None:
    sessions = Sessions()
    first, second = session(sessions), session(sessions)
    assert sessions.has_other_orphan(first)
    assert first.upstream is not None
    first.upstream.close()  # its end is not noticed yet
    assert not sessions.has_other_orphan(second)
    assert sessions.best(ATTEMPT) is second
    assert sessions.orphans() == [second]
