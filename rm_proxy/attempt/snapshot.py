"""State of an application attempt that survives a crash of the proxy: its journal, from which the next one continues.

Only state that the application master and the ResourceManager will not send again: the answer to the registration, the
containers held, the completions reported and still to be reported, the rows and private request ids that the
ResourceManager may hold, and the last answer. Asks are not: the application master sends them again when the next
process has it register anew (resync). Nodes, queues and reports are read anew; learned durations and usage come from
the store (rm_proxy/store/learned_state.py). One JSON object per change.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter
from typing import Any, Final

from google.protobuf.message import Message

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind, Resources
from rm_proxy.attempt.asks.ask_rows import ANY, Key, row_of
from rm_proxy.attempt.held_containers import HeldContainer, Stage
from rm_proxy.attempt.repeated_requests import LastAnswer, Undelivered
from rm_proxy.domain import ids
from rm_proxy.estimates.estimator import EstimateSource

MAX_ENDED: Final = 20_000
"""Ends that are kept of an attempt (as many as it remembers)."""
Note = dict[str, Any]


def packed(message: bytes | Message) -> str:
    """Return bytes, or a message, as text."""
    data = message if isinstance(message, bytes) else message.SerializeToString()
    return b2a_base64(data, newline=False).decode("ascii")


def unpacked(text: str) -> bytes:
    """Return the bytes of `packed`. Raises ValueError when it is none."""
    return b64decode(text, validate=True)


def packed_container(live: HeldContainer) -> Note:
    """Return a container as it is journaled, without its placement."""
    note: Note = {
        "proto": packed(live.proto),
        "node": live.node_id,
        "kind": live.kind.value,
        "priority": live.priority,
        "size": [live.resources.memory_mb, live.resources.vcores],
        "expected_s": live.expected_s,
        "granted_s": live.granted_s,
    }
    if live.spread_s:
        note |= {"spread_s": live.spread_s}
    if live.source is not EstimateSource.DEFAULT:
        note |= {"source": live.source.value}
    if live.stage is not Stage.DELIVERED:
        note |= {"stage": live.stage.value}
    values = _where_set(live)
    note.update(compress(zip(_WHERE_SET, values, strict=True), values))
    return note


_WHERE_SET: Final = (
    "retries",
    "follows",
    "started_s",
    "worked_s",
    "held_s",
    "released",
    "killed",
    "private_id",
    "either",
    "version",
    "promoted_s",
    "wait_s",
    "ahead",
    "given_up",
    "early",
    "silent_s",
)
_where_set: Final = attrgetter(*_WHERE_SET)


def unpacked_container(note: Mapping[str, Any]) -> HeldContainer:
    """Return a container as `packed_container` wrote it down. Raises KeyError, TypeError or ValueError."""
    proto = y.ContainerIdProto.FromString(unpacked(note["proto"]))
    memory_mb, vcores = note["size"]
    return HeldContainer(
        ids.container_id_text(proto),
        proto,
        note["node"],
        Kind(note["kind"]),
        note["priority"],
        Resources(memory_mb, vcores),
        note["expected_s"],
        note["granted_s"],
        spread_s=note.get("spread_s", 0.0),
        source=EstimateSource(note.get("source", EstimateSource.DEFAULT.value)),
        stage=Stage(note.get("stage", Stage.DELIVERED.value)),
        **{name: note[name] for name in _WHERE_SET if name in note},
    )


def packed_answer(last: LastAnswer) -> Note:
    """Return the last answer as it is written down; the request that it answered is not: a resync brings a new one."""
    return {
        "id": last.response_id,
        "asked": last.request_id,
        "rewritten": packed(last.rewritten) if last.rewritten is not None else None,
        "delivered": [packed(row_of(*name, count)) for name, count in last.delivered.items()],
        "given": last.container_ids,
        "ends": [packed(status) for status in last.ends],
    }


def unpacked_answer(note: Mapping[str, Any]) -> LastAnswer:
    """Return the last answer as `packed_answer` wrote it down. Raises KeyError, TypeError or ValueError."""
    return LastAnswer(
        note["id"],
        note["asked"],
        b"",
        unpacked(note["rewritten"]) if note["rewritten"] is not None else None,
        _unpacked_rows(note["delivered"]),
        list(note["given"]),
        [y.ContainerStatusProto.FromString(unpacked(text)) for text in note["ends"]],
    )


def packed_undelivered(late: Undelivered) -> Note:
    """Return what goes with the next answer as it is journaled."""
    return {
        "answer": packed(late.answer),
        "delivered": [packed(row_of(*name, count)) for name, count in late.delivered.items()],
        "given": late.container_ids,
        "ends": sorted(late.end_ids),
    }


def unpacked_undelivered(note: Mapping[str, Any]) -> Undelivered:
    """Return it as `packed_undelivered` wrote it down. Raises KeyError, TypeError or ValueError."""
    return Undelivered(
        y.AllocateResponseProto.FromString(unpacked(note["answer"])),
        _unpacked_rows(note["delivered"]),
        list(note["given"]),
        frozenset(note["ends"]),
    )


def _unpacked_rows(texts: Iterable[str]) -> dict[tuple[Key, str], int]:
    rows = [y.ResourceRequestProto.FromString(unpacked(text)) for text in texts]
    return {(Key.of(row), row.resource_name): row.num_containers for row in rows}


@dataclass(slots=True)
class Snapshot:
    """All that is known of one attempt from its notes; `take` adds one."""

    registered: str = ""
    """The answer to its registration, packed; "" when it is not registered."""
    resync: int | None = None
    """The id of the last answer that the application master had when it was asked to register again."""
    last: Note | None = None
    undelivered: Note | None = None
    """What goes with the next answer."""
    live: dict[str, Note] = field(default_factory=dict)
    ended: dict[str, None] = field(default_factory=dict)
    open: Note = field(default_factory=dict)
    """Completions to report, releases to send, unclear stops; as `Completions.note` has them."""
    rows: dict[tuple[Key, str], None] = field(default_factory=dict)
    """Guaranteed rows that the ResourceManager may hold."""
    private_ids: dict[int, tuple[Key, str]] = field(default_factory=dict)
    """Private request ids that it may hold, each with its key and host."""
    serial: int = 0
    """The last serial of a private id."""
    minted: dict[str, str] = field(default_factory=dict)
    """Containers of our own, packed ids by text, that the ResourceManager may know and the application does not."""
    number: int = 0
    """The number of the last container of our own."""
    ended_s: float = 0.0
    """Service of the containers that ended."""
    app: Note | None = None
    """The application's record."""
    kept_off: list[str] = field(default_factory=list)
    """Hosts that the ResourceManager may have on its blacklist for us."""
    master_gone_s: float | None = None
    """When the application master's container was over."""
    over: bool = False

    def take(self, note: Mapping[str, Any]) -> None:
        """Add one note. Raises KeyError, TypeError or ValueError when it is none."""
        if note.get("over"):
            self.over = True
        if note.get("new"):
            self.rows.clear()
            self.private_ids.clear()
            self.last = self.resync = self.undelivered = None
        self.registered = note.get("registered", self.registered)
        self.resync = note.get("resync", self.resync)
        self.last = note.get("last", self.last)
        self.undelivered = note.get("undelivered", self.undelivered)
        self.app = note.get("app", self.app)
        self.master_gone_s = note.get("master_gone_s", self.master_gone_s)
        self.kept_off = list(note.get("kept_off", self.kept_off))
        self.open = note.get("open", self.open)
        for container_id, live in note.get("live", {}).items():
            if live is None:
                self.live.pop(container_id, None)
            else:
                self.live[container_id] = live
        self.ended.update(dict.fromkeys(note.get("ended", ())))
        for container_id in list(self.ended)[: max(0, len(self.ended) - MAX_ENDED)]:
            del self.ended[container_id]
        self.serial = max(self.serial, note.get("serial", 0))
        self.ended_s = note.get("ended_s", self.ended_s)
        self._rows(y.ResourceRequestProto.FromString(unpacked(text)) for text in note.get("rows", ()))
        self.number = max(self.number, note.get("number", 0))
        self.minted.update(note.get("minted", {}))
        for container_id in note.get("minted_over", ()):
            self.minted.pop(container_id, None)
        for private in note.get("granted", ()):
            self.private_ids.pop(private, None)

    def _rows(self, rows: Iterable[y.ResourceRequestProto]) -> None:
        for row in rows:
            private = row.allocation_request_id
            if row.execution_type_request.execution_type == y.OPPORTUNISTIC and ids.is_private(private):
                if row.num_containers and row.resource_name != ANY:
                    key = Key.of(row)
                    own = Key(key.priority, ids.original_id(private), ids.asked_opportunistic(private), key.capability)
                    self.private_ids[private] = own, row.resource_name
                self.serial = max(self.serial, ids.serial_of(private))
                continue
            if ids.is_instead(private):
                self.serial = max(self.serial, ids.serial_of(private))
            if row.num_containers:
                self.rows[Key.of(row), row.resource_name] = None
            else:
                self.rows.pop((Key.of(row), row.resource_name), None)
