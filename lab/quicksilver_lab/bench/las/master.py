"""A light application master over the real protocols: stages of tasks one after another, killed tasks once more.

It behaves as MapReduce's: heartbeats at a fixed interval, asks go with the next heartbeat, the tasks themselves say
when they are done, containers that the system killed are asked for again, a task may fail four times by its own fault.
It unregisters when YARN has seen the end of its containers too: an application that goes before may make the
ResourceManager take all opportunistic containers of the node for lost (RMNodeImpl.findLostContainers).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hadoop_rpc.protos import yarn_pb2
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import AmClient, ContainerRefusedError, NmClient, RemoteCallError, RmClient
from quicksilver_lab.bench.las.jobs import MAP_PRIORITY, JobStage
from quicksilver_lab.bench.las.umbilical import Note, Umbilical

USER: Final = "bench"
APP_TYPE: Final = "YARN"
MEMORY_MB: Final = 256
_RACK: Final = "/default-rack"
_KILLED: Final = frozenset({-100, -102, -106, -108})
"""Exit codes of ends that were not the task's fault."""
_MOST_FAILURES: Final = 4
_TOKEN_S: Final = 600.0
_UNREGISTER_POLL_S: Final = 0.1
_LINGER_BEATS: Final = 20


@dataclass(frozen=True, slots=True)
class LasSite:
    """Where masters live: the RM, its scheduler (or the proxy), the kind of containers to ask for, the pipe."""

    rm: tuple[str, int]
    scheduler: tuple[str, int]
    umbilical: Umbilical
    hosts: tuple[str, ...] = ()
    """Where maps have their data: all nodes."""
    opportunistic: bool = False
    """Ask for OPPORTUNISTIC containers, which stock YARN grants at once and queues at the node."""
    heartbeat_s: float = 1.0
    setup_s: float = 0.0
    """From the first heartbeat, which asks for nothing, to the one with the first asks: MapReduce sets its job up."""


@dataclass(eq=False, slots=True)
class LasTask:
    """One task and what became of it; times are Unix seconds, None as long as they are unknown."""

    stage: int
    cpu_s: float
    began_s: float | None = None
    """Of the attempt that counts, or of the last one."""
    ended_s: float | None = None
    pid: int | None = None
    """Of the last attempt's process."""
    killed: int = 0
    failed: int = 0


@dataclass(slots=True)
class Counts:
    """What else happened to a job's containers."""

    granted: int = 0
    opportunistic: int = 0
    """Of these, by their tokens, whatever was asked for: queueable ones are such."""
    killed: int = 0
    failed: int = 0
    refused: int = 0
    released: int = 0
    reasons: list[str] = field(default_factory=list)


def container_name(container_id: yarn_pb2.ContainerIdProto) -> str:
    """Return a container's id as text, of an RM that was not restarted."""
    attempt = container_id.app_attempt_id
    app = attempt.application_id
    return f"container_{app.cluster_timestamp}_{app.id:04d}_{attempt.attemptId:02d}_{container_id.id:06d}"


def rows(priority: int, count: int, hosts: Sequence[str], opportunistic: bool) -> list[yarn_pb2.ResourceRequestProto]:
    """Return the rows of an ask for `count` containers; with hosts as complete triplets."""
    result = []
    for name in (*hosts, _RACK, "*") if hosts else ("*",):
        row = yarn_pb2.ResourceRequestProto(resource_name=name, num_containers=count, relax_locality=True)
        row.priority.priority = priority
        row.capability.memory, row.capability.virtual_cores = MEMORY_MB, 1
        kind = yarn_pb2.OPPORTUNISTIC if opportunistic else yarn_pb2.GUARANTEED
        row.execution_type_request.execution_type = kind
        row.execution_type_request.enforce_execution_type = opportunistic
        result.append(row)
    return result


async def unregister(am: AmClient, status: yarn_pb2.FinalApplicationStatusProto.ValueType, why: str = "") -> None:
    """End an application; the RM then kills what is left of it."""
    finished = await am.finish(status, diagnostics=why)
    while not finished.isUnregistered:
        await asyncio.sleep(_UNREGISTER_POLL_S)
        finished = await am.finish(status, diagnostics=why)


