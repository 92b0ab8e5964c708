"""Executes the resizes of the machine of shared cores; measures containers; undoes all resizes at the end.

Calls for one container never overtake each other. Calls of a fast resizer run at once, in the loop; attaching,
detaching, and all calls of a slow resizer run in threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from prometheus_client import Counter, Histogram

from quicksilver.common.process.logs import get_logger
from sidecar.cpu_sharing.events import Freeze, LasCommand, ReadyContainer, Resized, Restore, Served, Shrink
from sidecar.memory.cgroup_fence import OomScoreRefusedError, prefer_for_oom
from sidecar.metrics import SidecarMetrics
from sidecar.node.events import Event
from sidecar.resizer.base import ContainerUsage, Leader, Resizer, ResizeRefusedError
from sidecar.resizer.processes import family, scan

T = TypeVar("T")
log = get_logger(__name__)
_THREADS: Final = 4
_ATTACH_RETRY_S: Final = 0.2
_ATTACH_S: Final = 60.0
_SLOW_ROUND: Final = 5
"""Rounds of measurement between two of memory, and of shrunk or frozen containers."""
_HOLD_ROUNDS: Final = 2
"""Rounds between two checks of one container's limits."""
_STOP_S: Final = 5.0


class Undoes(Protocol):
    """Restores the limits when this process dies; `sidecar.service.guardian_client.Guardian`."""

    def put(self, container_id: str, undo: Mapping[str, object]) -> bool: ...  # noqa: D102

    def drop(self, container_id: str) -> None: ...  # noqa: D102

    def clean(self, groups: Sequence[str]) -> None: ...  # noqa: D102


