"""Records of the sidecar's journal: ids, sizes, times and grants; never launch contexts or tokens.

The journal is lines of JSON, each an object of one key. What a line says holds until a later one says otherwise, so
that a line that is read twice does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from policies.model import Resources
from quicksilver.common.messages import ContainerEvent, Grant
from sidecar.cpu_sharing.events import NEW, Story
from sidecar.cpu_sharing.share import CoreShare
from sidecar.node.container import Container
from sidecar.node.emptying import BY
from sidecar.node.events import Start
from sidecar.node.node_state import NodeState
from sidecar.node.phases import KEPT, KILLED, STARTS, Phase

FORMAT: Final = 1
SEQ_SKIPPED: Final = 10_000
"""Numbers of events that a new process leaves out: the last ones may not have reached a full disk."""


class BadJournalError(ValueError):
    """A journal, or a line of it, cannot be parsed."""


_RECORDED: Final = dict.fromkeys(STARTS, Phase.STARTING) | dict.fromkeys(KILLED, Phase.KILLING)
"""Phases that a record does not distinguish, as the next process has no session and no answer."""
_LATER: Final = {Phase.STARTING: Phase.DOUBTFUL, Phase.KILLING: Phase.STRANDED}
"""Phase in the record to phase in the next process."""


class Kept(BaseModel):
    """One container; names as in `sidecar.node.container.Container` and `sidecar.node.events.Start`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    container_id: str
    app_id: str
    attempt_id: str
    kind: str
    phase: Phase
    memory_mb: int
    vcores: float
    opportunistic: bool = False
    am: bool = False
    priority: int = 0
    user: str = ""
    expires_s: float = 0.0
    arrived_s: float
    since_s: float
    sent_s: float | None = None
    started_s: float | None = None
    kill_reason: str = ""
    kill_cause: str = ""
    grant: Grant | None = None
    story: Story = NEW

    def container(self) -> Container:
        """Return the container in the state that a new process gives it."""
        start = Start(
            container_id=self.container_id,
            app_id=self.app_id,
            attempt_id=self.attempt_id,
            resources=Resources(self.memory_mb, self.vcores),
            opportunistic=self.opportunistic,
            am=self.am,
            priority=self.priority,
            user=self.user,
            expires_s=self.expires_s,
        )
        phase = _LATER.get(self.phase, self.phase)
        container = Container(start, self.kind, phase, self.arrived_s, self.since_s, self.grant)
        container.sent_s, container.started_s = self.sent_s, self.started_s
        container.kill_reason, container.kill_cause = self.kill_reason, self.kill_cause
        return container


def record(container: Container, share: CoreShare | None) -> dict[str, object]:
    """Return the fields of a container's record (`Kept`), which is read more seldom than written."""
    start = container.start
    return {
        "container_id": container.id,
        "app_id": start.app_id,
        "attempt_id": start.attempt_id,
        "kind": container.kind,
        "phase": _RECORDED.get(container.phase, container.phase),
        "memory_mb": start.resources.memory_mb,
        "vcores": start.resources.vcores,
        "opportunistic": start.opportunistic,
        "am": start.am,
        "priority": start.priority,
        "user": start.user,
        "expires_s": start.expires_s,
        "arrived_s": container.arrived_s,
        "since_s": container.since_s,
        "sent_s": container.sent_s,
        "started_s": container.started_s,
        "kill_reason": container.kill_reason,
        "kill_cause": container.kill_cause,
        "grant": container.grant,
        "story": share.story() if share is not None else NEW,
    }


