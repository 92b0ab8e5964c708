"""Unmanaged applications, submitted and killed over a few lasting connections per user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import RmClient
from quicksilver_lab.bench.emulator.masters.links import BROKEN, Address
from quicksilver_lab.bench.emulator.model import JobSpec
from rm_proxy.estimates.duration_tags import PREFIX

ADMIT_S: Final = 120.0
"""Time limit for the ResourceManager's acceptance of an application, seconds."""
_KILL_S: Final = 10.0
_CLIENTS: Final = 8
"""Connections per user."""
_POLL_S: Final = 0.1
_OVER: Final = (client_pb2.FINISHED, client_pb2.FAILED, client_pb2.KILLED)


class NotAdmittedError(Exception):
    """The ResourceManager did not let an application in."""


class MasterSubmitter:
    """Speaks to a ResourceManager's client service as whoever a job belongs to."""

    def __init__(self, rm: Address, app_type: str) -> None:
        """Prepare; connections are made when they are needed. app_type: type of the applications."""
        self._rm, self._app_type = rm, app_type
        self._free: dict[str, asyncio.Queue[RmClient | None]] = {}

    async def submit(self, job: JobSpec, tags: tuple[str, ...] = ()) -> y.ApplicationIdProto:
        """Submit a job's application and return its id; `tags` come before its own. Raises RemoteCallError, OSError."""
        if job.told_s is not None:
            tags = (*tags, f"{PREFIX}{job.told_s:.3f}")
        name = job.name or f"{job.klass}-{job.number}"
        async with self._client(job.user) as client:
            return await client.submit_unmanaged(name=name, queue=job.queue, app_type=self._app_type, tags=tags)

    async def token(self, job: JobSpec, app_id: y.ApplicationIdProto, timeout_s: float) -> TokenProto:
        """Wait until an application is let in; return its AMRMToken. Raises NotAdmittedError, TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while True:
                async with self._client(job.user) as client:
                    report = await client.report(app_id)
                if report.HasField("am_rm_token"):
                    return report.am_rm_token
                if report.yarn_application_state in _OVER:
                    raise NotAdmittedError(f"application {app_id.id} was not let in: {report.diagnostics.strip()}")
                await asyncio.sleep(_POLL_S)

    async def kill(self, job: JobSpec, app_id: y.ApplicationIdProto, why: str) -> None:
        """Have an application killed. Raises RemoteCallError, OSError."""
        async with self._client(job.user) as client:
            await client.kill(app_id, diagnostics=why)

    @asynccontextmanager
    async def admitted(
        self, job: JobSpec, note: Callable[[str], None], tags: tuple[str, ...] = ()
    ) -> AsyncIterator[TokenProto]:
        """Submit an application and yield its AMRMToken; when its master breaks off, it is killed.

        note: called with the reason where it is not. Raises RemoteCallError, OSError, NotAdmittedError, TimeoutError.
        """
        app_id = await self.submit(job, tags)
        finished = False
        try:
            yield await self.token(job, app_id, ADMIT_S)
            finished = True
        finally:
            if not finished:
                try:
                    async with asyncio.timeout(_KILL_S):
                        await self.kill(job, app_id, "its master broke off")
                except (*BROKEN, TimeoutError) as error:
                    note(f"not killed: {error}")

    async def close(self) -> None:
        """Hang up."""
        for free in self._free.values():
            while not free.empty():
                client = free.get_nowait()
                if client is not None:
                    await client.close()

    @asynccontextmanager
    async def _client(self, user: str) -> AsyncIterator[RmClient]:
        free = self._free.get(user)
        if free is None:
            free = self._free[user] = asyncio.Queue()
            for _ in range(_CLIENTS):
                free.put_nowait(None)
        client = await free.get()
        healthy_client = None
        try:
            if client is None:
                client = RmClient(*self._rm, user=user)
                await client.connect()
            yield client
            healthy_client = client
        except (*BROKEN, asyncio.CancelledError):
            if client is not None:
                await client.close()
            raise
        finally:
            free.put_nowait(healthy_client)
