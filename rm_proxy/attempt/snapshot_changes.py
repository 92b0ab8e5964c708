"""Changes of an application attempt since it was last journaled (rm_proxy/attempt/snapshot.py)."""

from __future__ import annotations

from collections.abc import Iterable

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt.asks.ask_rows import Key, row_of
from rm_proxy.attempt.asks.ask_table import AskTable
from rm_proxy.attempt.completions import Completions
from rm_proxy.attempt.held_containers import HeldContainers
from rm_proxy.attempt.registration.resync import Resync
from rm_proxy.attempt.repeated_requests import LastAnswer, Undelivered
from rm_proxy.attempt.snapshot import Note, Snapshot, packed, packed_answer, packed_container, packed_undelivered
from rm_proxy.domain import ids
from rm_proxy.domain.records import AppRecord
from rm_proxy.minting.tokens import Minted


class SnapshotChanges:
    """The notes of one attempt; an exchange that changes nothing only costs a check of a few flags."""

    def __init__(self, live: HeldContainers, ends: Completions) -> None:
        self._live, self._ends = live, ends
        self._note: Note = {}
        self._open: Note = {}
        self._rows: list[y.ResourceRequestProto] = []
        self._granted: list[int] = []
        self._app: Note | None = None

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from the snapshot of an earlier process."""
        self._open, self._app = snapshot.open, snapshot.app

    def app(self, record: AppRecord) -> None:
        """Note the application's record."""
        fields = ("id", "queue", "user", "type", "name", "tags", "priority", "submitted_s")
        app = {name: getattr(record, name) for name in fields}
        if app != self._app:
            self._app = self._note["app"] = app

    def registered(self, answer: bytes) -> None:
        """Note a registration, as the application master was answered."""
        self.new()
        self._note["registered"] = packed(answer)

    def new(self) -> None:
        """Note that the ResourceManager has forgotten all rows, and the registration."""
        self._rows, self._granted = [], []
        for name in ("last", "resync", "undelivered"):
            self._note.pop(name, None)
        self._note |= {"new": True, "registered": ""}

    def resync(self, response_id: int | None) -> None:
        """Note that the application master was asked to register again, with its last id; None: that is done."""
        self._note["resync"] = response_id

    def master_gone(self, at_s: float) -> None:
        """Note when the application master's container was over."""
        self._note["master_gone_s"] = at_s

    def kept_off(self, hosts: Iterable[str]) -> None:
        """Note the hosts that the ResourceManager may have on the blacklist for us."""
        self._note["kept_off"] = sorted(hosts)

    def note_rows(self, rows: Iterable[y.ResourceRequestProto]) -> None:
        """Note rows that are sent to the ResourceManager."""
        self._rows.extend(rows)

    def minted(self, minted: Iterable[Minted], serial: int, number: int) -> None:
        """Note containers of our own that the ResourceManager gets to know; number: of the last one."""
        self._note |= minted_note(minted, number) | {"serial": serial}

    def minted_over(self, minted: Iterable[Minted]) -> None:
        """Note that such containers were answered, or given back."""
        over = self._note.setdefault("minted_over", [])
        over += [ids.container_id_text(grant.container.id) for grant in minted]

    def answered(self, last: LastAnswer, granted: Iterable[int]) -> None:
        """Note an answer with deliveries or completions; granted: private ids that the ResourceManager dropped."""
        self._note["last"] = packed_answer(last)
        self._granted.extend(granted)

    def undelivered(self, late: Undelivered | None, granted: Iterable[int] = ()) -> None:
        """Note what goes with the next answer, None for nothing any more; granted: as above."""
        self._note["undelivered"] = packed_undelivered(late) if late is not None else None
        self._granted.extend(granted)

    def over(self) -> None:
        """Note that the attempt is over: its state is no longer needed."""
        self._live.changed.clear()
        self._ends.unjournaled.clear()
        self._rows, self._granted, self._open = [], [], {}
        self._note = {"over": True}

    @property
    def has_changes(self) -> bool:
        """Whether there may be changes."""
        live, ends = self._live, self._ends
        return bool(self._note or live.changed or ends.unjournaled or self._rows or self._open or ends.open)

    def take(self) -> Note | None:
        """Return the changes and forget them; None if there are none."""
        if not self.has_changes:
            return None
        live, ends = self._live, self._ends
        note, self._note = self._note, {}
        if live.changed:
            note["live"] = {c: packed_container(own) if (own := live.by_id.get(c)) else None for c in live.changed}
            live.changed = {}
            note["ended_s"] = round(live.ended_s, 3)
        if ends.unjournaled:
            note["ended"], ends.unjournaled = list(ends.unjournaled), {}
        if self._rows:
            note["rows"], self._rows = [packed(row) for row in self._rows], []
        if self._granted:
            note["granted"], self._granted = self._granted, []
        still = ends.note() if ends.open else {}
        if still != self._open:
            note["open"] = self._open = still
        return note or None

    def whole(
        self,
        registered: bytes,
        last: LastAnswer | None,
        table: AskTable,
        resync: Resync | None,
        doubted: Iterable[y.ResourceRequestProto],
        kept_off: Iterable[str],
    ) -> Note:
        """Return the whole state as one note; doubted: rows that may or may not be zero; kept_off: as above."""
        rows = [*table.rows_at_rm(), *(resync.pending_rows() if resync is not None else ())]
        rows += [row_of(Key.of(row), row.resource_name, 1) for row in doubted]
        return {
            "registered": packed(registered),
            "resync": resync.id if resync is not None else None,
            "last": packed_answer(last) if last is not None else None,
            "live": {live.id: packed_container(live) for live in self._live},
            "ended_s": round(self._live.ended_s, 3),
            "ended": self._ends.ended,
            "open": self._ends.note() if self._ends.open else {},
            "rows": [packed(row) for row in rows],
            "serial": table.serial,
            "app": self._app,
            "kept_off": sorted(kept_off),
        }


def given_up(note: Note) -> Note | None:
    """Return what is journaled of an attempt that is not tracked any more: that its earlier notes are void."""
    return {"over": True} if note.get("over") else None


def minted_note(minted: Iterable[Minted], number: int) -> Note:
    """Return what is journaled of containers of our own that the application does not know yet."""
    protos = [grant.container.id for grant in minted]
    return {"minted": {ids.container_id_text(proto): packed(proto) for proto in protos}, "number": number}
