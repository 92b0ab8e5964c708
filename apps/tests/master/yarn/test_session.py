"""The conversation with the ResourceManager over real sockets: lost answers, restarts, standbys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hadoop_rpc.connection import Call
from hadoop_rpc.protos import yarn_pb2 as y
from lab.tests.bench.emulator.fake_yarn import Answer, Server, token
from quicksilver_apps.master.yarn import session as module
from quicksilver_apps.master.yarn.session import AttemptGoneError, RmSession
from quicksilver_apps.yarn.yarn_client import RemoteCallError

JAVA = "org.apache.hadoop.yarn.exceptions"
FORGOTTEN = (f"{JAVA}.ApplicationMasterNotRegisteredException", "forgotten")
GONE = (f"{JAVA}.ApplicationAttemptNotFoundException", "attempt is not here")
STANDBY = ("org.apache.hadoop.ipc.StandbyException", "not active")
INVALID = (f"{JAVA}.InvalidResourceRequestException", "too large")
TOKEN = token(y.AMRMTokenIdentifierProto(keyId=1), "YARN_AM_RM_TOKEN")
REGISTERED, DONE = y.RegisterApplicationMasterResponseProto(queue="q"), y.FinishApplicationMasterResponseProto


class Scheduler:
    """Gives scripted answers; `calls` has what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, bytes]] = []
        self.identifiers: list[bytes] = []
        self.address = ("127.0.0.1", 0)

    def answer(self, call: Call, identifier: bytes) -> Answer:
        self.calls.append((call.method, bytes(call.body)))
        self.identifiers.append(identifier)
        return self.answers.pop(0)

    async def start(self) -> asyncio.Server:
        server = await asyncio.get_running_loop().create_server(lambda: Server(self.answer), "127.0.0.1", 0)
        self.address = server.sockets[0].getsockname()[:2]
        return server

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.calls]

    def response_ids(self) -> list[int]:
        """Return those of the heartbeats."""
        beats = [body for method, body in self.calls if method == "allocate"]
        return [y.AllocateRequestProto.FromString(body).response_id for body in beats]


def answer(response_id: int, **fields: Any) -> y.AllocateResponseProto:
    return y.AllocateResponseProto(response_id=response_id, **fields)


def run(schedulers: list[Scheduler], test: Callable[[RmSession], Awaitable[None]]) -> None:
    async def main() -> None:
        servers = [await each.start() for each in schedulers]
        session = RmSession([each.address for each in schedulers], TOKEN)
        async with asyncio.timeout(20):
            await test(session)
        await session.close()
        for server in servers:
            server.close()
            await server.wait_closed()

    asyncio.run(main())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.01)


def test_a_heartbeat_whose_answer_was_lost_is_sent_again_under_its_number() -> None:
    rm = Scheduler(REGISTERED, answer(1), None, answer(2), answer(3))

    async def test(session: RmSession) -> None:
        assert (await session.register("host", "http://host:1")).queue == "q"
        for number in (1, 2, 3):
            found = await session.allocate(y.AllocateRequestProto())
            assert found is not None
            assert found.response_id == number

    run([rm], test)
    assert rm.response_ids() == [0, 1, 1, 2]


def test_when_it_is_forgotten_it_registers_again() -> None:
    rm = Scheduler(REGISTERED, answer(1), FORGOTTEN, REGISTERED, answer(1))

    async def test(session: RmSession) -> None:
        await session.register("host", "http://host:1")
        assert await session.allocate(y.AllocateRequestProto()) is not None
        assert await session.allocate(y.AllocateRequestProto()) is None
        assert await session.allocate(y.AllocateRequestProto()) is not None

    run([rm], test)
    assert rm.response_ids() == [0, 1, 0]
    again = y.RegisterApplicationMasterRequestProto.FromString(rm.calls[3][1])
    assert (again.host, again.rpc_port, again.tracking_url) == ("host", 0, "http://host:1")


def test_a_registration_whose_answer_was_lost_is_one() -> None:
    rm = Scheduler(None, (f"{JAVA}.InvalidApplicationMasterRequestException", "already registered"), answer(1))

    async def test(session: RmSession) -> None:
        await session.register("host", "")
        assert await session.allocate(y.AllocateRequestProto()) is not None

    run([rm], test)


def test_it_goes_to_the_active_one() -> None:
    standby, active = Scheduler(STANDBY, STANDBY), Scheduler(REGISTERED, answer(1))

    async def test(session: RmSession) -> None:
        await session.register("host", "")
        assert await session.allocate(y.AllocateRequestProto()) is not None

    run([standby, active], test)
    assert standby.methods == ["registerApplicationMaster"]


def test_a_new_token_is_used_on_the_next_connection() -> None:
    fresh = token(y.AMRMTokenIdentifierProto(keyId=2), "YARN_AM_RM_TOKEN")
    rm = Scheduler(REGISTERED, answer(1, am_rm_token=fresh), None, answer(2))

    async def test(session: RmSession) -> None:
        await session.register("host", "")
        await session.allocate(y.AllocateRequestProto())
        await session.allocate(y.AllocateRequestProto())

    run([rm], test)
    assert rm.identifiers == [TOKEN.identifier] * 3 + [fresh.identifier]


def test_an_attempt_that_is_over_is_no_reason_to_try_again() -> None:
    async def test(session: RmSession) -> None:
        with pytest.raises(AttemptGoneError, match="attempt is not here"):
            await session.allocate(y.AllocateRequestProto())

    run([Scheduler(GONE)], test)


def test_what_is_refused_is_an_error() -> None:
    async def test(session: RmSession) -> None:
        with pytest.raises(RemoteCallError, match="too large"):
            await session.allocate(y.AllocateRequestProto())

    run([Scheduler(INVALID)], test)


def test_it_unregisters_until_that_is_known() -> None:
    rm = Scheduler(DONE(), FORGOTTEN, REGISTERED, DONE(), DONE(isUnregistered=True))

    async def test(session: RmSession) -> None:
        await session.unregister(y.APP_FAILED, "why")

    run([rm], test)
    finish = y.FinishApplicationMasterRequestProto.FromString(rm.calls[0][1])
    assert (finish.final_application_status, finish.diagnostics) == (y.APP_FAILED, "why")
