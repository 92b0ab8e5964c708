"""The master's calls to NodeManagers, or to the sidecars before them."""

from __future__ import annotations

import asyncio
from typing import Final

from hadoop_rpc.errors import HadoopRpcError
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import ContainerRefusedError, NmClient, RemoteCallError

CALLS: Final = 32
"""Calls at a time, each on a connection of its own."""
CALL_S: Final = 60.0
TRIES: Final = 4
AGAIN_S: Final = 2.0
_STARTED: Final = ("Attempt to relaunch the same container", "already is running", "already running")


class Nodes:
    """All NodeManagers on which the application has containers."""

    def __init__(self) -> None:
        """Begin without tokens."""
        self._tokens: dict[tuple[str, int], TokenProto] = {}
        self._room = asyncio.Semaphore(CALLS)

    def learn(self, token: y.NMTokenProto) -> None:
        """Store the token of a node, which the ResourceManager sends once per node and attempt."""
        self._tokens[token.nodeId.host, token.nodeId.port] = token.token

    async def start(self, container: y.ContainerProto, context: y.ContainerLaunchContextProto) -> str:
        """Start a container; return "" or why it was not started."""
        return await self._call(container, context)

    async def stop(self, container: y.ContainerProto) -> str:
        """Have a container killed; return "" or why it was not."""
        return await self._call(container, None)

    async def _call(self, container: y.ContainerProto, context: y.ContainerLaunchContextProto | None) -> str:
        node = (container.nodeId.host, container.nodeId.port)
        token = self._tokens.get(node)
        if token is None:
            return f"there is no token for node {node[0]}:{node[1]}"
        trouble = ""
        for number in range(TRIES):
            if number:
                await asyncio.sleep(AGAIN_S)
            try:
                async with self._room, asyncio.timeout(CALL_S), NmClient(*node, token) as client:
                    if context is None:
                        await client.stop(container.id)
                    else:
                        await client.start(container, context)
                return ""
            except ContainerRefusedError as error:
                started = context is not None and number and any(text in error.text for text in _STARTED)
                return "" if started else str(error)
            except RemoteCallError as error:
                return str(error)
            except (OSError, HadoopRpcError) as error:
                trouble = f"node {node[0]}:{node[1]}: {type(error).__name__}: {error}"
        return trouble
