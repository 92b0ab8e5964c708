"""Application masters, each with a connection straight to the ResourceManager and one through the proxy.

They send empty heartbeats; on demand also such that ask for a guaranteed container, which is released when it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final

from google.protobuf.message import DecodeError, Message

from hadoop_rpc.connection import AM_PROTOCOL, ClientConnection, ClientEvent, Failure, Response
from hadoop_rpc.errors import LoginRefusedError, RemoteProtocolError
from hadoop_rpc.login import TokenLogin
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from hadoop_rpc.protos.yarn_pb2 import (
    GUARANTEED,
    AllocateRequestProto,
    AllocateResponseProto,
    ContainerIdProto,
    RegisterApplicationMasterRequestProto,
    RegisterApplicationMasterResponseProto,
    ResourceRequestProto,
)
from quicksilver_lab.bench.load.heartbeat import Beat, beat, is_plain_answer

_SETUP_CALL_ID: Final = 0x7FFF0000
"""Call id of the registration; those of heartbeats count from 0."""
ASK_MB: Final = 1024
_PRIORITY: Final = 20

Answered = Callable[["LoadLink", float, float], None]
"""Told of each answer: on which link, when it came (perf_counter), how long it took; both in seconds."""


class LoadLink(asyncio.Protocol):
    """One logged-in connection of one master. `lost` is set when it breaks, with the reason."""

    def __init__(self, master: LoadMaster, proxied: bool, token: TokenProto) -> None:
        self.master, self.proxied = master, proxied
        self.lost: Exception | None = None
        self._connection = ClientConnection()
        self._login = TokenLogin(self._connection, AM_PROTOCOL, token=token)
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Response | None] | None = None
        self._sent_s = 0.0
        self._expected: Beat | None = None
        self._answered: Answered | None = None
        self._client_id = self._connection.client_id

    @property
    def busy(self) -> bool:
        """Whether a heartbeat has no answer yet."""
        return self._expected is not None

    async def connect(self, host: str, port: int) -> None:
        """Dial and log in. Raises OSError, LoginRefusedError or RemoteProtocolError."""
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        transport, _ = await loop.create_connection(lambda: self, host, port)
        self._transport = transport
        self._transport.write(self._login.start())
        await self._waiting

    async def call(self, method: str, parameter: Message) -> bytes:
        """Send one call before heartbeats begin; return the body of the answer."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(self._connection.call(method, AM_PROTOCOL, parameter, call_id=_SETUP_CALL_ID))
        response = await self._waiting
        assert response is not None
        return response.body

    def beat(self, answered: Answered, asking: bool = False) -> None:
        """Send the master's next heartbeat; `answered` gets the answer. asking: it is to ask for a container."""
        master = self.master
        number = master.response_id
        expected = beat(number)
        self._expected, self._answered = expected, answered
        transport = self._transport
        assert transport is not None
        if asking or master.releases:
            data = self._connection.call("allocate", AM_PROTOCOL, master.request(asking), call_id=number)
        else:
            data = expected.head + self._client_id + expected.tail
        self._sent_s = perf_counter()
        transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Take an answer: the usual one by a look at its first bytes, any other by reading it."""
        now_s = perf_counter()
        expected = self._expected
        if expected is None or self.master.waits or not is_plain_answer(data, expected):
            try:
                if not self._read(data):
                    return
            except (RemoteProtocolError, LoginRefusedError, DecodeError) as error:
                self._fail(error)
                return
        self._expected = None
        master = self.master
        master.response_id += 1
        assert self._answered is not None
        self._answered(self, now_s, now_s - self._sent_s)

    def _read(self, data: bytes) -> bool:
        """Take bytes in by the full machine; return whether they complete the answer to a heartbeat."""
        done = False
        for event in self._connection.receive_data(data):
            if not self._login.done:
                self._log_in(event)
            elif isinstance(event, Failure):
                raise RemoteProtocolError(f"{event.exception_class}: {event.text}")
            elif isinstance(event, Response) and self._expected is not None:
                self._check(event)
                done = True
            elif isinstance(event, Response) and self._waiting is not None:
                self._waiting.set_result(event)
        return done

    def _log_in(self, event: ClientEvent) -> None:
        assert self._transport is not None and self._waiting is not None
        self._transport.write(self._login.handle(event))
        if self._login.done:
            self._waiting.set_result(None)

    def _check(self, response: Response) -> None:
        number = self.master.response_id
        answer = AllocateResponseProto.FromString(response.body)
        if response.call_id != number or answer.response_id != number + 1:
            raise RemoteProtocolError(f"heartbeat {number}: answer {answer.response_id} to call {response.call_id}")
        self.master.answered(answer)

    def _fail(self, error: Exception) -> None:
        self.lost = self.lost or error
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the other side hung up; a run that goes on without this link would measure something else."""
        self._fail(exc or ConnectionResetError("the connection was closed"))

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class LoadMaster:
    """One application master; it heartbeats on one of its two links at a time."""

    def __init__(self, token: TokenProto) -> None:
        self.response_id = 0
        self.waits = False
        """Whether it waits for a container that it asked for."""
        self.releases: list[ContainerIdProto] = []
        """What its next heartbeat releases."""
        self.granted = 0
        self.direct = LoadLink(self, False, token)
        self.proxied = LoadLink(self, True, token)

    async def start(self, direct: tuple[str, int], proxied: tuple[str, int]) -> None:
        """Connect both ways and register through the proxy."""
        await self.direct.connect(*direct)
        await self.proxied.connect(*proxied)
        request = RegisterApplicationMasterRequestProto(host="localhost", rpc_port=0, tracking_url="")
        body = await self.proxied.call("registerApplicationMaster", request)
        RegisterApplicationMasterResponseProto.FromString(body)

    def link(self, proxied: bool) -> LoadLink:
        """Return one of the two links."""
        return self.proxied if proxied else self.direct

    def request(self, asking: bool) -> AllocateRequestProto:
        """Return the next heartbeat, with all releases. asking: it asks for a container, unless it waits for one."""
        request = AllocateRequestProto(response_id=self.response_id, progress=0.5, release=self.releases)
        request.blacklist_request.SetInParent()
        self.releases = []
        if asking and not self.waits:
            self.waits = True
            request.ask.append(_row())
        return request

    def answered(self, answer: AllocateResponseProto) -> None:
        """Handle an answer that was read: what it grants is released with the next heartbeat."""
        if answer.allocated_containers:
            self.waits = False
            self.granted += len(answer.allocated_containers)
            self.releases += [container.id for container in answer.allocated_containers]


def _row() -> ResourceRequestProto:
    """Return the ask for one guaranteed container anywhere."""
    row = ResourceRequestProto(resource_name="*", num_containers=1, relax_locality=True)
    row.priority.priority = _PRIORITY
    row.capability.memory, row.capability.virtual_cores = ASK_MB, 1
    row.execution_type_request.execution_type = GUARANTEED
    return row
