"""Starts that are sent to the NodeManager, and its answers."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from quicksilver.common.messages import EventKind
from sidecar.node.container import QUEUEABLE, Container, is_forged
from sidecar.node.endings import Endings
from sidecar.node.events import Answered, Forward, Launch, Outcome, Settled, Warn, Watch
from sidecar.node.node_state import NodeState
from sidecar.node.phases import STARTS, Phase

MAX_FORGERS: Final = 1000


class Launches:
    """Sends starts to the NodeManager: as they arrived (forward), or held ones (release)."""

    def __init__(self, state: NodeState, endings: Endings) -> None:
        self.state, self._endings = state, endings
        self.forgers: OrderedDict[str, float] = OrderedDict()
        """Attempts whose tokens the NodeManager called forged: no container is killed for their starts any more."""

    def forward(self, container: Container, now_s: float) -> None:
        """Forward a start on the connection on which it arrived."""
        self._send(container, Forward(container.id), now_s)

    def release(self, container: Container, now_s: float) -> None:
        """Send a held start on a session of its attempt."""
        self.state.queue.launch(container.id)
        self._send(container, Launch(container.id, container.start.attempt_id, container.payload), now_s)

    def _send(self, container: Container, command: Forward | Launch, now_s: float) -> None:
        state = self.state
        state.move(container, Phase.STARTING, now_s)
        container.sent_s, container.payload = now_s, b""
        state.out += (
            *state.sharing.join(container, now_s),
            command,
            Watch(container.id, container.start.app_id, now_s),
        )

    def answered(self, event: Answered) -> None:
        """Handle the NodeManager's answer to a start, or the loss of that answer."""
        container = self.state.containers.get(event.container_id)
        if container is None or container.phase not in STARTS:
            return
        if event.outcome is Outcome.STARTED:
            self._accepted(container, event)
            return
        if is_forged(event.text):
            self.forgers[container.start.attempt_id] = event.now_s
            while len(self.forgers) > MAX_FORGERS:
                self.forgers.popitem(last=False)
        if container.kind == QUEUEABLE:
            kind = EventKind.LOST if event.outcome is Outcome.LOST else EventKind.FAILED
            self._endings.finish(container, kind, event.text, event.now_s)
        elif event.outcome is Outcome.REFUSED:
            self._endings.forget(container, event.now_s)  # its application master knows
        else:
            self._run(container, event.now_s)  # a lost answer may hide a success
            text = f"{event.text}: counted as started until the NodeManager says otherwise"
            self.state.out.append(Warn(container.id, text))

    def _run(self, container: Container, now_s: float) -> None:
        self.state.move(container, Phase.RUNNING, now_s)
        container.started_s = now_s

    def _accepted(self, container: Container, event: Answered) -> None:
        state, now_s = self.state, event.now_s
        self._run(container, now_s)
        state.report(container, EventKind.STARTED, event.text, now_s)
        if event.text and not container.taken_over:
            state.out.append(Watch(container.id, container.start.app_id))  # an earlier call started it
        if container.kind == QUEUEABLE:
            state.out.append(Settled(container.id))
        if container.process_gone:
            self._endings.finish(container, EventKind.ENDED, "", now_s)
        elif container.kill_reason:
            self._endings.kill(container, container.kill_reason, container.kill_cause, now_s)
