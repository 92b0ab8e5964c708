"""Taking an application attempt over from an earlier process: the application master registers and asks anew.

Its first allocate is refused with ApplicationMasterNotRegisteredException, as after a restart of the ResourceManager;
all frameworks answer that by registering and sending all that they want. The registration is ours alone: it is
answered as the first one was, and not forwarded. The next allocate goes on with the id of the last answer that the
application master has, so that a ResourceManager which answered meanwhile repeats that answer. Which of the two it did
cannot be seen, so what that request says is said again with the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt.asks.ask_rows import Key, row_of
from rm_proxy.attempt.asks.ask_table import AskTable
from rm_proxy.attempt.repeated_requests import OpenRequest, copied_rows, row_name
from rm_proxy.attempt.snapshot import Snapshot, unpacked

TEXT: Final = "quicksilver restarted: register again, and ask again for all that is wanted"


class ResyncStage(Enum):
    """Progress of a take-over."""

    UNHEARD = auto()
    """The application master has not called yet."""
    REFUSED = auto()
    """It was asked to register."""
    REGISTERED = auto()
    """It registered; its requests use the old id until one is answered."""


class Resync:
    """The take-over of one attempt; `snapshot`: that of the earlier process."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.id = snapshot.resync
        """Id of the last answer that the application master had; None until it called."""
        self.stage = ResyncStage.UNHEARD if self.id is None else ResyncStage.REFUSED
        self._registered = snapshot.registered
        self.rows = dict(snapshot.rows)
        """Guaranteed rows that the ResourceManager may hold."""
        self.private_ids = dict(snapshot.private_ids)
        """Private ids that it may hold, each with key and host."""

    def refuses(self, response_id: int) -> bool:
        """Return whether an allocate request is refused, so that the application master registers; remembers its id."""
        if self.stage is ResyncStage.REGISTERED:
            return False
        self.stage = ResyncStage.REFUSED
        if response_id or self.id is None:  # 0: it has registered since, and an earlier process knew the id
            self.id = response_id
        return True

    def registration(self) -> bytes | None:
        """Return our answer to a registration that was provoked, or not answered; None if it is the ResourceManager's.

        What an application master took over from earlier attempts it has by now, and newer tokens than those.
        """
        if self.stage is ResyncStage.REGISTERED:
            return None
        before, self.stage = self.stage, ResyncStage.REGISTERED
        if before is ResyncStage.UNHEARD:
            return unpacked(self._registered)  # it never got the answer
        answer = y.RegisterApplicationMasterResponseProto.FromString(unpacked(self._registered))
        answer.ClearField("nm_tokens_from_previous_attempts")
        answer.ClearField("containers_from_previous_attempts")
        return answer.SerializeToString()

    @property
    def busy(self) -> bool:
        """Whether there are rows of the earlier process that the next request has to take care of."""
        return bool(self.rows or self.private_ids)

    def zeros(self, request: Iterable[y.ResourceRequestProto]) -> list[y.ResourceRequestProto]:
        """Return rows that cancel asks which the ResourceManager may hold and the application no longer wants."""
        named = {row_name(row) for row in request}
        return [row_of(*row, 0) for row in self.rows if row not in named]

    def give_up(self) -> list[y.ResourceRequestProto]:
        """Return the rows that cancel all asks of the earlier process: the application master asks anew."""
        hosts = ((key, private, host) for private, (key, host) in self.private_ids.items() if host)
        placed = [row_of(Key(key.priority, private, True, key.capability), host, 0) for key, private, host in hosts]
        return self.zeros(()) + placed

    def adopt(self, table: AskTable) -> None:
        """Have all rows that the ResourceManager may hold sent anew, and its private ids used again."""
        for key, name in self.rows:
            entry = table.entries.get(key)
            if entry is not None:
                entry.rows.doubt(name)
        for private, (key, host) in self.private_ids.items():
            table.park_asked(private, key, host)
        self.rows, self.private_ids = {}, {}

    def pending_rows(self) -> list[y.ResourceRequestProto]:
        """Return the rows that are not adopted yet, to be written down again."""
        rows = [row_of(key, name, 1) for key, name in self.rows]
        for private, (key, host) in self.private_ids.items():
            rows.append(row_of(Key(key.priority, private, True, key.capability), host, 1))
        return rows


def doubt(call: OpenRequest) -> None:
    """Repeat all of a request with the next one: it may not have arrived."""
    sent = call.sent
    call.doubtful = copied_rows(row for row in sent.ask if row.execution_type_request.execution_type == y.GUARANTEED)
    call.releases = list(y.AllocateRequestProto(release=sent.release).release)
    call.updates = list(y.AllocateRequestProto(update_requests=sent.update_requests).update_requests)
    call.late = y.AllocateRequestProto(scheduling_requests=sent.scheduling_requests)
    if sent.HasField("blacklist_request"):
        call.late.blacklist_request.CopyFrom(sent.blacklist_request)


def send_later(call: OpenRequest) -> None:
    """Send all of a request, row by row as it went out, with the next one: it has not arrived."""
    call.late = call.sent
