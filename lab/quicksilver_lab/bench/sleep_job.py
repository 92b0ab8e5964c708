"""An application of tasks that sleep, asked for again when the system took them: for tests and figures of policies."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import AmClient, ContainerRefusedError, NmClient, RmClient
from quicksilver_lab.bench.las.master import APP_TYPE, USER, container_name, title, unregister
from quicksilver_lab.bench.las.workload import BenchError
from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.baseconf import container_logs
from quicksilver_lab.workloads.nm_log import Life, read_lives

MEMORY_MB = 256
_HEARTBEAT_S = 0.2
_SETUP_S = 1.2
"""From the registration to the first ask: the proxy finds out meanwhile whose it is, as with masters that set up."""
_STARTS, _RETRY_S = 40, 0.5
_CALL_S = 120.0
"""What begins or ends an application is done within it: a call that nobody answers has no limit of its own."""
_ENDED = "ended-tasks"
"""Folder beside the log folders of the nodes, which are emptied when an application is over: at its end, each task
makes a file with the id of its container there."""
SYSTEM = frozenset({-100, -102})
"""Exit codes by which the system says that it was not the task's fault."""


@dataclass(slots=True)
class SleepTask:
    """One task: its containers in order; the last one is the one that counts."""

    seconds: float
    priority: int = 20
    memory_mb: int = MEMORY_MB
    containers: list[str] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)
    done: bool = False


class SleepJob:
    """One application that runs sleeping tasks until all are done."""

    def __init__(self, am: AmClient, app_id: str) -> None:
        self.app_id = app_id
        self.tasks: list[SleepTask] = []
        self.errors: list[str] = []
        self.headroom_mb: int | None = None
        """As the last answer has it."""
        self._am = am
        self._waiting: dict[tuple[int, int], deque[SleepTask]] = {}
        self._ask_counts: dict[tuple[int, int], int] = {}
        self._hosts: dict[tuple[int, int], tuple[str, ...]] = {}
        self._strict: set[tuple[int, int]] = set()
        self._labels: dict[tuple[int, int], str] = {}
        self._types: dict[tuple[int, int], y.ExecutionTypeRequestProto] = {}
        self._running: dict[str, SleepTask] = {}
        self._release: list[y.ContainerIdProto] = []
        self._tokens: dict[tuple[str, int], TokenProto] = {}

    def ask(
        self,
        count: int,
        seconds: float,
        *,
        priority: int = 20,
        hosts: Sequence[str] = (),
        memory_mb: int = MEMORY_MB,
        strict: bool = False,
        opportunistic: bool = False,
        enforced: bool = False,
        label: str = "",
    ) -> list[SleepTask]:
        """Want so many more tasks; at first on `hosts` where there are any, later anywhere; strict: nowhere else.

        hosts: names of racks, which begin with a slash, among them; label: the node label of all rows.
        """
        tasks = [SleepTask(seconds, priority, memory_mb) for _ in range(count)]
        self.tasks += tasks
        key = priority, memory_mb
        self._hosts[key] = tuple(hosts)
        if strict:
            self._strict.add(key)
        self._labels[key] = label
        kind = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED
        self._types[key] = y.ExecutionTypeRequestProto(execution_type=kind, enforce_execution_type=enforced)
        self._waiting.setdefault(key, deque()).extend(tasks)
        return tasks

    async def until_done(self, tasks: Sequence[SleepTask] | None = None, within_s: float = 240.0) -> None:
        """Wait until all (or these) tasks are done."""
        await self.until(lambda: all(task.done for task in tasks or self.tasks), within_s)

    async def until_granted(self, tasks: Sequence[SleepTask], within_s: float = 120.0) -> None:
        """Wait until all of these have a container."""
        await self.until(lambda: all(task.containers for task in tasks), within_s)

    async def until(self, true: Callable[[], bool], within_s: float) -> None:
        """Wait for something that must come; raises BenchError when it does not."""
        end_s = time.monotonic() + within_s
        while not true():
            if time.monotonic() >= end_s:
                raise BenchError(f"not within {within_s:g} s: {self.errors or self.tasks}")
            await asyncio.sleep(0.02)

    def command(self, task: SleepTask) -> str:
        """Return what a task's container runs: it notes its own end (`all_lives`)."""
        note = f'cd "${{LOG_DIRS%%,*}}/../../.." && mkdir -p {_ENDED} && touch {_ENDED}/$CONTAINER_ID'
        return f"sleep {task.seconds:g}; {note}"

    async def beat(self) -> None:
        """Send heartbeats, until cancelled."""
        while True:
            await self._take(await self._am.allocate(self._request()))
            await asyncio.sleep(_HEARTBEAT_S)

    def _request(self) -> y.AllocateRequestProto:
        done = sum(task.done for task in self.tasks)
        request = y.AllocateRequestProto(progress=done / max(1, len(self.tasks)), release=self._release)
        self._release = []
        for key, waiting in self._waiting.items():
            if self._ask_counts.get(key, 0) != len(waiting):
                rows = _rows(key, len(waiting), self._hosts[key], key in self._strict)
                for row in rows:
                    if self._labels[key]:
                        row.node_label_expression = self._labels[key]
                    row.execution_type_request.CopyFrom(self._types[key])
                request.ask.extend(rows)
                self._ask_counts[key] = len(waiting)
        return request

    async def _take(self, answer: y.AllocateResponseProto) -> None:
        self.headroom_mb = answer.limit.memory
        for token in answer.nm_tokens:
            self._tokens[token.nodeId.host, token.nodeId.port] = token.token
        for status in answer.completed_container_statuses:
            self._ended(container_name(status.container_id), status)
        for container in answer.allocated_containers:
            await self._allocated(container)

    def _ended(self, name: str, status: y.ContainerStatusProto) -> None:
        task = self._running.pop(name, None)
        if task is None:
            self.errors.append(f"{name} ended ({status.exit_status}), but it was over or never given")
            return
        task.exits.append(status.exit_status)
        if status.exit_status == 0:
            task.done = True
        elif status.exit_status in SYSTEM:
            key = task.priority, task.memory_mb
            self._hosts[key] = ()
            self._waiting[key].append(task)
        else:
            self.errors.append(f"{name}: exit {status.exit_status}: {status.diagnostics[:300]}")

    async def _allocated(self, container: y.ContainerProto) -> None:
        name = container_name(container.id)
        key = container.priority.priority, container.resource.memory
        waiting = self._waiting.get(key)
        if key in self._types and container.execution_type != self._types[key].execution_type:
            self.errors.append(f"{name} came as another type than it was asked for: {container.execution_type}")
        if not waiting:
            self._release.append(container.id)
            return
        self._ask_counts[key] -= 1
        task = waiting.popleft()
        task.containers.append(name)
        self._running[name] = task
        await self._start(container, task)

    async def _start(self, container: y.ContainerProto, task: SleepTask) -> None:
        """Start a task; one whose connection breaks is tried again, as Hadoop's ServerProxy does."""
        address = container.nodeId.host, container.nodeId.port
        for _ in range(_STARTS):
            try:
                async with NmClient(*address, self._tokens[address]) as node:
                    await node.start(container, self.command(task))
            except ConnectionError:
                await asyncio.sleep(_RETRY_S)
                continue
            except ContainerRefusedError as error:
                self.errors.append(str(error))
            return
        self.errors.append(f"{container_name(container.id)}: {address} closed {_STARTS} connections")


