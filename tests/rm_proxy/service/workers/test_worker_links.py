"""Links between workers: batches by time, whole news for a new process, a peer that reads nothing is cut off."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from rm_proxy.service.workers import worker_links
from rm_proxy.service.workers.worker_links import Batch, Broadcast, Letter, Links


@dataclass
class End:
    """One worker's links, and what came."""

    number: int
    batches: list[tuple[int, Batch]] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.links = Links(
            lambda worker, batch: self.batches.append((worker, batch)),
            lambda worker: Broadcast(orders=[("whole", str(self.number))]),
            lambda broadcast: None,
            self.lost.append,
        )

    def orders(self) -> list[tuple[str, ...]]:
        return [order for _, batch in self.batches if isinstance(batch, Broadcast) for order in batch.orders]


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[End, End]]:
    first, second = End(0), End(1)
    ends = socket.socketpair()
    await first.links.attach(1, ends[0])
    await second.links.attach(0, ends[1])
    yield first, second
    first.links.close()
    second.links.close()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 the links know nothing of it
            await asyncio.sleep(0.001)


async def test_a_link_begins_with_all_that_is_known() -> None:
    async with linked() as (first, second):
        await until(lambda: first.orders() and second.orders())
        assert first.orders() == [("whole", "1")] and second.orders() == [("whole", "0")]


async def test_what_comes_within_an_exchange_goes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_links, "EXCHANGE_S", 0.2)
    async with linked() as (first, second):
        await until(second.orders)
        first.links.send()
        for number in range(3):
            first.links.broadcast().orders.append(("go", str(number)))
            first.links.letter(1).again.add(f"n{number}")
        await until(lambda: any(isinstance(batch, Letter) for _, batch in second.batches))
        *_, (worker, broadcast), (_, letter) = second.batches
        assert worker == 0 and isinstance(broadcast, Broadcast) and isinstance(letter, Letter)
        assert broadcast.orders == [("go", "0"), ("go", "1"), ("go", "2")] and letter.again == {"n0", "n1", "n2"}


async def test_large_batches_come_whole() -> None:
    async with linked() as (first, second):
        body = bytes(3 << 20)
        first.links.broadcast().reports.append(("n", 1, body, []))
        await until(lambda: len(second.batches) == 2)
        batch = second.batches[1][1]
        assert isinstance(batch, Broadcast) and batch.reports == [("n", 1, body, [])]


async def test_a_worker_that_is_gone_is_noticed_and_its_successor_linked() -> None:
    async with linked() as (first, second):
        await until(second.orders)
        second.links.close()
        await until(lambda: first.lost)
        assert first.lost == [1] and not first.links.open
        ends, successor = socket.socketpair(), End(1)
        await first.links.attach(1, ends[0])
        await successor.links.attach(0, ends[1])
        await until(successor.orders)
        assert set(first.links.open) == {1}
        successor.links.close()


async def test_a_worker_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_links, "UNREAD_BYTES", 1 << 20)
    first = End(0)
    ours, theirs = socket.socketpair()
    await first.links.attach(1, ours)
    for _ in range(8):
        first.links.broadcast().reports.append(("n", 1, bytes(1 << 20), []))
        first.links.send()
    assert first.lost == [1] and not first.links.open
    theirs.close()
