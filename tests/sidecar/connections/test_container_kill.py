"""Stopping a container, against a NodeManager's words."""

from __future__ import annotations

import asyncio

import pytest

from hadoop_rpc.connection import Failure, Response
from hadoop_rpc.protos import yarn_pb2 as y
from sidecar.connections import container_kill
from sidecar.connections.container_kill import stop_and_see_gone
from sidecar.gate.start_messages import container_proto
from tests.sidecar.fakes import cid


class Manager:
    """Answers for one container, whose states are told in their order; the last one stays."""

    def __init__(self, *states: tuple[int, int | None]) -> None:
        self.states, self.stopped_as = list(states), list[tuple[int, int | None]]()

    async def call(self, method: str, body: bytes) -> Response | Failure | None:
        if method == "stopContainers":
            self.stopped_as.append(self.states[0])
            self.states = [(y.C_COMPLETE, y.CSS_DONE)]
            return Response(0, y.StopContainersResponseProto().SerializeToString(), b"")
        state, sub_state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        answer = y.GetContainerStatusesResponseProto()
        status = answer.status.add(container_id=container_proto(cid(1)), state=state)
        if sub_state is not None:
            status.container_sub_state = sub_state
        return Response(0, answer.SerializeToString(), b"")


def stopped(manager: Manager, localizing_s: float = 60.0) -> tuple[bool, str]:
    job = stop_and_see_gone(cid(1), manager.call, poll_s=0.001, wait_s=60.0, localizing_s=localizing_s)
    return asyncio.run(job)


LOCALIZING, RUNNING = (y.C_RUNNING, y.CSS_SCHEDULED), (y.C_RUNNING, y.CSS_RUNNING)


def test_what_is_being_localized_is_stopped_when_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_kill, "_LOCALIZING_POLL_S", 0.001)
    manager = Manager(LOCALIZING, LOCALIZING, RUNNING)
    assert stopped(manager) == (True, "")
    assert manager.stopped_as == [RUNNING]


def test_what_is_never_localized_is_stopped_in_the_end() -> None:
    manager = Manager(LOCALIZING)
    assert stopped(manager, localizing_s=0.0) == (True, "")
    assert manager.stopped_as == [LOCALIZING]


def test_what_is_known_to_be_localized_is_stopped_at_once() -> None:
    """The status says SCHEDULED, but the NodeManager's list says that the container stands in its queue."""
    manager = Manager(LOCALIZING)
    asked: list[str] = []

    async def call(method: str, body: bytes) -> Response | Failure | None:
        asked.append(method)
        return await manager.call(method, body)

    job = stop_and_see_gone(
        cid(1), call, poll_s=0.001, wait_s=60.0, localizing_s=60.0, localized=lambda: len(asked) >= 2
    )
    assert asyncio.run(job) == (True, "")
    assert manager.stopped_as == [LOCALIZING]
    assert asked.index("stopContainers") == 2


@pytest.mark.parametrize("state", [RUNNING, (y.C_RUNNING, None)], ids=["running", "a NodeManager that does not say"])
def test_what_runs_is_stopped_at_once(state: tuple[int, int | None]) -> None:
    manager = Manager(state)
    assert stopped(manager) == (True, "")
    assert manager.stopped_as == [state]


def test_without_a_session_it_is_said_so() -> None:
    async def nobody(method: str, body: bytes) -> None: ...

    job = stop_and_see_gone(cid(1), nobody, poll_s=0.001, wait_s=1.0, localizing_s=1.0)
    assert asyncio.run(job) == (False, "there is no session with the NodeManager")
