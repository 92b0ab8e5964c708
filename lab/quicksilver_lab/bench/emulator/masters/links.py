"""Cheap Hadoop RPC connections for thousands of masters: no streams, no task per call, answers to callbacks."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Final, cast

from google.protobuf.message import DecodeError, Message

from hadoop_rpc.connection import NM_PROTOCOL, ClientConnection, ClientEvent, Failure, Response
from hadoop_rpc.errors import HadoopRpcError
from hadoop_rpc.login import TokenLogin
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import RemoteCallError
from quicksilver_lab.bench.load.heartbeat import beat

BROKEN: Final = (OSError, HadoopRpcError)
"""What may go wrong with a connection, a login or a call."""

Outcome = bytes | Exception
"""The body of an answer, or why there is none."""
Answered = Callable[[Outcome], None]
Address = tuple[str, int]


class MasterLink(asyncio.Protocol):
    """One connection that logs in with a token. Calls may be made at once; they go out when the login is done."""

    def __init__(self, protocol: str, token: TokenProto, closed: Callable[[], None] | None = None) -> None:
        """Prepare. closed: called when the connection is gone, after the last answer."""
        self.lost: Exception | None = None
        self._protocol = protocol
        self._connection = ClientConnection()
        self._login = TokenLogin(self._connection, protocol, token=token)
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._waiting: dict[int, tuple[str, Answered]] = {}
        self._closed = closed

    @property
    def idle(self) -> bool:
        """Whether no answer is awaited."""
        return not self._waiting

    async def dial(self, address: Address) -> None:
        """Connect; an error goes to the calls, and is then in `lost`."""
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, *address)
        except OSError as error:
            self._fail(error)

    def call(self, method: str, parameter: Message, answered: Answered, call_id: int | None = None) -> None:
        """Make a call; `answered` is called once, at once when the connection is gone."""
        if call_id is None:
            call_id = self._connection.next_call_id()
        frame = self._connection.call(method, self._protocol, parameter, call_id=call_id)
        self._send(call_id, method, frame, answered)

    def beat(self, response_id: int, answered: Answered) -> None:
        """Send an empty heartbeat."""
        ready = beat(response_id)
        frame = ready.head + self._connection.client_id + ready.tail
        self._send(response_id, "allocate", frame, answered)

    def close(self) -> None:
        """Hang up; calls without an answer fail."""
        self._fail(ConnectionResetError("hung up"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the login."""
        self._transport = cast(asyncio.Transport, transport)
        if self.lost is not None:
            self._transport.close()
            return
        self._transport.write(self._login.start())

    def data_received(self, data: bytes) -> None:
        """Take answers."""
        try:
            for event in self._connection.receive_data(data):
                self._take(event)
        except (HadoopRpcError, DecodeError) as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the other side hung up."""
        self._fail(exc or ConnectionResetError("the connection was closed"))

    def _send(self, call_id: int, method: str, frame: bytes, answered: Answered) -> None:
        if self.lost is not None:
            answered(self.lost)
            return
        self._waiting[call_id] = (method, answered)
        if self._login.done and self._transport is not None:
            self._transport.write(frame)
        else:
            self._early.append(frame)

    def _take(self, event: ClientEvent) -> None:
        if not self._login.done:
            assert self._transport is not None
            reply = self._login.handle(event)
            if self._login.done:
                reply += b"".join(self._early)
                self._early.clear()
            self._transport.write(reply)
        elif isinstance(event, Response):
            waits = self._waiting.pop(event.call_id, None)
            if waits is not None:
                waits[1](event.body)
        elif isinstance(event, Failure):
            waits = self._waiting.pop(event.call_id, None)
            if waits is not None:
                waits[1](RemoteCallError(waits[0], event))

    def _fail(self, error: Exception) -> None:
        if self.lost is not None:
            return
        self.lost = error
        if self._transport is not None:
            self._transport.close()
        waiting, self._waiting = self._waiting, {}
        self._early.clear()
        for _, answered in waiting.values():
            answered(error)
        if self._closed is not None:
            self._closed()


class NodeLinks:
    """Masters' connections to nodes: one for each master and node; of many the least recently used are closed."""

    def __init__(self, most: int) -> None:
        """Begin without any. most: so many stay open at most, but those that await answers."""
        if most < 1:
            raise ValueError(f"most={most}: at least one connection is needed")
        self._most = most
        self._links: OrderedDict[tuple[int, Address], MasterLink] = OrderedDict()
        self._dialing: set[asyncio.Task[None]] = set()
        self.opened = self.evicted = 0

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._links)

    def start(
        self,
        master: int,
        token: TokenProto,
        container: y.ContainerProto,
        command: str,
        answered: Answered,
    ) -> None:
        """Have a container run a command. token: the master's NMToken of the container's node."""
        request = y.StartContainersRequestProto()
        entry = request.start_container_request.add(container_token=container.container_token)
        entry.container_launch_context.command.append(command)
        self._link(master, container.nodeId, token).call("startContainers", request, answered)

    def stop(self, master: int, token: TokenProto, container: y.ContainerProto, answered: Answered) -> None:
        """Have a container killed."""
        request = y.StopContainersRequestProto(container_id=[container.id])
        self._link(master, container.nodeId, token).call("stopContainers", request, answered)

    def drop(self, master: int, nodes: set[Address]) -> None:
        """Close a master's connections to these nodes."""
        for address in nodes:
            link = self._links.pop((master, address), None)
            if link is not None:
                link.close()

    async def close(self) -> None:
        """Close all."""
        for link in list(self._links.values()):
            link.close()
        self._links.clear()
        for task in self._dialing:
            task.cancel()
        await asyncio.gather(*self._dialing, return_exceptions=True)

    def _link(self, master: int, node: y.NodeIdProto, token: TokenProto) -> MasterLink:
        key = (master, (node.host, node.port))
        link = self._links.get(key)
        if link is not None and link.lost is None:
            self._links.move_to_end(key)
            return link
        link = self._links[key] = MasterLink(NM_PROTOCOL, token)
        self._links.move_to_end(key)
        self.opened += 1
        task = asyncio.get_running_loop().create_task(link.dial(key[1]))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)
        self._evict()
        return link

    def _evict(self) -> None:
        """Close what was not used for longest, as far as it is idle; looks at a few only, so that it stays cheap."""
        for key in list(islice(self._links, max(0, len(self._links) - self._most))):
            if self._links[key].idle:
                self.evicted += 1
                self._links.pop(key).close()
