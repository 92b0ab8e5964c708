"""The whole conversation of an application master with a real ResourceManager."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest

from hadoop_rpc.connection import AM_PROTOCOL, Call, ClientConnection, Failure, SaslFrame, ServerConnection, renumber
from hadoop_rpc.errors import LoginRefusedError
from hadoop_rpc.protos import yarn_client_pb2, yarn_pb2
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from hadoop_rpc.sasl import SaslRelay
from quicksilver_apps.yarn.yarn_client import AmClient, RemoteCallError, RmClient

pytestmark = pytest.mark.hadoop


class RealRm(Protocol):
    """What conftest.py starts."""

    @property
    def client_port(self) -> int: ...

    @property
    def scheduler_port(self) -> int: ...


async def whole_life(am: AmClient) -> None:
    """Register, ask, heartbeat, be refused once, finish."""
    registered = await am.register()
    assert registered.queue == "root.default" and registered.maximumCapability.memory > 0
    request = yarn_pb2.AllocateRequestProto(progress=0.5)
    row = request.ask.add(resource_name="*", num_containers=1, relax_locality=True)
    row.priority.priority = 1
    row.capability.memory, row.capability.virtual_cores = 512, 1
    assert (await am.allocate(request)).response_id == 1
    assert (await am.allocate()).response_id == 2
    am.response_id = 77
    with pytest.raises(RemoteCallError, match=r"InvalidApplicationMasterRequestException.*expect responseId to be 2"):
        await am.allocate()
    for _ in range(50):
        if (await am.finish()).isUnregistered:
            return
        await asyncio.sleep(0.1)
    pytest.fail("the ResourceManager does not let the application finish")


async def submitted(rm: RmClient) -> tuple[yarn_pb2.ApplicationIdProto, TokenProto]:
    app_id = await rm.submit_unmanaged(name="wire test", app_type="TEST", tags=("wire",))
    return app_id, await rm.am_rm_token(app_id)


async def state_of(rm: RmClient, app_id: yarn_pb2.ApplicationIdProto, wanted: int) -> int:
    for _ in range(100):
        state = (await rm.report(app_id)).yarn_application_state
        if state == wanted:
            break
        await asyncio.sleep(0.1)
    return state


def test_unmanaged_master_from_submit_to_finish(real_rm: RealRm) -> None:
    async def run() -> None:
        async with RmClient(port=real_rm.client_port, user="alice") as rm:
            app_id, token = await submitted(rm)
            assert token.kind == "YARN_AM_RM_TOKEN"
            identifier = yarn_pb2.AMRMTokenIdentifierProto.FromString(token.identifier)
            assert identifier.appAttemptId.application_id == app_id
            async with AmClient("127.0.0.1", real_rm.scheduler_port, token) as am:
                await whole_life(am)
            assert await state_of(rm, app_id, yarn_client_pb2.FINISHED) == yarn_client_pb2.FINISHED
            report = await rm.report(app_id)
            assert (report.user, report.applicationType, list(report.applicationTags)) == ("alice", "TEST", ["wire"])
            assert report.final_application_status == yarn_pb2.APP_SUCCEEDED

    asyncio.run(run())


def test_wrong_password_and_killed_application(real_rm: RealRm) -> None:
    async def run() -> None:
        async with RmClient(port=real_rm.client_port) as rm:
            app_id, token = await submitted(rm)
            forged = TokenProto()
            forged.CopyFrom(token)
            forged.password = b"guess"
            with pytest.raises(LoginRefusedError, match="SaslException"):
                await AmClient("127.0.0.1", real_rm.scheduler_port, forged).connect()
            await rm.kill(app_id, diagnostics="test")
            assert await state_of(rm, app_id, yarn_client_pb2.KILLED) == yarn_client_pb2.KILLED
            with pytest.raises(LoginRefusedError, match="InvalidToken"):
                await AmClient("127.0.0.1", real_rm.scheduler_port, token).connect()
            unknown = yarn_pb2.ApplicationIdProto(id=4711, cluster_timestamp=1)
            with pytest.raises(RemoteCallError, match="ApplicationNotFoundException"):
                await rm.report(unknown)

    asyncio.run(run())


class Relay:
    """Relays one connection through both machines, calls under ids of its own; notes what it saw."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.sasl = SaslRelay()
        self.methods: list[str] = []
        self.handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = self._serve
        self._calls: dict[int, Call] = {}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        await asyncio.gather(self._up(reader, up_writer), self._down(up_reader, writer))

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = ServerConnection()
        while data := await reader.read(100):  # small on purpose: frames come in pieces
            for event in server.receive_data(data):
                assert not hasattr(event, "data")
                raw: bytes = event.raw
                if isinstance(event, SaslFrame):
                    self.sasl.from_client(event)
                if isinstance(event, Call):
                    assert event.protocol == AM_PROTOCOL
                    self.methods.append(event.method)
                    self._calls[event.call_id + 1000] = event
                    raw = renumber(event, event.call_id + 1000)
                writer.write(raw)
        writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = ClientConnection()
        while data := await reader.read(100):
            for event in client.receive_data(data):
                assert not hasattr(event, "data")
                raw: bytes = event.raw
                if isinstance(event, SaslFrame):
                    self.sasl.from_server(event)
                elif not isinstance(event, Failure) or event.call_id >= 0:
                    raw = renumber(event, self._calls.pop(event.call_id).call_id)
                writer.write(raw)
        writer.close()


def test_relayed_login_and_renumbered_calls(real_rm: RealRm) -> None:
    async def run() -> None:
        relay = Relay(real_rm.scheduler_port)
        listener = await asyncio.start_server(relay.handler, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with listener, RmClient(port=real_rm.client_port) as rm:
            _, token = await submitted(rm)
            async with AmClient("127.0.0.1", port, token) as am:
                await whole_life(am)
            result = relay.sasl.result
            assert result is not None and (result.identifier, result.qop) == (token.identifier, "auth")
            assert relay.methods[:4] == ["registerApplicationMaster", "allocate", "allocate", "allocate"]

    asyncio.run(run())
