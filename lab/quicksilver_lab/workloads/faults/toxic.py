"""TCP relays between the parts of a cluster that can cut, delay and slow down their connections."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from quicksilver_lab.cluster.spec import HostPort
from quicksilver_lab.workloads.faults.cutter import CallCutter, CallStep, Passage

_CHUNK_BYTES: Final = 1 << 16
_JOIN_S: Final = 10.0
_PATIENCE_S: Final = 60.0
_AGAIN_S: Final = 0.05
_BELOW_S: Final = 0.4
"""How long answers to application masters are held, half of it before they are cut off."""
Reader = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Between:
    """Where a relay listens, and where what it takes goes."""

    listen: HostPort
    target: HostPort


@dataclass(slots=True)
class _Link:
    name: str
    between: Between
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    server: asyncio.Server | None = None
    """None while the link is cut: connections are refused, which Hadoop's clients try again."""
    held_until: float = 0.0
    """Loop time until which nothing passes."""
    slow_until: float = 0.0
    delay_s: float = 0.0
    cutter: CallCutter | None = None
    """What waits for a call on this link."""
    cut_done: asyncio.Event | None = None
    below: str = ""
    """The link on which the cut call's answer would go on."""


class Toxics:
    """Relays by name, on a thread of their own for the time of a with block."""

    def __init__(
        self, links: Mapping[str, Between], seed: int = 0, readers: Mapping[str, Callable[[], Reader]] | None = None
    ) -> None:
        """Prepare; readers: by link, what makes a reader of the bytes that each connection's dialing side sends."""
        self._links = {name: _Link(name, between) for name, between in links.items()}
        self._readers = dict(readers or {})
        self._numbers = itertools.count()
        self._rng = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="toxics")
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def names(self) -> list[str]:
        """The links' names."""
        return list(self._links)

    def __enter__(self) -> Self:
        """Listen on all. Raises OSError when an address is taken."""
        self._thread.start()
        try:
            self._call(self._listen()).result()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections and listeners."""
        self._stop()

    def cut(self, name: str, for_s: float) -> int:
        """Reset all connections of a link, and refuse new ones for a time; return how many were reset."""
        return self._call(self._cut(self._links[name], for_s)).result()

    def hold(self, name: str, for_s: float) -> None:
        """Let nothing pass for a time; then all of it does."""
        self._call(self._set(self._links[name], "held_until", for_s)).result()

    def slow(self, name: str, delay_s: float, for_s: float) -> None:
        """Delay each piece of data by up to twice `delay_s` for a time."""
        link = self._links[name]
        link.delay_s = delay_s
        self._call(self._set(link, "slow_until", for_s)).result()

    def cut_call(self, name: str, below: str, step: CallStep, within_s: float) -> bool:
        """Cut the next call with own grants on a link at one of its steps; return whether one came in time.

        below: the link by which its answer goes on to the application master.
        """
        return bool(self._call(self._cut_call(self._links[name], below, step, within_s)).result())

    def _call(self, job: Coroutine[Any, Any, int]) -> Future[int]:
        return asyncio.run_coroutine_threadsafe(job, self._loop)

    def _stop(self) -> None:
        self._call(self._close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_S)
        self._loop.close()

    async def _listen(self) -> int:
        for link in self._links.values():
            await self._open(link)
        return len(self._links)

    async def _open(self, link: _Link) -> None:
        listen = link.between.listen
        link.server = await asyncio.start_server(self._accepting(link), listen.host, listen.port, backlog=1024)

    def _accepting(self, link: _Link) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._relay(link, reader, writer)
            finally:
                self._tasks.discard(task)

        return accept

    async def _relay(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await dialed(link.between.target)
        except OSError:
            writer.transport.abort()
            return
        ends, number = (writer, back), next(self._numbers)
        link.writers.update(ends)
        make = self._readers.get(link.name)
        read = make() if make is not None else None
        try:
            with suppress(OSError):  # one side broke off: so does the other
                await asyncio.gather(
                    self._pump(link, reader, back, number, read),
                    self._pump(link, there, writer, number, None, up=False),
                )
        finally:
            link.writers.difference_update(ends)
            if link.cutter is not None:
                link.cutter.closed(number)
            for end in ends:
                end.transport.abort()

    async def _pump(
        self,
        link: _Link,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        number: int,
        read: Reader | None,
        *,
        up: bool = True,
    ) -> None:
        while data := await source.read(_CHUNK_BYTES):
            if read is not None:
                read(data)
            if link.cutter is not None and not self._may_pass(link, link.cutter, number, data, up=up):
                raise ConnectionAbortedError("its call was cut")
            now = self._loop.time()
            if now < link.held_until:
                await asyncio.sleep(link.held_until - now)
            elif now < link.slow_until:
                await asyncio.sleep(self._rng.uniform(0, 2 * link.delay_s))
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()

    def _may_pass(self, link: _Link, cutter: CallCutter, number: int, data: bytes, *, up: bool) -> bool:
        """Ask who waits for a call about bytes; returns whether they pass."""
        verdict = cutter.up(number, data) if up else cutter.down(number)
        if verdict is Passage.HOLD_BELOW:
            below = self._links[link.below]
            below.held_until = self._loop.time() + _BELOW_S
            self._spawn(self._cut_soon(below))
        if cutter.done and link.cut_done is not None:
            link.cut_done.set()
        return verdict is not Passage.CUT

    async def _cut_soon(self, link: _Link) -> None:
        await asyncio.sleep(_BELOW_S / 2)  # the proxy has written its answer by then, and it is held
        await self._cut(link, _BELOW_S)

    async def _cut_call(self, link: _Link, below: str, step: CallStep, within_s: float) -> int:
        link.cutter, link.below, link.cut_done = CallCutter(step), below, asyncio.Event()
        with suppress(TimeoutError):  # no such call came
            async with asyncio.timeout(within_s):
                await link.cut_done.wait()
        done = link.cutter.done
        link.cutter = link.cut_done = None
        return int(done)

    async def _cut(self, link: _Link, for_s: float) -> int:
        if link.server is not None:  # else it is cut already
            link.server.close()
            link.server = None
            self._spawn(self._mend(link, for_s))
        open_now = list(link.writers)
        for writer in open_now:
            writer.transport.abort()
        return len(open_now) // 2

    async def _mend(self, link: _Link, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self._open(link)

    def _spawn(self, job: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _set(self, link: _Link, attribute: str, for_s: float) -> int:
        setattr(link, attribute, self._loop.time() + for_s)
        return 0

    async def _close(self) -> int:
        for link in self._links.values():
            if link.server is not None:
                link.server.close()
            for writer in list(link.writers):
                writer.transport.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(tasks)


async def dialed(target: HostPort) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to who may be starting again; who dialed the relay waits as long. Raises OSError."""
    end_s = asyncio.get_running_loop().time() + _PATIENCE_S
    while True:
        try:
            return await asyncio.open_connection(*target)
        except ConnectionRefusedError:
            if asyncio.get_running_loop().time() > end_s:
                raise
        await asyncio.sleep(_AGAIN_S)
