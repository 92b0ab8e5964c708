"""A small application master for tests: asks for containers, starts commands in them, and notes how they end."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import shlex
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import requests

from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import AmClient, NmClient, RmClient, token_of_url
from quicksilver_lab.bench.las.jobs import LasScale
from quicksilver_lab.bench.las.master import APP_TYPE, USER, container_name, rows, title
from quicksilver_lab.cluster import Cluster

SCALE = LasScale(2, 0.02, 0.0, 0.0)
"""Two cores, a quantum of one second."""
MEMORY_MB = 256
_HEARTBEAT_S = 0.2
_START_S = 120.0
_CALL_S = 120.0
"""A call that nobody answers has no limit of its own."""
_SETUP_S = 1.0
"""From its registration to its first ask: the proxy finds out meanwhile whose it is, as with masters that set up."""


def python(script: str) -> str:
    """Return the shell command of a Python script."""
    return f"exec {shlex.join([sys.executable, '-S', '-E', '-I', '-c', script])}"


def burner(cpu_s: float) -> str:
    """Return the shell command of a process that burns so many CPU seconds."""
    return python(f"import time\nwhile time.process_time() < {cpu_s}: sum(range(1000))")


async def _until(true: Callable[[], bool], within_s: float) -> None:
    end_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end_s, f"not within {within_s:g} s"
        await asyncio.sleep(0.02)


class Requester:
    """One application; `containers` and `ended` may be looked at any time."""

    def __init__(self, am: AmClient) -> None:
        self.containers: dict[str, y.ContainerProto] = {}
        """That were started, in order."""
        self.ended: dict[str, y.ContainerStatusProto] = {}
        self._am = am
        self._commands: list[str | y.ContainerLaunchContextProto] = []
        self._asked = 0
        self._release: list[y.ContainerIdProto] = []
        self._tokens: dict[tuple[str, int], TokenProto] = {}

    async def run(self, *commands: str | y.ContainerLaunchContextProto) -> list[str]:
        """Have these commands run in containers of their own; return their ids when all were started."""
        before = len(self.containers)
        self._commands += commands
        await _until(lambda: len(self.containers) >= before + len(commands), _START_S)
        return list(self.containers)[before:]

    async def stop(self, container_id: str) -> None:
        """Stop a container at its NodeManager."""
        container = self.containers[container_id]
        async with self._node(container) as node:
            await node.stop(container.id)

    def release(self, container_id: str) -> None:
        """Give a container back to the ResourceManager."""
        self._release.append(self.containers[container_id].id)

    async def until_ended(self, *container_ids: str, within_s: float = 120.0) -> None:
        """Wait until the ResourceManager says that these are over."""
        await _until(lambda: set(container_ids) <= set(self.ended), within_s)

    async def beat(self) -> None:
        """Send heartbeats, until cancelled."""
        while True:
            await self._take(await self._am.allocate(self._request()))
            await asyncio.sleep(_HEARTBEAT_S)

    def _request(self) -> y.AllocateRequestProto:
        request = y.AllocateRequestProto(progress=0.5, release=self._release)
        self._release = []
        wanted = len(self._commands)
        if wanted != self._asked:
            request.ask.extend(rows(20, wanted, (), opportunistic=False))
            self._asked = wanted
        return request

    async def _take(self, answer: y.AllocateResponseProto) -> None:
        for token in answer.nm_tokens:
            self._tokens[token.nodeId.host, token.nodeId.port] = token.token
        for status in answer.completed_container_statuses:
            self.ended[container_name(status.container_id)] = status
        for container in answer.allocated_containers:
            self._asked = max(0, self._asked - 1)
            if not self._commands:
                self._release.append(container.id)
                continue
            async with self._node(container) as node:
                await node.start(container, self._commands.pop(0))
            self.containers[container_name(container.id)] = container

    def _node(self, container: y.ContainerProto) -> NmClient:
        address = container.nodeId.host, container.nodeId.port
        return NmClient(*address, self._tokens[address])


def rm_client(cluster: Cluster) -> RmClient:
    """Return a client of the ResourceManager; on a secure cluster (with spnego) by a delegation token of its REST.

    By doAs the token names the user without a realm: the ResourceManager gives the AMRMToken of an unmanaged master
    only to one whose whole name is the application's user (RMAppImpl.createAndGetApplicationReport).
    """
    spec = cluster.spec
    if not spec.kerberos:
        return RmClient(*spec.rm_client, user=USER)
    url = f"{cluster.rm_rest}/ws/v1/cluster/delegation-token"
    who = {"doAs": getpass.getuser()}
    answer = requests.post(url, params=who, json={"renewer": "yarn"}, auth=cluster.web_auth, timeout=30)
    answer.raise_for_status()
    return RmClient(*spec.rm_client, token=token_of_url(answer.json()["token"]))


@asynccontextmanager
async def requester(cluster: Cluster, name: str) -> AsyncIterator[Requester]:
    """Run an application for the time of a with block; what is left of its containers ends with it."""
    spec = cluster.spec
    async with asyncio.timeout(_CALL_S), rm_client(cluster) as rm:
        app_id = await rm.submit_unmanaged(name=title(name), app_type=APP_TYPE)
        token = await rm.am_rm_token(app_id, timeout_s=60)
    async with AmClient(*spec.scheduler, token) as am:
        async with asyncio.timeout(_CALL_S):
            await am.register()
        made = Requester(am)
        beating = asyncio.create_task(made.beat())
        try:
            await asyncio.sleep(_SETUP_S)
            yield made
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating  # raises what broke it
            async with asyncio.timeout(_CALL_S), rm_client(cluster) as rm:
                await rm.kill(app_id, diagnostics="the test is over")