@dataclass(slots=True)
class _HeldCommand:
    """An attached container, or one that is being attached."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    attached: bool = False
    leaving: bool = False
    small: bool = False
    """Whether it was shrunk or frozen by us and not restored since."""


class ResizeExecutor:
    """Resizes all containers of one node through one resizer; `put` gets the events that follow."""

    def __init__(
        self,
        resizer: Resizer,
        guardian: Undoes,
        metrics: SidecarMetrics,
        put: Callable[[Event], None],
        oom_score: Callable[[str], int] = lambda container_id: 0,
    ) -> None:
        """Prepare. `oom_score`: the least oom_score_adj that a container's processes get when they are attached."""
        self.resizer = resizer
        self._oom_score = oom_score
        self.usages: dict[str, ContainerUsage] = {}
        """The latest measurement of each attached container."""
        self._guardian, self._metrics, self._put = guardian, metrics, put
        self._entries: dict[str, _HeldCommand] = {}
        self._series: dict[str, tuple[Counter, Histogram]] = {}
        """Counter and histogram of each action."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resize")
        self._tasks: set[asyncio.Task[None]] = set()
        self._round = 0

    def attach(self, container_id: str, leader: Leader) -> None:
        """Attach a container as soon as its processes are known."""
        entry = self._entries.setdefault(container_id, _HeldCommand())
        self._spawn(self._attach(container_id, entry, leader))

    def execute(self, command: LasCommand) -> None:
        """Execute a command; `Resized` follows."""
        entry = self._entries.get(command.container_id)
        if entry is None or not entry.attached:
            self._resized(command.container_id, "it is not attached")
        elif self.resizer.slow or entry.lock.locked() or isinstance(command, Freeze):
            self._spawn(self._resize_later(command, entry))  # a freezer is waited for, too
        else:
            self._resized(command.container_id, self._resize(command, entry))

    def leave(self, container_id: str, *, over: bool) -> None:
        """Give a container its full limits at once; detach it when it is `over`."""
        entry = self._entries.get(container_id)
        if entry is not None:
            self._spawn(self._let_go(container_id, entry, over=over))

    def measure(self) -> None:
        """Measure running containers each time, memory and shrunk containers sometimes; write changed limits again."""
        self._round += 1
        everything = self._round % _SLOW_ROUND == 1
        served: dict[str, float] = {}
        for container_id, entry in list(self._entries.items()):
            if not entry.attached or entry.leaving or entry.lock.locked() or (entry.small and not everything):
                continue
            usage = self._usage(container_id, memory=everything)
            if usage.cpu_s is not None:
                served[container_id] = usage.cpu_s
        if served:
            self._put(Served(served, time.time()))
        for container_id in self.small():
            if (hash(container_id) + self._round) % _HOLD_ROUNDS:
                continue  # not its turn
            entry = self._entries[container_id]
            if self.resizer.slow and everything:
                self._spawn(self._hold_later(container_id, entry))
            elif not self.resizer.slow and not entry.lock.locked() and self._hold(container_id):
                self._remember(container_id)

    def small(self) -> list[str]:
        """Return the containers that are shrunk or frozen now."""
        return [cid for cid, entry in self._entries.items() if entry.small and not entry.leaving]

    def in_hand(self) -> Iterable[str]:
        """Return the containers that are attached."""
        return [cid for cid, entry in self._entries.items() if entry.attached]

    async def close(self) -> None:
        """Detach every container with its full limits; bounded in time, the guardian does the rest."""
        for container_id, entry in list(self._entries.items()):
            self._spawn(self._let_go(container_id, entry, over=True))
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_STOP_S)
            for task in late:
                task.cancel()
            if late:
                log.warning(
                    "containers did not get their limits back in time: the guardian restores them", count=len(late)
                )
        self._threads.shutdown(wait=False, cancel_futures=True)
        try:
            self.resizer.close()
        except ResizeRefusedError as error:
            self._refused("close", error)

    # One container

    async def _attach(self, container_id: str, entry: _HeldCommand, leader: Leader) -> None:
        begun_s = time.monotonic()
        while not entry.leaving:
            async with entry.lock:
                refused = await self._in_thread(self._attach_now, container_id, leader)
            if refused is None:
                if not self._remember(container_id):
                    return
                entry.attached = True
                self._metrics.attached.labels(self.resizer.name).inc()
                self._put(ReadyContainer(container_id, time.time()))
                return
            if not refused.retriable or time.monotonic() - begun_s > _ATTACH_S:
                if not refused.gone:
                    self._refused("attach", refused)
                return
            await asyncio.sleep(_ATTACH_RETRY_S)

    def _attach_now(self, container_id: str, leader: Leader) -> ResizeRefusedError | None:
        try:
            self.resizer.attach(container_id, leader)
            score = self._oom_score(container_id)
            if score:
                prefer_for_oom(family(leader, scan()), score)
        except ResizeRefusedError as error:
            return error
        except OomScoreRefusedError as error:
            log.warning(
                "oom_score_adj could not be set: out of memory, the kernel may kill a guaranteed container first",
                container=container_id,
                why=str(error),
            )
        return None

    def _remember(self, container_id: str) -> bool:
        """Send the undo record to the guardian before any change; return whether the container still exists."""
        try:
            self._guardian.put(container_id, self.resizer.undo(container_id))
        except ResizeRefusedError as error:
            self._refused("attach", error)
            return False
        self._guardian.clean(self.resizer.parents())
        return True

    async def _resize_later(self, command: LasCommand, entry: _HeldCommand) -> None:
        async with entry.lock:
            if entry.leaving:
                refused = "it is over"
            else:
                refused = await self._in_thread(self._resize, command, entry)
        self._resized(command.container_id, refused)

    def _resize(self, command: LasCommand, entry: _HeldCommand) -> str:
        """Return why the resizer refused, "" when it did not."""
        begun_s = time.perf_counter()
        action = type(command).__name__.lower()
        try:
            match command:
                case Shrink():
                    entry.small = True
                    self.resizer.shrink(command.container_id, command.cores)
                case Freeze():
                    entry.small = True
                    self.resizer.freeze(command.container_id)
                case Restore():
                    self.resizer.restore(command.container_id)
                    entry.small = False
        except ResizeRefusedError as error:
            if not error.gone:
                self._refused(action, error)
            return error.why or "refused"
        self._count(action, time.perf_counter() - begun_s)
        return ""

    def _count(self, action: str, seconds: float) -> None:
        """Count a resize; the series of each action is looked up once."""
        series = self._series.get(action)
        if series is None:
            name, metrics = self.resizer.name, self._metrics
            series = metrics.resizes.labels(name, action), metrics.resize_s.labels(name, action)
            self._series[action] = series
        series[0].inc()
        series[1].observe(seconds)

    async def _let_go(self, container_id: str, entry: _HeldCommand, *, over: bool) -> None:
        entry.leaving = True
        async with entry.lock:
            if entry.attached:
                entry.attached = not over
                given_back = await self._in_thread(self._let_go_now, container_id, over)
                if over and given_back:
                    self._guardian.drop(container_id)
            entry.small = False
        if over and self._entries.get(container_id) is entry:
            del self._entries[container_id]
            self.usages.pop(container_id, None)

    def _let_go_now(self, container_id: str, over: bool) -> bool:
        """Return whether it has its full limits; else the guardian keeps its record."""
        try:
            if over:
                self.resizer.detach(container_id)
            else:
                self.resizer.restore(container_id)
        except ResizeRefusedError as error:
            if not error.gone:
                self._refused("detach" if over else "restore", error)
                return False
        return True

    def _usage(self, container_id: str, *, memory: bool) -> ContainerUsage:
        """Measure a container; its memory only if wanted, or not measured before."""
        before, cpu_s = self.usages.get(container_id), getattr(self.resizer, "cpu_s", None)
        if memory or before is None or cpu_s is None:
            usage = self.resizer.usage(container_id)
        else:
            usage = ContainerUsage(cpu_s(container_id), before.memory_mb)
        self.usages[container_id] = usage
        return usage

    async def _hold_later(self, container_id: str, entry: _HeldCommand) -> None:
        async with entry.lock:
            if entry.small and not entry.leaving and await self._in_thread(self._hold, container_id):
                self._remember(container_id)

    def _hold(self, container_id: str) -> bool:
        """Write limits again that another program has changed; return whether there were any."""
        if self.resizer.holds(container_id):
            return False
        self._metrics.reasserts.labels(self.resizer.name).inc()
        log.warning("another program changed the limits: written again", container=container_id)
        try:
            self.resizer.reassert(container_id)
        except ResizeRefusedError as error:
            if not error.gone:
                self._refused("reassert", error)
            return False
        return True

    # Helpers

    def _resized(self, container_id: str, refused: str) -> None:
        self._put(Resized(container_id, refused, time.time()))

    def _refused(self, action: str, error: ResizeRefusedError) -> None:
        self._metrics.resize_failures.labels(self.resizer.name, action).inc()
        log.warning(f"{action} refused", container=error.container_id, why=str(error))

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a resize failed", exc_info=task.exception())
