"""The allocate call that is on its way, and the last answer: what a repeated request means.

An application master repeats a request, with the same response id, when the connection broke before the answer. The
ResourceManager then either has seen the first one (it repeats its last answer and ignores the request) or has not (it
carries the request out). ApplicationMasterService.allocate; ids count modulo 2**31.
"""

from __future__ import annotations

from dataclasses import dataclass

from hadoop_rpc.protos import yarn_pb2 as y

_IDS = 2**31


@dataclass(slots=True)
class Answered:
    """The last answer as the application master got it; `rewritten` is None when it passed as it came."""

    response_id: int
    rewritten: bytes | None


@dataclass(slots=True)
class Open:
    """A request without an answer: as it came, and as it went out."""

    response_id: int
    body: bytes
    rewritten: bytes | None
    doubtful: list[y.ResourceRequestProto]
    """Rows that the ResourceManager has not seen if it took an earlier request with this id for the first one."""
    releases: list[y.ContainerIdProto]
    """Releases of which the same holds."""

    @property
    def sent(self) -> y.AllocateRequestProto:
        """The request as it went out."""
        return y.AllocateRequestProto.FromString(self.body if self.rewritten is None else self.rewritten)


def is_replayed(response_id: int, answered: Answered | None) -> bool:
    """Tell whether the ResourceManager will answer a request of this id by repeating `answered`."""
    return answered is not None and (response_id + 1) % _IDS == answered.response_id


def merge(first: Open, request: y.AllocateRequestProto, body: bytes) -> Open:
    """Put what only the first request holds into its differing repetition `request`, in case it was never seen.

    Returns the call, with what only `request` holds as doubtful. `body`: the repetition as it came.
    """
    sent = first.sent
    before = {_name(row): row for row in sent.ask}
    doubtful = [row for row in request.ask if before.pop(_name(row), None) != row]
    released = {item.SerializeToString() for item in sent.release}
    releases = [item for item in request.release if item.SerializeToString() not in released]
    both = {item.SerializeToString() for item in request.release}
    call = Open(request.response_id, body, None, _copies(doubtful), [_copy(item) for item in releases])
    call.doubtful += first.doubtful
    call.releases += first.releases
    request.ask.extend(before.values())
    request.release.extend(item for item in sent.release if item.SerializeToString() not in both)
    if sent.HasField("blacklist_request"):
        _merge_blacklists(sent.blacklist_request, request.blacklist_request)
    return call


def _merge_blacklists(first: y.ResourceBlacklistRequestProto, second: y.ResourceBlacklistRequestProto) -> None:
    named = {*second.blacklist_additions, *second.blacklist_removals}
    second.blacklist_additions.extend(h for h in first.blacklist_additions if h not in named)
    second.blacklist_removals.extend(h for h in first.blacklist_removals if h not in named)


def _name(row: y.ResourceRequestProto) -> tuple[int, int, int, bytes, str]:
    return (
        row.priority.priority,
        row.allocation_request_id,
        row.execution_type_request.execution_type,
        row.capability.SerializeToString(deterministic=True),
        row.resource_name,
    )


def _copies(rows: list[y.ResourceRequestProto]) -> list[y.ResourceRequestProto]:
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
