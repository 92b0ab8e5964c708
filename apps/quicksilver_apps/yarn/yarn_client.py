"""Asyncio clients for our own tools: submit unmanaged applications to a ResourceManager and speak as their masters."""

import asyncio
import base64
import getpass
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

from google.protobuf.message import DecodeError, Message

from hadoop_rpc.connection import (
    AM_PROTOCOL,
    CLIENT_PROTOCOL,
    NM_PROTOCOL,
    ClientConnection,
    ClientEvent,
    Failure,
    Response,
)
from hadoop_rpc.errors import HadoopRpcError, RemoteProtocolError
from hadoop_rpc.kerberos_login import GssContext, KerberosLogin
from hadoop_rpc.login import TokenLogin
from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from hadoop_rpc.protos import yarn_pb2
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.token_storage import token_fields

__all__ = ["AmClient", "ContainerRefusedError", "NmClient", "RemoteCallError", "RmClient", "RpcClient", "token_of_url"]

_M = TypeVar("_M", bound=Message)
_READ_BYTES = 256 * 1024
_FAILED_STATES = (client_pb2.FINISHED, client_pb2.FAILED, client_pb2.KILLED)


class RemoteCallError(HadoopRpcError):
    """The server answered a call with a Java exception."""

    def __init__(self, method: str, failure: Failure) -> None:
        super().__init__(method, failure)
        self.method = method
        self.exception_class = failure.exception_class
        self.text = failure.text

    def __str__(self) -> str:
        first_line = self.text.partition("\n")[0]
        return f"{self.method} failed with {self.exception_class}: {first_line}"


class ContainerRefusedError(HadoopRpcError):
    """A NodeManager did not do with a container what it was asked; `text` is its reason."""

    def __init__(self, container_id: yarn_pb2.ContainerIdProto, text: str) -> None:
        super().__init__(container_id, text)
        self.container_id = container_id
        self.text = text

    def __str__(self) -> str:
        first_line = self.text.partition("\n")[0]
        return f"container {self.container_id.id}: {first_line}"


class RpcClient:
    """One connection that carries one call at a time; use it with `async with`.

    host, port: where to dial. protocol: the name of the protocol to talk. user, token or kerberos: who we are, exactly
    one; kerberos begins a handshake with a service, and what it raises comes out of `connect`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        protocol: str,
        *,
        user: str | None = None,
        token: TokenProto | None = None,
        kerberos: Callable[[str], GssContext] | None = None,
    ) -> None:
        self._address = (host, port)
        self._protocol = protocol
        self._connection = ClientConnection()
        self._login: TokenLogin | KerberosLogin = (
            TokenLogin(self._connection, protocol, user=user, token=token)
            if kerberos is None
            else KerberosLogin(self._connection, protocol, kerberos)
        )
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Dial and log in. Raises OSError, LoginRefusedError or RemoteProtocolError."""
        self._reader, self._writer = await asyncio.open_connection(*self._address)
        try:
            self._writer.write(self._login.start())
            while not self._login.done:
                for event in await self._events():
                    self._writer.write(self._login.handle(event))
        except BaseException:
            await self.close()
            raise
        finally:
            if isinstance(self._login, KerberosLogin):
                self._login.close()

    async def close(self) -> None:
        """Hang up; harmless when it is already closed."""
        writer, self._writer, self._reader = self._writer, None, None
        if writer is not None:
            writer.close()
            try:
                await writer.wait_closed()
            except ConnectionError:
                return  # the peer hung up first, which is what we wanted

    async def call(self, method: str, parameter: Message, result: type[_M]) -> _M:
        """Send one request and return its answer.

        Raises RemoteCallError when the server answers with an exception, RemoteProtocolError when it breaks off.
        """
        if self._writer is None:
            raise ConnectionError(f"not connected to {self._address[0]}:{self._address[1]}; connect first")
        call_id = self._connection.next_call_id()
        self._writer.write(self._connection.call(method, self._protocol, parameter, call_id=call_id))
        while True:
            for event in await self._events():
                if isinstance(event, Failure) and (event.call_id == call_id or event.fatal):
                    raise RemoteCallError(method, event)
                if isinstance(event, Response) and event.call_id == call_id:
                    return _parsed(method, result, event.body)

    async def _events(self) -> list[ClientEvent]:
        if self._reader is None:
            raise ConnectionError(f"not connected to {self._address[0]}:{self._address[1]}; connect first")
        data = await self._reader.read(_READ_BYTES)
        if not data:
            raise ConnectionResetError(f"{self._address[0]}:{self._address[1]} closed the connection")
        return self._connection.receive_data(data)


