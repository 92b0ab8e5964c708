"""The allocate call that is on its way, the last answer, and the handling of repeated requests.

An application master repeats a request, with the same response id, when the connection broke before the answer. The
ResourceManager then either has seen the first one (it repeats its last answer and ignores the request) or has not (it
carries the request out). ApplicationMasterService.allocate; ids: rm_proxy/domain/response_ids.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt.asks.ask_rows import Key
from rm_proxy.domain.ids import is_private
from rm_proxy.domain.response_ids import id_before

RowName = tuple[Key, str]


@dataclass(slots=True)
class LastAnswer:
    """The last answer as the application master got it; `rewritten` is None when it passed as it came."""

    response_id: int
    request_id: int
    """The id of the request that it answered, as it came."""
    request: bytes = b""
    """The request that it answered, as it came."""
    rewritten: bytes | None = None
    delivered: dict[RowName, int] = field(default_factory=dict)
    """How much its deliveries lowered the application's rows."""
    container_ids: list[str] = field(default_factory=list)
    """Container ids that it delivered."""
    ends: list[y.ContainerStatusProto] = field(default_factory=list)
    """Completions that it delivered."""

    @property
    def id_before(self) -> int:
        """The id of a request that has the ResourceManager repeat this answer."""
        return id_before(self.response_id)

    def repeats(self, response_id: int) -> bool:
        """Return whether a request of this id, as it came, asks for this answer again."""
        if response_id == self.response_id:
            return False
        return response_id in (self.request_id, self.id_before)

    def late(self, request: y.AllocateRequestProto) -> y.AllocateRequestProto:
        """Return the content of a repeated request that the first one lacked, with counts as after the answer."""
        first = y.AllocateRequestProto.FromString(self.request)
        late = y.AllocateRequestProto()
        before = {row_name(row): row for row in first.ask}
        for row in request.ask:
            name = row_name(row)
            if before.get(name) != row:
                late.ask.add().CopyFrom(row)
                late.ask[-1].num_containers = max(0, row.num_containers - self.delivered.get(name, 0))
        released = {item.SerializeToString() for item in first.release}
        late.release.extend(item for item in request.release if item.SerializeToString() not in released)
        updates = {item.SerializeToString() for item in first.update_requests}
        late.update_requests.extend(u for u in request.update_requests if u.SerializeToString() not in updates)
        if first.blacklist_request != request.blacklist_request:
            late.blacklist_request.CopyFrom(request.blacklist_request)
        return late


@dataclass(slots=True)
class Undelivered:
    """What the ResourceManager answered to a request that was answered early: it goes with the next answer."""

    answer: y.AllocateResponseProto
    """In the application's terms."""
    delivered: dict[RowName, int]
    """How much its containers lower the application's rows."""
    container_ids: list[str]
    end_ids: frozenset[str]
    """Containers whose completions it holds."""

    def join(self, answer: y.AllocateResponseProto) -> None:
        """Put it before the content of an answer."""
        both = y.AllocateResponseProto()
        both.CopyFrom(self.answer)
        if answer.HasField("preempt"):
            both.ClearField("preempt")  # the later one holds
        both.MergeFrom(answer)
        answer.CopyFrom(both)

    def lower(self, request: y.AllocateRequestProto) -> bool:
        """Lower the rows of a request, made without knowledge of the containers; returns whether that changed any."""
        changed = False
        for row in request.ask if self.delivered else ():
            less = min(row.num_containers, self.delivered.get(row_name(row), 0))
            row.num_containers -= less
            changed = changed or less > 0
        return changed


@dataclass(slots=True)
class OpenRequest:
    """A request without an answer: as it came, and as it went out."""

    response_id: int
    body: bytes
    rewritten: bytes | None
    doubtful: list[y.ResourceRequestProto] = field(default_factory=list)
    """Rows that the ResourceManager has not seen if it took an earlier request with this id for the first one."""
    releases: list[y.ContainerIdProto] = field(default_factory=list)
    """Releases of which the same holds."""
    updates: list[y.UpdateContainerRequestProto] = field(default_factory=list)
    """Updates of containers of which the same holds."""
    late: y.AllocateRequestProto | None = None
    """Further content to repeat with the next request."""
    ahead: y.AllocateRequestProto | None = None
    """Content of ours, or of earlier requests, that went out before its own."""
    unread: bool = False
    """Whether it is too large to be read."""
    beat: bool = False
    """Whether it is an empty heartbeat that passed by its bytes."""

    @property
    def sent(self) -> y.AllocateRequestProto:
        """The request as it went out."""
        return y.AllocateRequestProto.FromString(self.body if self.rewritten is None else self.rewritten)