def title(name: str) -> str:
    """Return the name that YARN shows of an application.

    It begins as the distributed shell's: both run shell commands, and presets treat them alike.
    """
    return f"DistributedShell {name}"


class LasMaster:
    """One application; `run` is its life. `tasks` and `counts` may be read meanwhile."""

    def __init__(self, site: LasSite, stages: Sequence[JobStage], *, name: str, queue: str = "default") -> None:
        """Prepare; nothing is submitted yet."""
        self.tasks = [LasTask(n, stage.task_s) for n, stage in enumerate(stages) for _ in range(stage.tasks)]
        self.counts = Counts()
        self.broken = ""
        """Why the job failed, "" when it did not."""
        self._site, self._stages, self._name, self._queue = site, stages, name, queue
        self._stage = 0
        self._waiting = [task for task in self.tasks if task.stage == 0]
        self._ask_counts: dict[int, int] = {}
        self._running: dict[str, LasTask] = {}
        self._open: set[str] = set()
        """Containers that were started and whose end YARN has not reported yet."""
        self._release: list[yarn_pb2.ContainerIdProto] = []
        self._tokens: dict[tuple[str, int], TokenProto] = {}
        self._nodes: dict[tuple[str, int], NmClient] = {}
        self._over = asyncio.Event()

    @property
    def alive(self) -> int:
        """How many task processes there are now."""
        return sum(task.began_s is not None and Path(f"/proc/{task.pid}").exists() for task in self._running.values())

    @property
    def container_count(self) -> int:
        """How many containers are granted: running, or queued at a node."""
        return len(self._running)

    def stop(self) -> None:
        """End the application before its tasks are done; `run` returns soon."""
        self._over.set()

    async def run(self) -> None:
        """Submit, register, run all stages, unregister; when it is broken off the application is killed.

        Raises RemoteCallError, RuntimeError, OSError, TimeoutError.
        """
        async with RmClient(*self._site.rm, user=USER) as rm:
            app_id = await rm.submit_unmanaged(name=title(self._name), queue=self._queue, app_type=APP_TYPE)
        finished = False
        try:
            async with RmClient(*self._site.rm, user=USER) as rm:
                token = await rm.am_rm_token(app_id, timeout_s=_TOKEN_S)
            async with AmClient(*self._site.scheduler, token) as am:
                await am.register()
                await self._work(am)
                await self._linger(am)
                status = yarn_pb2.APP_FAILED if self.broken else yarn_pb2.APP_SUCCEEDED
                await unregister(am, status, self.broken)
            finished = True
        finally:
            if not finished:
                await self._kill(app_id)
            for container in list(self._running):
                self._site.umbilical.forget(container)
            for node in self._nodes.values():
                await node.close()

    async def _kill(self, app_id: yarn_pb2.ApplicationIdProto) -> None:
        async with RmClient(*self._site.rm, user=USER) as rm:
            await rm.kill(app_id, diagnostics="its master was broken off")

    async def _work(self, am: AmClient) -> None:
        loop = asyncio.get_running_loop()
        if self._site.setup_s:
            await self._take(await am.allocate())
            await asyncio.sleep(self._site.setup_s)
        next_s = loop.time()
        while not self._over.is_set():
            await self._take(await am.allocate(self._request()))
            next_s = max(next_s + self._site.heartbeat_s, loop.time())
            try:
                async with asyncio.timeout_at(next_s):
                    await self._over.wait()
            except TimeoutError:
                continue  # the next heartbeat is due

    async def _linger(self, am: AmClient) -> None:
        """Wait for YARN to report the end of containers whose tasks are done."""
        for _ in range(_LINGER_BEATS):
            if not self._open - self._running.keys():
                return
            await asyncio.sleep(self._site.heartbeat_s)
            ended = (await am.allocate()).completed_container_statuses
            self._open -= {container_name(status.container_id) for status in ended}

    def _request(self) -> yarn_pb2.AllocateRequestProto:
        done = sum(task.ended_s is not None for task in self.tasks)
        request = yarn_pb2.AllocateRequestProto(progress=done / len(self.tasks), release=self._release)
        self._release = []
        request.blacklist_request.SetInParent()
        priority, count = self._stages[self._stage].priority, len(self._waiting)
        if self._ask_counts.get(priority, 0) != count:
            hosts = self._site.hosts if priority == MAP_PRIORITY else ()
            request.ask.extend(rows(priority, count, hosts, self._site.opportunistic))
            self._ask_counts[priority] = count
        return request

    async def _take(self, answer: yarn_pb2.AllocateResponseProto) -> None:
        for token in answer.nm_tokens:
            self._tokens[token.nodeId.host, token.nodeId.port] = token.token
        for status in answer.completed_container_statuses:
            self._completed(status)
        for container in answer.allocated_containers:
            self.counts.granted += 1
            identifier = yarn_pb2.ContainerTokenIdentifierProto.FromString(container.container_token.identifier)
            self.counts.opportunistic += identifier.executionType == yarn_pb2.OPPORTUNISTIC
            priority = container.priority.priority
            self._ask_counts[priority] = max(0, self._ask_counts.get(priority, 0) - 1)
            if priority == self._stages[self._stage].priority and self._waiting:
                await self._start(container, self._waiting.pop(0))
            else:
                self.counts.released += 1
                self._release.append(container.id)

    async def _start(self, container: yarn_pb2.ContainerProto, task: LasTask) -> None:
        name = container_name(container.id)
        task.began_s = None
        self._running[name] = task
        self._open.add(name)
        self._site.umbilical.listen(name, lambda note: self._note(name, note))
        try:
            node = await self._node(container.nodeId)
            await node.start(container, self._site.umbilical.command(name, task.cpu_s))
        except (ContainerRefusedError, RemoteCallError, OSError) as error:
            self.counts.refused += 1
            self.counts.reasons.append(str(error)[:300])
            self._release.append(container.id)
            self._open.discard(name)
            self._lost(name)

    async def _node(self, node_id: yarn_pb2.NodeIdProto) -> NmClient:
        address = (node_id.host, node_id.port)
        if address not in self._nodes:
            client = NmClient(*address, self._tokens[address])
            await client.connect()
            self._nodes[address] = client
        return self._nodes[address]

    def _note(self, name: str, note: Note) -> None:
        task = self._running[name]
        if note.begin:
            task.began_s, task.pid = note.at_s, int(note.value)
            return
        task.ended_s = note.at_s
        del self._running[name]
        self._site.umbilical.forget(name)
        if all(sibling.ended_s is not None for sibling in self.tasks if sibling.stage == self._stage):
            self._next_stage()

    def _next_stage(self) -> None:
        if self._stage + 1 == len(self._stages):
            self._over.set()
            return
        self._stage += 1
        self._waiting = [task for task in self.tasks if task.stage == self._stage]

    def _completed(self, status: yarn_pb2.ContainerStatusProto) -> None:
        name = container_name(status.container_id)
        self._open.discard(name)
        task = self._running.get(name)
        if task is None:
            return  # its end was reported before, or it was released
        why = f"{name} after {self._age(task)}: exit {status.exit_status}: {status.diagnostics.strip()[:300]}"
        self.counts.reasons.append(why)
        if status.exit_status in _KILLED:
            self.counts.killed += 1
            task.killed += 1
        else:
            self.counts.failed += 1
            task.failed += 1
        self._lost(name)
        if task.failed >= _MOST_FAILURES:
            self.broken = f"a task failed {task.failed} times; at last {why}"
            self._over.set()

    def _age(self, task: LasTask) -> str:
        return "no start" if task.began_s is None else f"{time.time() - task.began_s:.1f} s"

    def _lost(self, name: str) -> None:
        task = self._running.pop(name)
        task.began_s = None
        self._site.umbilical.forget(name)
        self._waiting.append(task)