def _parsed(method: str, result: type[_M], body: bytes) -> _M:
    try:
        return result.FromString(body)
    except DecodeError as error:
        raise RemoteProtocolError(f"the answer to {method} is no {result.DESCRIPTOR.full_name}: {error}") from error


class RmClient(RpcClient):
    """A client of the ResourceManager's application service (port 8032 by default).

    Logged in by name alone; on a secure cluster with a delegation token, or by Kerberos.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8032,
        *,
        user: str | None = None,
        token: TokenProto | None = None,
        kerberos: Callable[[str], GssContext] | None = None,
    ) -> None:
        name = None if token or kerberos else user or getpass.getuser()
        super().__init__(host, port, CLIENT_PROTOCOL, user=name, token=token, kerberos=kerberos)

    async def new_application(self) -> client_pb2.GetNewApplicationResponseProto:
        """Return a fresh application id and the largest container that the cluster grants."""
        request = client_pb2.GetNewApplicationRequestProto()
        return await self.call("getNewApplication", request, client_pb2.GetNewApplicationResponseProto)

    async def submit_unmanaged(
        self, *, name: str = "unmanaged", queue: str = "default", app_type: str = "YARN", tags: tuple[str, ...] = ()
    ) -> yarn_pb2.ApplicationIdProto:
        """Submit an application whose master is not started by YARN; return its id."""
        app_id = (await self.new_application()).application_id
        context = client_pb2.ApplicationSubmissionContextProto(
            application_id=app_id,
            application_name=name,
            queue=queue,
            unmanaged_am=True,
            maxAppAttempts=1,
            applicationType=app_type,
            applicationTags=tags,
            priority=yarn_pb2.PriorityProto(priority=0),
            resource=yarn_pb2.ResourceProto(memory=1, virtual_cores=1),
            am_container_spec=yarn_pb2.ContainerLaunchContextProto(),
        )
        request = client_pb2.SubmitApplicationRequestProto(application_submission_context=context)
        await self.call("submitApplication", request, client_pb2.SubmitApplicationResponseProto)
        return app_id

    async def report(self, app_id: yarn_pb2.ApplicationIdProto) -> client_pb2.ApplicationReportProto:
        """Return the RM's report of an application."""
        request = client_pb2.GetApplicationReportRequestProto(application_id=app_id)
        answer = await self.call("getApplicationReport", request, client_pb2.GetApplicationReportResponseProto)
        return answer.application_report

    async def attempt_report(
        self, attempt: yarn_pb2.ApplicationAttemptIdProto
    ) -> client_pb2.ApplicationAttemptReportProto:
        """Return the RM's report of an attempt; it names the container of the master."""
        request = client_pb2.GetApplicationAttemptReportRequestProto(application_attempt_id=attempt)
        answer = client_pb2.GetApplicationAttemptReportResponseProto
        return (await self.call("getApplicationAttemptReport", request, answer)).application_attempt_report

    async def container_report(self, container: yarn_pb2.ContainerIdProto) -> client_pb2.ContainerReportProto:
        """Return the RM's report of a container that runs; it names the node."""
        request = client_pb2.GetContainerReportRequestProto(container_id=container)
        answer = client_pb2.GetContainerReportResponseProto
        return (await self.call("getContainerReport", request, answer)).container_report

    async def nodes(self) -> list[yarn_pb2.NodeReportProto]:
        """Return the RM's reports of all nodes."""
        request = client_pb2.GetClusterNodesRequestProto()
        answer = await self.call("getClusterNodes", request, client_pb2.GetClusterNodesResponseProto)
        return list(answer.nodeReports)

    async def am_rm_token(self, app_id: yarn_pb2.ApplicationIdProto, *, timeout_s: float = 30.0) -> TokenProto:
        """Wait until the application is accepted; return the token that its master logs in with.

        Raises RuntimeError when the application ends first, TimeoutError after `timeout_s` seconds.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                report = await self.report(app_id)
                if report.HasField("am_rm_token"):
                    return report.am_rm_token
                if report.yarn_application_state in _FAILED_STATES:
                    state = client_pb2.YarnApplicationStateProto.Name(report.yarn_application_state)
                    raise RuntimeError(f"application {app_id.id} ended as {state}: {report.diagnostics}")
                await asyncio.sleep(0.1)

    async def kill(self, app_id: yarn_pb2.ApplicationIdProto, *, diagnostics: str = "") -> bool:
        """Ask the RM to kill an application; return whether it is already dead."""
        request = client_pb2.KillApplicationRequestProto(application_id=app_id, diagnostics=diagnostics)
        answer = await self.call("forceKillApplication", request, client_pb2.KillApplicationResponseProto)
        return answer.is_kill_completed


class AmClient(RpcClient):
    """An application master's connection to the ResourceManager's scheduler (port 8030 by default), or to a proxy.

    token: the AMRMToken, as `RmClient.am_rm_token` returns it. `response_id` follows the RM's.
    """

    def __init__(self, host: str, port: int, token: TokenProto) -> None:
        super().__init__(host, port, AM_PROTOCOL, token=token)
        self.token = token
        self.response_id = 0

    async def register(
        self, *, host: str = "localhost", rpc_port: int = 0, tracking_url: str = ""
    ) -> yarn_pb2.RegisterApplicationMasterResponseProto:
        """Register this master with the RM."""
        request = yarn_pb2.RegisterApplicationMasterRequestProto(
            host=host, rpc_port=rpc_port, tracking_url=tracking_url
        )
        response = await self.call(
            "registerApplicationMaster", request, yarn_pb2.RegisterApplicationMasterResponseProto
        )
        self.response_id = 0
        return response

    async def allocate(self, request: yarn_pb2.AllocateRequestProto | None = None) -> yarn_pb2.AllocateResponseProto:
        """Send one heartbeat, under this client's response id; without `request` an empty one."""
        if request is None:
            request = yarn_pb2.AllocateRequestProto(progress=0.0)
        request.response_id = self.response_id
        response = await self.call("allocate", request, yarn_pb2.AllocateResponseProto)
        self.response_id = response.response_id
        return response

    async def finish(
        self,
        status: yarn_pb2.FinalApplicationStatusProto.ValueType = yarn_pb2.APP_SUCCEEDED,
        *,
        diagnostics: str = "",
    ) -> yarn_pb2.FinishApplicationMasterResponseProto:
        """Tell the RM that this master is done; ask again until the answer says `isUnregistered`."""
        request = yarn_pb2.FinishApplicationMasterRequestProto(
            final_application_status=status, diagnostics=diagnostics, tracking_url=""
        )
        return await self.call("finishApplicationMaster", request, yarn_pb2.FinishApplicationMasterResponseProto)