def _rows(key: tuple[int, int], count: int, hosts: Sequence[str], strict: bool) -> list[y.ResourceRequestProto]:
    rows = []
    racks = () if not hosts or any(name.startswith("/") for name in hosts) else ("/default-rack",)
    for name in (*hosts, *racks, "*"):
        relax = name in hosts or not strict
        row = y.ResourceRequestProto(resource_name=name, num_containers=count, relax_locality=relax)
        row.priority.priority = key[0]
        row.capability.memory, row.capability.virtual_cores = key[1], 1
        rows.append(row)
    return rows


def app_name(app_id: y.ApplicationIdProto) -> str:
    """Return an application id as text."""
    return f"application_{app_id.cluster_timestamp}_{app_id.id:04d}"


@asynccontextmanager
async def job(
    cluster: Cluster,
    name: str,
    *,
    queue: str = "default",
    make: type[SleepJob] = SleepJob,
    tags: tuple[str, ...] = (),
    user: str = USER,
) -> AsyncIterator[SleepJob]:
    """Run an application for the time of a with block, and end it well; raises BenchError if it had errors."""
    spec = cluster.spec
    async with asyncio.timeout(_CALL_S), RmClient(*spec.rm_client, user=user) as rm:
        app_id = await rm.submit_unmanaged(name=title(name), app_type=APP_TYPE, queue=queue, tags=tags)
        token = await rm.am_rm_token(app_id, timeout_s=_CALL_S)
    async with AmClient(*spec.scheduler, token) as am:
        async with asyncio.timeout(_CALL_S):
            await am.register()
        instance = make(am, app_name(app_id))
        beating = asyncio.create_task(instance.beat())
        ended = False
        try:
            await asyncio.sleep(_SETUP_S)
            yield instance
            ended = True
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating  # raises what broke it
            async with asyncio.timeout(_CALL_S):
                if ended:
                    await unregister(am, y.APP_SUCCEEDED)
                else:
                    async with RmClient(*spec.rm_client, user=user) as rm:
                        await rm.kill(app_id, diagnostics="given up")
    if instance.errors:
        raise BenchError(f"{name}: {'; '.join(instance.errors)}")


def all_lives(cluster: Cluster) -> dict[str, Life]:
    """Return the containers in the NodeManagers' logs, by id; ends are as the tasks themselves noted them.

    On a loaded machine a NodeManager logs an end some tenths of a second after the process is gone.
    """
    nodes = cluster.spec.node_addresses
    lives = read_lives((node.name, cluster.log(f"nodemanager-{node.name}")) for node in nodes)
    for note in (container_logs(cluster.spec, nodes[0]).parent / _ENDED).glob("container_*"):
        life = lives.get(note.name)
        if life is not None:
            lives[note.name] = replace(life, over_s=note.stat().st_mtime)
    return lives