def without_ours(call: OpenRequest) -> y.AllocateRequestProto | None:
    """Return the content of a request that may not have arrived, less our rows; of an unread one what went ahead."""
    if call.unread:
        return call.ahead
    sent = call.sent
    content = y.AllocateRequestProto(
        release=sent.release, update_requests=sent.update_requests, scheduling_requests=sent.scheduling_requests
    )
    content.ask.extend(row for row in sent.ask if not is_private(row.allocation_request_id))
    if sent.HasField("blacklist_request"):
        content.blacklist_request.CopyFrom(sent.blacklist_request)
    return content


def merged(
    first: y.AllocateRequestProto | None, second: y.AllocateRequestProto | None
) -> y.AllocateRequestProto | None:
    """Return the content of both; rows of `second` overwrite those of `first`."""
    if first is None or second is None:
        return second if first is None else first
    prepend(first, second)
    return second


def joined(ahead: y.AllocateRequestProto | None, body: bytes, head: y.AllocateRequestProto | None) -> bytes:
    """Return a request that is not read, behind other content, and with the fields of `head` instead of its own.

    Of protobuf messages one behind the other, lists are joined, and the last one's single fields count.
    """
    return b"".join((ahead.SerializeToString() if ahead else b"", body, head.SerializeToString() if head else b""))


def prepend(late: y.AllocateRequestProto, request: y.AllocateRequestProto) -> None:
    """Insert content that came too late before the content of a request."""
    names = {row_name(row) for row in request.ask}
    rows = [*(row for row in late.ask if row_name(row) not in names), *request.ask]
    merged = y.AllocateRequestProto(ask=rows)
    request.ClearField("ask")
    request.ask.extend(merged.ask)
    both = {item.SerializeToString() for item in request.release}
    request.release.extend(item for item in late.release if item.SerializeToString() not in both)
    _add_updates(late, request)
    scheduling = y.AllocateRequestProto(scheduling_requests=late.scheduling_requests)
    scheduling.scheduling_requests.extend(request.scheduling_requests)
    request.ClearField("scheduling_requests")
    request.scheduling_requests.extend(scheduling.scheduling_requests)
    if late.HasField("blacklist_request"):
        _merge_blacklists(late.blacklist_request, request.blacklist_request)


def merge(first: OpenRequest, request: y.AllocateRequestProto, body: bytes) -> OpenRequest:
    """Copy content that only the first request has into its differing repetition `request`, in case it was never seen.

    Returns the call, with what only `request` holds as doubtful. `body`: the repetition as it came.
    """
    sent = first.sent
    before = {row_name(row): row for row in sent.ask}
    doubtful = [row for row in request.ask if before.pop(row_name(row), None) != row]
    released = {item.SerializeToString() for item in sent.release}
    releases = [item for item in request.release if item.SerializeToString() not in released]
    both = {item.SerializeToString() for item in request.release}
    updates = _without(request.update_requests, sent.update_requests)
    call = OpenRequest(
        request.response_id, body, None, copied_rows(doubtful), [_copy(item) for item in releases], updates
    )
    call.doubtful += first.doubtful
    call.releases += first.releases
    call.updates += first.updates
    request.ask.extend(before.values())
    request.release.extend(item for item in sent.release if item.SerializeToString() not in both)
    _add_updates(sent, request)
    if sent.HasField("blacklist_request"):
        _merge_blacklists(sent.blacklist_request, request.blacklist_request)
    return call


def _add_updates(first: y.AllocateRequestProto, second: y.AllocateRequestProto) -> None:
    """Put updates of containers that only the first request names into the second; YARN takes one for each."""
    second.update_requests.extend(_without(first.update_requests, second.update_requests))


def _without(
    updates: Iterable[y.UpdateContainerRequestProto], others: Iterable[y.UpdateContainerRequestProto]
) -> list[y.UpdateContainerRequestProto]:
    """Return copies of the updates of containers that `others` do not name."""
    named = {item.container_id.SerializeToString() for item in others}
    copies = []
    for update in updates:
        if update.container_id.SerializeToString() not in named:
            copies.append(y.UpdateContainerRequestProto())
            copies[-1].CopyFrom(update)
    return copies


def _merge_blacklists(first: y.ResourceBlacklistRequestProto, second: y.ResourceBlacklistRequestProto) -> None:
    named = {*second.blacklist_additions, *second.blacklist_removals}
    second.blacklist_additions.extend(h for h in first.blacklist_additions if h not in named)
    second.blacklist_removals.extend(h for h in first.blacklist_removals if h not in named)


def row_name(row: y.ResourceRequestProto) -> RowName:
    """Return the name of a row: a later row of this name overwrites it."""
    return Key.of(row), row.resource_name


def copied_rows(rows: Iterable[y.ResourceRequestProto]) -> list[y.ResourceRequestProto]:
    """Return copies that outlive the message they stand in."""
    copies = []
    for row in rows:
        copy = y.ResourceRequestProto()
        copy.CopyFrom(row)
        copies.append(copy)
    return copies


def _copy(container: y.ContainerIdProto) -> y.ContainerIdProto:
    copy = y.ContainerIdProto()
    copy.CopyFrom(container)
    return copy