class NmClient(RpcClient):
    """An application master's connection to a NodeManager, or to the sidecar before it.

    token: the NMToken of that node, as an allocate answer brings it once per node and attempt.
    """

    def __init__(self, host: str, port: int, token: TokenProto) -> None:
        super().__init__(host, port, NM_PROTOCOL, token=token)

    async def start(
        self, container: yarn_pb2.ContainerProto, command: str | yarn_pb2.ContainerLaunchContextProto
    ) -> None:
        """Have a granted container run a shell command, or what a launch context says. Raises ContainerRefusedError."""
        if isinstance(command, str):
            command = yarn_pb2.ContainerLaunchContextProto(command=[command])
        request = yarn_pb2.StartContainersRequestProto()
        request.start_container_request.add(container_token=container.container_token, container_launch_context=command)
        answer = await self.call("startContainers", request, yarn_pb2.StartContainersResponseProto)
        _check(answer.failed_requests)

    async def stop(self, container_id: yarn_pb2.ContainerIdProto) -> None:
        """Have a container killed. Raises ContainerRefusedError when the NodeManager does not know it."""
        request = yarn_pb2.StopContainersRequestProto(container_id=[container_id])
        answer = await self.call("stopContainers", request, yarn_pb2.StopContainersResponseProto)
        _check(answer.failed_requests)

    async def status(self, container_id: yarn_pb2.ContainerIdProto) -> yarn_pb2.ContainerStatusProto:
        """Return the state of a container. Raises ContainerRefusedError when the NodeManager does not know it."""
        request = yarn_pb2.GetContainerStatusesRequestProto(container_id=[container_id])
        answer = await self.call("getContainerStatuses", request, yarn_pb2.GetContainerStatusesResponseProto)
        _check(answer.failed_requests)
        return answer.status[0]


def token_of_url(text: str) -> TokenProto:
    """Return a token that Hadoop's REST gave (`Token.encodeToUrlString`). Raises ValueError when it is none."""
    return token_fields(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))[0]


def _check(failed: Iterable[yarn_pb2.ContainerExceptionMapProto]) -> None:
    for refusal in failed:
        raise ContainerRefusedError(refusal.container_id, refusal.exception.message or refusal.exception.class_name)
