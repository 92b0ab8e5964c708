"""Many emulated nodes in one event loop, registered at a real ResourceManager."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Final, Literal, TypeVar

from quicksilver.common.process.limits import raise_open_files
from quicksilver_lab.bench.emulator.model import EmulatedSample, Umbilical
from quicksilver_lab.bench.emulator.nodes.nm import NmCounts, NodeManager
from quicksilver_lab.bench.emulator.nodes.nm_events import NmSize
from quicksilver_lab.bench.emulator.nodes.node import EmulatedNode, NodeDelays
from quicksilver_lab.bench.emulator.nodes.rm_link import RmLink
from quicksilver_lab.bench.emulator.nodes.tally import NodeTally
from quicksilver_lab.bench.emulator.nodes.tracker import ReportRelay

_LISTEN: Final = 128
_REGISTERING: Final = 32
"""Nodes that register at a time."""
_PER_NET: Final = 250
_FILES_EACH: Final = 4
"""A node's listening socket and its connection to the ResourceManager, the same of its sidecar."""
_FILES_OF_MASTERS: Final = 8000
"""Both ends of their connections to nodes, of which they keep 4,000."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What nodes are like."""

    vcores: int = 4
    """The size that the ResourceManager knows."""
    memory_mb: int = 4096
    relay: ReportRelay = field(default_factory=ReportRelay)
    """What quicksilver's tracker relay does; as it is here, nothing."""
    max_queue_length: int = 0
    """yarn.nodemanager.opportunistic-containers-max-queue-length; 0 as Hadoop ships it."""
    port: int = 19100
    """Of every node; each has an address of its own."""
    delays: NodeDelays = field(default_factory=NodeDelays)
    slow_share: float = 0.0
    """Of the nodes, spread evenly: there processes run `slow_times` as long as they are said to."""
    slow_times: float = 1.0
    nodes_per_link: int = 1
    """Nodes that share a connection to the ResourceManager; NodeManagers have one each."""

    def slow(self, number: int) -> bool:
        """Return whether node `number` is slow: of any n in a row about n * slow_share are."""
        return int((number + 1) * self.slow_share) > int(number * self.slow_share)


Accept = Callable[[], asyncio.Protocol]
"""Makes the server's side of a connection that an application master opens to a node."""


def host_of(number: int) -> str:
    """Return the loopback address of node `number`, from 0 on: 127.64.0.1, 127.64.0.2, ..."""
    net, host = divmod(number, _PER_NET)
    return f"127.{64 + net // 256}.{net % 256}.{host + 1}"


class NodeFailedError(RuntimeError):
    """A node is not part of the cluster any more: the ResourceManager hung up, or turned it away."""


class EmulatedNodes:
    """The nodes of one run: `start`, then jobs, then `stop`.

    umbilical: told of every process that begins, and that ends by itself; may be set until the first container starts.
    """

    def __init__(self, settings: NodeSettings) -> None:
        """Prepare; nothing is opened yet."""
        self.settings = settings
        self.nodes: list[EmulatedNode] = []
        self.tally = NodeTally()
        self.samples: list[EmulatedSample] = []
        """One a second, from `start` on; `at_s` is on the clock time.monotonic()."""
        self.umbilical: Umbilical | None = None
        self.queued_elsewhere: Callable[[], int] = lambda: 0
        """How many containers wait at nodes, but not in their NodeManagers: in the queues of sidecars."""
        self._links: list[RmLink] = []
        self._servers: list[asyncio.Server] = []
        self._sampling: asyncio.Task[None] | None = None

    async def start(
        self, count: int, tracker: tuple[str, int], accept: Callable[[EmulatedNode], Accept] | None = None
    ) -> None:
        """Have `count` nodes listen and register; they beat from then on, spread over the interval.

        accept: returns what takes a node's connections, in place of the node itself; called before it registers.
        Raises OSError, RemoteCallError, TurnedAwayError; NodeFailedError when a node's port is taken.
        """
        raise_open_files(_FILES_EACH * count + _FILES_OF_MASTERS, f"{count} emulated nodes and their masters")
        try:
            per_link = max(1, self.settings.nodes_per_link)
            self._links = [RmLink() for _ in range(-(-count // per_link))]
            await _each(self._links, lambda link: link.connect(tracker))
            for number in range(count):
                self.nodes.append(self._node(number, self._links[number // per_link]))
            for node in self.nodes:  # one by one: a cancelled create_server leaves its socket open
                await self._listen(node, accept)
            await _each(enumerate(self.nodes), lambda each: each[1].start(each[0] / count))
        except BaseException:
            await self.stop()
            raise
        self._sampling = asyncio.create_task(self._sample(), name="samples of the emulated nodes")

    def _node(self, number: int, link: RmLink) -> EmulatedNode:
        settings = self.settings
        extra = settings.relay.extra
        size = NmSize(settings.memory_mb + extra.memory_mb, settings.vcores + extra.vcores)
        machine = NodeManager(size, settings.max_queue_length)
        node_id = f"{host_of(number)}:{settings.port}"
        slow_times = settings.slow_times if settings.slow(number) else 1.0
        delays, relay = settings.delays, settings.relay
        return EmulatedNode(node_id, machine, delays, link, self.tally, self._forward, relay, slow_times)

    async def _listen(self, node: EmulatedNode, accept: Callable[[EmulatedNode], Accept] | None) -> None:
        factory = node.connected if accept is None else accept(node)
        host, _, port = node.id.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            self._servers.append(await loop.create_server(factory, host, int(port), backlog=_LISTEN))
        except OSError as error:
            raise NodeFailedError(f"{node.id} cannot be listened on ({error.strerror}): choose another port") from error

    def _forward(self, container_id: str, kind: Literal["began", "done"], now_s: float) -> None:
        if self.umbilical is not None:
            self.umbilical(container_id, kind, now_s)

    async def stop(self) -> None:
        """End everything; the ResourceManager misses the nodes when their time is up. Raises why a node failed."""
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)
        for server in self._servers:
            server.close()
        for node in self.nodes:
            node.stop()
        for link in self._links:
            link.close()
        await asyncio.sleep(0)  # connections that were aborted are closed in the next turn
        self.check()

    def check(self) -> None:
        """Raise why a node ended, when one did."""
        for node in self.nodes:
            if node.failure is not None:
                raise NodeFailedError(f"node {node.id} ended: {node.failure}") from node.failure

    async def _sample(self) -> None:
        """Note the state of the cluster each second."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            queued = self.queued_elsewhere() + sum(
                len(n.machine.guaranteed) + len(n.machine.opportunistic) for n in self.nodes
            )
            self.samples.append(EmulatedSample(time.monotonic(), self.tally.processes, queued, self.tally.used_vcores))
            due_s += 1.0
            await asyncio.sleep(max(0.0, due_s - loop.time()))

    def counts(self) -> NmCounts:
        """Return what happened at all nodes together."""
        names = [count.name for count in fields(NmCounts)]
        return NmCounts(**{name: sum(getattr(node.machine.counts, name) for node in self.nodes) for name in names})


async def _each(items: Iterable[_T], work: Callable[[_T], Awaitable[None]]) -> None:
    """Do the same for all, some at a time. Raises the first failure."""
    iterator = iter(items)

    async def some() -> None:
        for item in iterator:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_REGISTERING):
                group.create_task(some())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
