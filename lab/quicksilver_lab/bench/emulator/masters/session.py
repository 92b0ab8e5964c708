"""One master's conversation with the ResourceManager: it reconnects and registers again, as AMRMClient does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from hadoop_rpc.connection import AM_PROTOCOL
from hadoop_rpc.errors import LoginRefusedError, RemoteProtocolError
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import RemoteCallError
from quicksilver_lab.bench.emulator.masters.links import Address, MasterLink, Outcome

AGAIN_S: Final = 1.0
MOST_DIALS: Final = 60
"""So often in a row a broken connection is replaced, each time after AGAIN_S, before the job is given up."""
_SETUP_CALL_ID: Final = 0x7FFF0000
"""Call ids of all but heartbeats, whose call ids are their response ids."""
_NOT_REGISTERED: Final = "ApplicationMasterNotRegisteredException"

_M = TypeVar("_M", bound=Message)


@dataclass(slots=True, eq=False, kw_only=True)
class MasterLife:
    """What each master that lives has, whatever it runs."""

    wake: asyncio.Future[None] | None = None
    tokens: dict[Address, TokenProto] = field(default_factory=dict)
    """NMTokens, by node."""
    nodes: set[Address] = field(default_factory=set)
    """Those that it has a connection to."""
    containers: list[str] = field(default_factory=list)
    """All that were given to it."""

    def rouse(self) -> None:
        """End its wait."""
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait for some seconds, or until `rouse` is called."""
        loop = asyncio.get_running_loop()
        self.wake = loop.create_future()
        timer = loop.call_later(seconds, self.rouse)
        try:
            await self.wake
        finally:
            timer.cancel()


class MasterSession:
    """One attempt. Methods raise RemoteCallError, LoginRefusedError, RemoteProtocolError; OSError after MOST_DIALS."""

    def __init__(self, address: Address, token: TokenProto) -> None:
        """Prepare; the first call dials. token: the AMRMToken."""
        self.response_id = 0
        self.resyncs = self.reconnects = 0
        self._address, self._token = address, token
        self._link: MasterLink | None = None
        self._setup_id = _SETUP_CALL_ID

    async def register(self) -> None:
        """Register with the ResourceManager."""
        request = y.RegisterApplicationMasterRequestProto(host="localhost", rpc_port=0, tracking_url="")
        await self._setup("registerApplicationMaster", request, y.RegisterApplicationMasterResponseProto)
        self.response_id = 0

    async def allocate(self, request: y.AllocateRequestProto | None) -> y.AllocateResponseProto | None:
        """Send one heartbeat, an empty one without `request`; None: forgotten, and registered again.

        What is lost on its way is sent again under the same response id: the ResourceManager then repeats its answer.
        """
        try:
            if request is not None:
                request.response_id = self.response_id
            answer = await self._ask("allocate", request, self.response_id, y.AllocateResponseProto)
        except RemoteCallError as error:
            if _NOT_REGISTERED not in error.exception_class:
                raise
            self.resyncs += 1
            await self.register()
            return None
        self.response_id = answer.response_id
        if answer.HasField("am_rm_token"):
            self._token = answer.am_rm_token
        return answer

    async def unregister(self, failed: str, poll_s: float) -> None:
        """End the application; failed: why the job failed, "" when it did not."""
        request = y.FinishApplicationMasterRequestProto(
            final_application_status=y.APP_FAILED if failed else y.APP_SUCCEEDED, diagnostics=failed, tracking_url=""
        )
        method = "finishApplicationMaster"
        answer = await self._setup(method, request, y.FinishApplicationMasterResponseProto)
        while not answer.isUnregistered:
            await asyncio.sleep(poll_s)
            answer = await self._setup(method, request, y.FinishApplicationMasterResponseProto)

    def close(self) -> None:
        """Hang up."""
        if self._link is not None:
            self._link.close()

    async def _setup(self, method: str, request: Message, result: type[_M]) -> _M:
        self._setup_id += 1
        return await self._ask(method, request, self._setup_id, result)

    async def _ask(self, method: str, request: Message | None, call_id: int, result: type[_M]) -> _M:
        """Make a call, on a new connection where the old one breaks, and return its answer."""
        for retries in reversed(range(MOST_DIALS)):
            outcome = await self._once(method, request, call_id)
            if isinstance(outcome, bytes):
                try:
                    return result.FromString(outcome)
                except DecodeError as error:
                    raise RemoteProtocolError(f"the answer to {method} is none: {error}") from error
            if isinstance(outcome, (RemoteCallError, LoginRefusedError)) or not retries:
                raise outcome
            self.reconnects += 1
            await asyncio.sleep(AGAIN_S)
        raise AssertionError("unreachable: the last dial raises")

    async def _once(self, method: str, request: Message | None, call_id: int) -> Outcome:
        loop = asyncio.get_running_loop()
        if self._link is None or self._link.lost is not None:
            self._link = MasterLink(AM_PROTOCOL, self._token)
            await self._link.dial(self._address)
        answered: asyncio.Future[Outcome] = loop.create_future()

        def take(outcome: Outcome) -> None:
            if not answered.done():
                answered.set_result(outcome)

        if request is None:
            self._link.beat(call_id, take)
        else:
            self._link.call(method, request, take, call_id)
        return await answered