class AdminDrain(BaseModel):
    """A drain by an admin, which holds until an admin ends it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str
    until_s: float | None = None
    """When containers that still run are killed; None: they run to their ends."""


@dataclass(slots=True)
class MemoryRecord:
    """The whole content of a journal."""

    node: str = ""
    boot: str = ""
    seq: int = 0
    """The number of the last event."""
    entries: dict[str, Kept] = field(default_factory=dict)
    announced: dict[str, tuple[Grant, float]] = field(default_factory=dict)
    """Grants whose start has not arrived, with the time of their announcement."""
    over: dict[str, float] = field(default_factory=dict)
    """Containers whose end was reported before they ran, with the time."""
    events: dict[int, ContainerEvent] = field(default_factory=dict)
    """Events that the proxy has not acknowledged, by their number."""
    drain: AdminDrain | None = None

    def take(self, line: str) -> None:
        """Apply one line. Raises BadJournalError."""
        try:
            fields = json.loads(line)
            (word, value), *_ = fields.items()
            getattr(self, f"_take_{word}")(value, fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadJournalError(f"{type(error).__name__} at {line[:80]!r}") from error

    def _take_journal(self, value: int, fields: dict[str, Any]) -> None:
        if value != FORMAT:
            raise ValueError(f"format {value}, this version reads {FORMAT}")
        self.node, self.boot = str(fields["node"]), str(fields["boot"])
        self.seq = int(fields["seq"])

    def _take_entry(self, value: dict[str, Any], _: object) -> None:
        record = Kept.model_validate(value)
        self._take_gone(record.container_id, _)
        self.entries[record.container_id] = record

    def _take_grant(self, value: dict[str, Any], fields: dict[str, Any]) -> None:
        grant = Grant.model_validate(value)
        self._take_gone(grant.container_id, fields)
        self.announced[grant.container_id] = grant, float(fields["since_s"])

    def _take_gone(self, value: str, _: object) -> None:
        for known in (self.entries, self.announced, self.over):
            known.pop(value, None)

    def _take_over(self, value: str, fields: dict[str, Any]) -> None:
        self._take_gone(value, fields)
        self.over[value] = float(fields["since_s"])

    def _take_event(self, value: dict[str, Any], _: object) -> None:
        event = ContainerEvent.model_validate(value)
        self.events[event.seq] = event
        self.seq = max(self.seq, event.seq)

    def _take_acked(self, value: int, _: object) -> None:
        self.events = {seq: event for seq, event in self.events.items() if seq > value}

    def _take_drain(self, value: dict[str, Any] | None, _: object) -> None:
        self.drain = None if value is None else AdminDrain.model_validate(value)

    def _take_served(self, value: dict[str, dict[str, Any]], _: object) -> None:
        for container_id, story in value.items():
            if container_id in self.entries:
                self.entries[container_id] = self.entries[container_id].model_copy(update={"story": Story(**story)})


def read(text: str) -> MemoryRecord:
    """Parse a journal; a last line without a line end was never finished, and is ignored.

    Raises BadJournalError when a line cannot be parsed, or the journal does not begin with its first line.
    """
    memory = MemoryRecord()
    *lines, _ = text.split("\n")
    if not lines or not lines[0].startswith('{"journal":'):
        raise BadJournalError("it does not begin as a journal of a sidecar does")
    for line in lines:
        memory.take(line)
    return memory


def head_line(node: str, boot: str, seq: int) -> str:
    """Return the first line of a journal."""
    return _json({"journal": FORMAT, "node": node, "boot": boot, "seq": seq})


def event_line(event: ContainerEvent) -> str:
    """Return the line of an event that is to be reported to the proxy."""
    return f'{{"event":{event.model_dump_json()}}}'


def acked_line(seq: int) -> str:
    """Return the line that records which events the proxy has acknowledged."""
    return _json({"acked": seq})


def line_of(state: NodeState, container_id: str) -> str:
    """Return the line that records the present state of a container."""
    container = state.containers.get(container_id)
    if container is not None and container.phase in KEPT:
        return _json({"entry": record(container, state.sharing.share(container_id))})
    if container_id in state.announced:
        grant, since_s = state.announced[container_id]
        return f'{{"grant":{grant.model_dump_json()},"since_s":{since_s}}}'
    if container_id in state.over:
        return _json({"over": container_id, "since_s": state.over[container_id]})
    return _json({"gone": container_id})


def served_line(stories: dict[str, Story]) -> str:
    """Return the line that records the attained service of running containers."""
    return _json({"served": {container_id: story._asdict() for container_id, story in stories.items()}})


def drain_of(state: NodeState) -> AdminDrain | None:
    """Return the present drain by an admin."""
    reason = state.drains.get(BY)
    return None if reason is None else AdminDrain(reason=reason, until_s=state.drain_until_s)


def drain_line(drain: AdminDrain | None) -> str:
    """Return the line that records an admin's drain, None where it ended."""
    return _json({"drain": drain})


def all_lines(state: NodeState, node: str, boot: str, events: Iterable[ContainerEvent]) -> Iterator[str]:
    """Yield the lines of a new, complete journal."""
    yield head_line(node, boot, state.seq)
    for container_id in (*state.announced, *state.over, *state.containers):
        yield line_of(state, container_id)
    yield drain_line(drain_of(state))
    for event in events:
        yield event_line(event)


def _json(value: object) -> str:
    return to_json(value, inf_nan_mode="null").decode()
