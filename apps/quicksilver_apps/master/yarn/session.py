"""The master's conversation with the ResourceManager or a proxy: it reconnects, and registers again when forgotten."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from hadoop_rpc.errors import HadoopRpcError
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import AmClient, RemoteCallError

ANSWER_S: Final = 60.0
"""How long a call waits for its answer, before it is made again on a new connection."""
AGAIN_S: Final = 1.0
GIVE_UP_S: Final = 900.0
"""So long the ResourceManager may be away (yarn.resourcemanager.connect.max-wait.ms)."""
UNREGISTER_S: Final = 60.0
_NOT_REGISTERED: Final = "ApplicationMasterNotRegisteredException"
_REGISTERED: Final = "InvalidApplicationMasterRequestException"
_ELSEWHERE: Final = ("StandbyException", "ServerNotRunningYetException", "RetriableException")
_GONE: Final = "ApplicationAttemptNotFoundException"

_T = TypeVar("_T")


class AttemptGoneError(Exception):
    """The ResourceManager has ended this attempt."""


class RmSession:
    """One attempt at the scheduler. Methods raise AttemptGoneError, RemoteCallError, and OSError after GIVE_UP_S."""

    def __init__(self, addresses: Sequence[tuple[str, int]], token: TokenProto) -> None:
        """Prepare; the first call dials. addresses: of the schedulers, tried in turn. token: the AMRMToken."""
        self._addresses, self._token = list(addresses), token
        self._client: AmClient | None = None
        self._response_id = 0
        self._host, self._url = "", ""

    async def register(self, host: str, tracking_url: str) -> y.RegisterApplicationMasterResponseProto:
        """Register; what an attempt before it left is in the answer."""
        self._host, self._url = host, tracking_url
        try:
            answer = await self._ask(lambda rm: rm.register(host=host, rpc_port=0, tracking_url=tracking_url))
        except RemoteCallError as error:
            if _REGISTERED not in error.exception_class:
                raise
            answer = y.RegisterApplicationMasterResponseProto()  # the answer to an earlier try was lost
        self._response_id = 0
        return answer

    async def allocate(self, request: y.AllocateRequestProto) -> y.AllocateResponseProto | None:
        """Send one heartbeat; None: forgotten, and registered again, so that all has to be asked for again.

        What is lost on its way is sent again under the same response id: the ResourceManager then repeats its answer.
        """

        async def beat(rm: AmClient) -> y.AllocateResponseProto:
            rm.response_id = self._response_id
            return await rm.allocate(request)

        try:
            answer = await self._ask(beat)
        except RemoteCallError as error:
            if _NOT_REGISTERED not in error.exception_class:
                raise
            await self.register(self._host, self._url)
            return None
        self._response_id = answer.response_id
        if answer.HasField("am_rm_token"):
            self._token = answer.am_rm_token
        if answer.a_m_command == y.AM_SHUTDOWN and answer.HasField("a_m_command"):
            raise AttemptGoneError("the ResourceManager orders this attempt to shut down")
        return answer

    async def unregister(self, status: y.FinalApplicationStatusProto.ValueType, diagnostics: str) -> None:
        """End the application. Raises TimeoutError after UNREGISTER_S."""
        async with asyncio.timeout(UNREGISTER_S):
            while True:
                try:
                    answer = await self._ask(lambda rm: rm.finish(status, diagnostics=diagnostics))
                except RemoteCallError as error:
                    if _NOT_REGISTERED not in error.exception_class:
                        raise
                    await self.register(self._host, self._url)
                    continue
                if answer.isUnregistered:
                    return
                await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Hang up."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _ask(self, call: Callable[[AmClient], Awaitable[_T]]) -> _T:
        """Make a call, on new connections and to other addresses while it does not succeed."""
        until = time.monotonic() + GIVE_UP_S
        while True:
            try:
                async with asyncio.timeout(ANSWER_S):
                    return await call(await self._connected())
            except RemoteCallError as error:
                if _GONE in error.exception_class:
                    raise AttemptGoneError(str(error)) from error
                if not any(each in error.exception_class for each in _ELSEWHERE) or time.monotonic() > until:
                    raise
            except (OSError, HadoopRpcError) as error:
                if time.monotonic() > until:
                    raise OSError(f"no scheduler answered for {GIVE_UP_S:.0f} s: {error}") from error
            await self.close()
            self._addresses.append(self._addresses.pop(0))
            await asyncio.sleep(AGAIN_S)

    async def _connected(self) -> AmClient:
        if self._client is None:
            client = AmClient(*self._addresses[0], self._token)
            await client.connect()
            self._client = client
        return self._client
