"""Calls at the active ResourceManager: dialed again, at the next one, when a connection breaks."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self, TypeVar

from hadoop_rpc.errors import LocalProtocolError, LoginRefusedError, RemoteProtocolError
from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from hadoop_rpc.protos.yarn_pb2 import ApplicationIdProto
from quicksilver.common.address import Address
from quicksilver.common.kerberos.gssapi import KerberosError
from quicksilver_apps.client.errors import ClientError, SubmissionRefusedError
from quicksilver_apps.client.login import TICKETS
from quicksilver_apps.yarn.yarn_client import RemoteCallError, RmClient

CALL_S: Final = 60.0
"""How long one call may take."""
_PAUSE_S: Final = 0.5
_ELSEWHERE: Final = ("StandbyException", "RetriableException")
_CLASSES: Final = re.compile(r"^(?:(?:[a-z]\w*\.)+[A-Z]\w*: )+")
_T = TypeVar("_T")
Dial = Callable[[Address], RmClient]
END_STATES: Final = (client_pb2.FINISHED, client_pb2.FAILED, client_pb2.KILLED)
_ON_THE_WAY: Final = (client_pb2.NEW, client_pb2.NEW_SAVING, client_pb2.SUBMITTED)


class Rm:
    """One connection to whichever ResourceManager is active; use it with `async with`, one call at a time."""

    def __init__(self, addresses: Sequence[Address], dial: Dial, patience_s: float = 30.0) -> None:
        """dial: makes a client that is not connected yet. patience_s: how long all may be away before a call fails."""
        self._addresses, self._dial, self._patience_s = list(addresses), dial, patience_s
        self._client: RmClient | None = None
        self.address = self._addresses[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up."""
        await self._hang_up()

    async def call(self, do: Callable[[RmClient], Awaitable[_T]]) -> _T:
        """Return what `do` returns; it is done again after a broken connection, so it has to be harmless twice.

        Raises RemoteCallError when the ResourceManager refuses, ClientError when none answers or the login fails.
        """
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                async with asyncio.timeout(CALL_S):
                    return await do(await self._connected())
            except LoginRefusedError as error:
                await self._hang_up()
                remedy = "run this as a user whom the cluster knows"
                raise ClientError(str(error), place=str(self.address), remedy=remedy) from error
            except KerberosError as error:
                await self._hang_up()
                raise ClientError(f"no Kerberos login: {error}", place=str(self.address), remedy=TICKETS) from error
            except LocalProtocolError as error:
                await self._hang_up()
                remedy = "change it in core-site.xml of the ResourceManager"
                raise ClientError(str(error), place=str(self.address), remedy=remedy) from error
            except RemoteCallError as error:
                if not error.exception_class.endswith(_ELSEWHERE):
                    raise
                why: Exception = error
            except (OSError, TimeoutError, RemoteProtocolError) as error:
                why = error
            await self._hang_up()
            if time.monotonic() >= deadline:
                raise self._away(why) from why
            self._addresses.append(self._addresses.pop(0))
            await asyncio.sleep(_PAUSE_S / len(self._addresses))

    async def new_id(self) -> ApplicationIdProto:
        """Return a fresh application id. Raises ClientError."""
        return (await self.call(RmClient.new_application)).application_id

    async def submit(self, context: client_pb2.ApplicationSubmissionContextProto) -> None:
        """Submit an application; sent twice it is still one. Raises SubmissionRefusedError, ClientError."""
        request = client_pb2.SubmitApplicationRequestProto(application_submission_context=context)
        answer = client_pb2.SubmitApplicationResponseProto
        try:
            await self.call(lambda rm: rm.call("submitApplication", request, answer))
        except RemoteCallError as error:
            raise SubmissionRefusedError(_reason(error), place=str(self.address)) from error

    async def report(self, app_id: ApplicationIdProto) -> client_pb2.ApplicationReportProto:
        """Return the report of an application. Raises ClientError."""
        try:
            return await self.call(lambda rm: rm.report(app_id))
        except RemoteCallError as error:
            remedy = "`yarn application -list -appStates ALL` has those that the ResourceManager remembers"
            raise ClientError(_reason(error), place=str(self.address), remedy=remedy) from error

    async def node_addresses(self) -> frozenset[str]:
        """Return `host:port` of the web server of each NodeManager that YARN knows. Raises ClientError."""
        try:
            return frozenset(node.httpAddress for node in await self.call(RmClient.nodes))
        except RemoteCallError as error:
            raise ClientError(_reason(error), place=str(self.address), remedy="may this user list nodes?") from error

    async def accepted(self, app_id: ApplicationIdProto) -> client_pb2.ApplicationReportProto:
        """Wait until the scheduler has taken an application, which submitting alone does not say; return its report.

        Raises SubmissionRefusedError with the scheduler's reason, ClientError.
        """
        pause_s = 0.02
        while True:
            report = await self.report(app_id)
            state = report.yarn_application_state
            if state in (client_pb2.FAILED, client_pb2.KILLED):
                raise SubmissionRefusedError(one_line(report.diagnostics), place=str(self.address))
            if state not in _ON_THE_WAY:
                return report
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 1.0)

    async def kill(self, app_id: ApplicationIdProto, why: str, patience_s: float = 30.0) -> bool:
        """Have an application killed and wait for it; return whether it is dead by then. Raises ClientError."""
        deadline = time.monotonic() + patience_s
        try:
            while not await self.call(lambda rm: rm.kill(app_id, diagnostics=why)):
                if time.monotonic() >= deadline:
                    return False
                await asyncio.sleep(0.2)
        except RemoteCallError as error:
            remedy = "ask the user who submitted it, or an administrator of its queue"
            raise ClientError(_reason(error), place=str(self.address), remedy=remedy) from error
        return True

    async def _connected(self) -> RmClient:
        if self._client is None:
            self.address = self._addresses[0]
            client = self._dial(self.address)
            await client.connect()
            self._client = client
        return self._client

    async def _hang_up(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _away(self, why: Exception) -> ClientError:
        names = ", ".join(map(str, self._addresses))
        text = f"no answer within {CALL_S:g} s" if isinstance(why, TimeoutError) else str(why)
        remedy = "start it, or name the cluster's site files with --conf-dir or $HADOOP_CONF_DIR"
        return ClientError(f"no ResourceManager answers ({text})", place=names, remedy=remedy)


def one_line(text: str) -> str:
    """Return the first line of what Hadoop says, without its class names before and its stack below."""
    first = text.strip().partition("\n")[0]
    return _CLASSES.sub("", first).strip() or "no reason was given"


def _reason(error: RemoteCallError) -> str:
    return f"{error.exception_class.rpartition('.')[2]}: {one_line(error.text)}"


def name_of(app_id: ApplicationIdProto) -> str:
    """Return an application id as Hadoop writes it."""
    return f"application_{app_id.cluster_timestamp}_{app_id.id:04d}"


def id_of(name: str) -> ApplicationIdProto:
    """Return the id that Hadoop writes as `name`, which is checked already (`records.checked_id`)."""
    _, stamp, number = name.split("_")
    return ApplicationIdProto(cluster_timestamp=int(stamp), id=int(number))
