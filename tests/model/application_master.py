"""An application master like MapReduce's: it asks, assigns, starts, stops, releases, asks again for what was lost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.domain import ids
from tests.model.requestor import Requestor, Want

SYSTEM = (-100, -102, -108)


@dataclass
class Assigned:
    want: Want
    container: y.ContainerProto
    call_id: int | None = None
    """The start that was sent for it."""
    started: bool = False
    stopped: bool = False


class ApplicationMaster:
    """One job."""

    def __init__(self, number: int, attempt_id: str, app_type: str) -> None:
        self.app_type = app_type
        self.number, self.attempt_id = number, attempt_id
        self.table = Requestor(enforces=app_type == "MAPREDUCE")
        self.wanted: dict[int, Want] = {}
        self.assigned: dict[str, Assigned] = {}
        self.releasing: dict[str, y.ContainerIdProto] = {}
        self.unconfirmed: dict[str, y.ContainerIdProto] = {}
        """Released, and not completed yet."""
        self._sent_releases: set[str] = set()
        self.given: set[str] = set()
        self.ended: set[str] = set()
        self.response_id = 0
        self.unanswered: bytes | None = None
        """The request that the RPC layer repeats, bytes and all."""
        self.next_task = 1
        self.done = 0
        self.surplus = 0
        self.cancelled = 0

    def ask(self, want: Want) -> None:
        want = replace(want, number=self.next_task)
        self.next_task += 1
        self.wanted[want.number] = want
        self.table.add(want)

    def cancel(self, number: int) -> None:
        self.table.remove(self.wanted.pop(number))
        self.cancelled += 1

    def release(self, container_id: str) -> None:
        """Give back a container that was not started."""
        assigned = self.assigned.pop(container_id)
        self.releasing[container_id] = assigned.container.id

    # allocate

    def request(self, again: bool) -> bytes:
        """Return the request: the unanswered one when the RPC layer repeats it, else one made of what is wanted now."""
        if again and self.unanswered is not None:
            return self.unanswered
        request = y.AllocateRequestProto(response_id=self.response_id, ask=self.table.rows(), progress=0.5)
        request.release.extend(self.releasing.values())
        self._sent_releases = set(self.releasing)
        return request.SerializeToString()

    def registered(self) -> None:
        """Send everything again (addOutstandingRequestOnResync): all rows, and releases that were not confirmed."""
        self.response_id, self.unanswered = 0, None
        self.table.resync()
        self.releasing |= self.unconfirmed

    def take(self, answer: y.AllocateResponseProto) -> None:
        self.response_id, self.unanswered = answer.response_id, None
        assert not answer.updated_containers and not answer.update_errors, "it updates nothing, and hears of nothing"
        self.table.sent()
        for container_id in self._sent_releases & self.releasing.keys():
            self.unconfirmed[container_id] = self.releasing.pop(container_id)
        self._sent_releases = set()
        for container in answer.allocated_containers:
            self._assign(container)
        for status in answer.completed_container_statuses:
            self._completed(status)

    def _assign(self, container: y.ContainerProto) -> None:
        cid = ids.container_id_text(container.id)
        assert cid not in self.given, f"{cid} was given twice"
        self.given.add(cid)
        assert not ids.is_private(container.allocation_request_id), "a private id leaked"
        opportunistic = container.execution_type == y.OPPORTUNISTIC
        fitting = [
            w
            for w in self.wanted.values()
            if (w.priority, w.opportunistic) == (container.priority.priority, opportunistic)
            and w.memory_mb == container.resource.memory
        ]
        if not fitting:
            self.surplus += 1
            self.releasing[cid] = container.id
            return
        host = container.nodeId.host
        want = next((w for w in fitting if host in w.hosts), fitting[0])
        del self.wanted[want.number]
        self.table.remove(want)
        self.assigned[cid] = Assigned(want, container)

    def _completed(self, status: y.ContainerStatusProto) -> None:
        cid = ids.container_id_text(status.container_id)
        assert cid in self.given, f"{cid} completed, but was never given"
        assert cid not in self.ended, f"{cid} completed twice"
        self.ended.add(cid)
        self.unconfirmed.pop(cid, None)
        self.releasing.pop(cid, None)
        assigned = self.assigned.pop(cid, None)
        if assigned is None or assigned.stopped:
            return
        if status.exit_status == 0:
            self.done += 1
        else:
            priority = 5 if assigned.want.priority == 20 and status.exit_status in SYSTEM else assigned.want.priority
            self.ask(replace(assigned.want, priority=priority))

    def adopt(self, container: y.ContainerProto) -> None:
        """Go on with a container of an earlier attempt."""
        cid = ids.container_id_text(container.id)
        assert not ids.is_private(container.allocation_request_id), "a private id leaked"
        self.given.add(cid)
        want = Want(0, container.priority.priority, memory_mb=container.resource.memory)
        self.assigned[cid] = Assigned(want, container, call_id=0, started=True)

    # starts

    def start_failed(self, container_id: str) -> None:
        """The NodeManager refused: the task is asked for again, the container given back."""
        assigned = self.assigned.pop(container_id)
        self.releasing[container_id] = assigned.container.id
        if not assigned.stopped:
            self.ask(assigned.want)

    @property
    def idle(self) -> bool:
        return not (self.wanted or self.assigned or self.releasing or self.table.changed)
