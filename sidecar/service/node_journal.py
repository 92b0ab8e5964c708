"""The journal of a node's state for a restart: containers, their CPU time, unacknowledged events."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quicksilver.common.messages import ContainerEvent
from quicksilver.common.process.logs import get_logger
from sidecar.cpu_sharing.events import Story
from sidecar.node.events import Command, ReportEvent
from sidecar.node.journal_records import (
    AdminDrain,
    MemoryRecord,
    acked_line,
    all_lines,
    drain_line,
    drain_of,
    event_line,
    line_of,
    served_line,
)
from sidecar.node.node import SidecarNode
from sidecar.service.journal_file import Journal

log = get_logger(__name__)


@dataclass(slots=True)
class Identity:
    """How reports name this sidecar."""

    node_id: str
    """The NodeManager's name of the node, once it has answered."""
    boot: str = field(default_factory=lambda: secrets.token_hex(8))
    """Names the sequence of events; a restart that finds its journal continues it."""


class NodeJournal:
    """The journal of one node machine. `node_name` is written into it; a journal of another node is set aside."""

    def __init__(
        self,
        path: Path,
        node_name: str,
        node: SidecarNode,
        identity: Identity,
        unacknowledged: Iterable[ContainerEvent],
    ) -> None:
        self._node, self._node_name, self._identity = node, node_name, identity
        self._file = Journal(path, lambda: all_lines(node.state, node_name, identity.boot, unacknowledged))
        self._written: dict[str, Story] = {}
        """Container to the CPU time that was written last."""
        self._drain: AdminDrain | None = None

    @property
    def failures(self) -> int:
        """Number of failed writes."""
        return self._file.failures

    @property
    def why(self) -> str:
        """Why the journal is not written now; "" while it is."""
        return self._file.why

    def recall(self) -> MemoryRecord | None:
        """Return the previous process's state and continue its sequence of events; None if there is none."""
        memory = self._file.recall(self._node_name)
        if memory is not None:
            self._identity.boot = memory.boot
        return memory

    def renew(self) -> None:
        """Rewrite the whole journal."""
        self._drain = drain_of(self._node.state)
        self._file.renew()

    def write_changes(self, changed: Iterable[str], commands: Sequence[Command]) -> None:
        """Write the changes, before any dependent message leaves."""
        lines = [line_of(self._node.state, container_id) for container_id in changed]
        drain = drain_of(self._node.state)
        if drain != self._drain:
            self._drain = drain
            lines.append(drain_line(drain))
        lines += [event_line(command.event) for command in commands if isinstance(command, ReportEvent)]
        self._file.write(lines)

    def write_attained(self) -> None:
        """Write the CPU time that running containers have attained since it was written last."""
        shares = self._node.state.sharing.shares()
        attained = {container_id: share.story() for container_id, share in shares.items() if share.resizable}
        changed = {cid: story for cid, story in attained.items() if self._written.get(cid) != story}
        self._written = attained
        if changed:
            self._file.write([served_line(changed)])

    def write_acknowledged(self, seq: int) -> None:
        """Write that the proxy has acknowledged the events up to a number."""
        self._file.write([acked_line(seq)])

    def close(self) -> None:
        """Close the file."""
        self._file.close()
