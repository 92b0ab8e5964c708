"""An application master that only collects containers, so that a test can start them as it likes, forged for one."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import AmClient, NmClient
from quicksilver_lab.bench.las.master import APP_TYPE, container_name, rows, title
from quicksilver_lab.cluster import Cluster
from tests.real.requester import rm_client

_HEARTBEAT_S = 0.2
_SETUP_S = 1.0
_WITHIN_S = 120.0


class Holder:
    """One application; `beat` sends one heartbeat and takes in what it brings."""

    def __init__(self, am: AmClient, token: TokenProto) -> None:
        self.am, self.token = am, token
        self.containers: list[y.ContainerProto] = []
        self.nm_tokens: dict[tuple[str, int], TokenProto] = {}
        self.ended: dict[str, y.ContainerStatusProto] = {}
        self.fresh_token: TokenProto | None = None
        """The AMRMToken that the ResourceManager gave in place of the first one."""

    async def beat(self, *asks: y.ResourceRequestProto) -> None:
        answer = await self.am.allocate(y.AllocateRequestProto(progress=0.5, ask=asks))
        self.containers += answer.allocated_containers
        for one in answer.nm_tokens:
            self.nm_tokens[one.nodeId.host, one.nodeId.port] = one.token
        for status in answer.completed_container_statuses:
            self.ended[container_name(status.container_id)] = status
        if answer.HasField("am_rm_token"):
            self.fresh_token = answer.am_rm_token

    async def until(self, true: Callable[[], bool], within_s: float = _WITHIN_S) -> None:
        """Send heartbeats until this is so."""
        end_s = time.monotonic() + within_s
        while not true():
            assert time.monotonic() < end_s, f"not within {within_s:g} s"
            async with asyncio.timeout(within_s):
                await self.beat()
            await asyncio.sleep(_HEARTBEAT_S)

    async def granted(self, count: int, hosts: tuple[str, ...] = ()) -> list[y.ContainerProto]:
        """Ask for containers and return them; none of them is started."""
        before = len(self.containers)
        await self.beat(*rows(20, count, hosts, opportunistic=False))
        await self.until(lambda: len(self.containers) >= before + count)
        return self.containers[before:]

    def node(self, container: y.ContainerProto) -> NmClient:
        """Return a client of the container's node, under this application's own token."""
        address = container.nodeId.host, container.nodeId.port
        return NmClient(*address, self.nm_tokens[address])

    async def finished(self, container: y.ContainerProto) -> y.ContainerStatusProto:
        """Return how a container ended."""
        name = container_name(container.id)
        await self.until(lambda: name in self.ended)
        return self.ended[name]

    def secrets(self) -> list[bytes]:
        """Return what must be nowhere: the passwords of all tokens that this application has seen."""
        tokens = [self.token, *self.nm_tokens.values(), *([self.fresh_token] if self.fresh_token else [])]
        return [t.password for t in tokens] + [c.container_token.password for c in self.containers]


def written(secret: bytes) -> set[bytes]:
    """Return the forms in which a secret may be written: raw, base64 of both kinds without its end, hexadecimal."""
    forms = (base64.b64encode(secret).rstrip(b"="), base64.urlsafe_b64encode(secret).rstrip(b"="))
    return {secret, secret.hex().encode(), *forms}


@asynccontextmanager
async def holder(cluster: Cluster, name: str) -> AsyncIterator[Holder]:
    """Run an application for the time of a with block."""
    async with asyncio.timeout(_WITHIN_S), rm_client(cluster) as rm:
        app_id = await rm.submit_unmanaged(name=title(name), app_type=APP_TYPE)
        token = await rm.am_rm_token(app_id, timeout_s=60)
    async with AmClient(*cluster.spec.scheduler, token) as am:
        async with asyncio.timeout(_WITHIN_S):
            await am.register()
        made = Holder(am, token)
        try:
            await made.beat()
            await asyncio.sleep(_SETUP_S)
            yield made
        finally:
            async with asyncio.timeout(_WITHIN_S), rm_client(cluster) as rm:
                await rm.kill(app_id, diagnostics="the test is over")
