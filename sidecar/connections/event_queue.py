"""The events of one sidecar, handled one after the other in order of arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from sidecar.connections.connection import Connection
from sidecar.gate.events import GateEvent
from sidecar.node.events import Event
from sidecar.node.recovery import Restored

NodeEvent = Event | Restored


class EventQueue:
    """Passes each event to the node machine or to a gate; no machine ever runs within another's turn.

    Events wait until `start` sets their handlers.
    """

    def __init__(self) -> None:
        self._waiting: deque[NodeEvent | tuple[Connection, GateEvent]] = deque()
        self._busy = True
        """Whether a new event has to wait: another one is being handled, or there are no handlers yet."""

    def start(
        self,
        handle_node: Callable[[NodeEvent], None],
        handle_gate: Callable[[Connection, GateEvent], None],
        on_idle: Callable[[], None],
    ) -> None:
        """Handle events from now on; `on_idle` is called each time that all have been handled."""
        self._handle_node, self._handle_gate, self._on_idle = handle_node, handle_gate, on_idle
        self._busy = False
        if self._waiting:
            self._run()

    def put(self, event: NodeEvent) -> None:
        """Add an event for the node machine; handle it now, or at the end of the present turn."""
        self._waiting.append(event)
        if not self._busy:
            self._run()

    def put_gate(self, connection: Connection, event: GateEvent) -> None:
        """Add an event for the gate of a connection; handle it now, or at the end of the present turn."""
        self._waiting.append((connection, event))
        if not self._busy:
            self._run()

    def _run(self) -> None:
        self._busy = True
        try:
            while self._waiting:
                event = self._waiting.popleft()
                if type(event) is tuple:
                    self._handle_gate(*event)
                else:
                    self._handle_node(event)  # type: ignore[arg-type]
        finally:
            self._busy = False
        self._on_idle()
