"""The shell that carries out resizes: what is told back, what the guardian knows and when, what never overtakes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from sidecar.cpu_sharing.events import Freeze, ReadyContainer, Resized, Restore, Served, Shrink
from sidecar.metrics import SidecarMetrics
from sidecar.node.events import Event
from sidecar.resizer.base import ContainerUsage, Leader
from sidecar.service.resizing.resize_executor import ResizeExecutor
from tests.sidecar.resizer.fake_resizer import Fake
from tests.sidecar.service.test_server import until

LEADER = Leader(2**22 + 1, 1.0)


@dataclass
class Told:
    """A guardian that remembers, beside what the fake resizer was called with."""

    fake: Fake
    known: dict[str, Mapping[str, object]] = field(default_factory=dict)
    calls_before: dict[str, int] = field(default_factory=dict)
    """How many calls the resizer had when the container was put."""

    def put(self, container_id: str, undo: Mapping[str, object]) -> bool:
        self.known[container_id] = undo
        self.calls_before.setdefault(container_id, len(self.fake.calls))
        return True

    def drop(self, container_id: str) -> None:
        del self.known[container_id]

    def clean(self, groups: Sequence[str]) -> None:
        self.groups = list(groups)


@dataclass
class World:
    fake: Fake
    guardian: Told
    events: list[Event]
    resizing: ResizeExecutor
    metrics: SidecarMetrics

    async def until(self, done: Callable[[], Any]) -> None:
        await until(done)

    async def attached(self, *names: str) -> None:
        for name in names:
            self.resizing.attach(name, LEADER)
        await self.until(lambda: len([e for e in self.events if isinstance(e, ReadyContainer)]) == len(names))

    def answers(self) -> list[tuple[str, str]]:
        return [(e.container_id, e.refused) for e in self.events if isinstance(e, Resized)]

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"quicksilver_sidecar_{name}", labels) or 0.0


@asynccontextmanager
async def resizing(**fake: bool) -> AsyncIterator[World]:
    resizer, events, metrics = Fake(**fake), list[Event](), SidecarMetrics()
    guardian = Told(resizer)
    world = World(resizer, guardian, events, ResizeExecutor(resizer, guardian, metrics, events.append), metrics)
    yield world
    await world.resizing.close()


@pytest.mark.parametrize("slow", [False, True])
async def test_a_container_is_attached_shrunk_restored_and_let_go(slow: bool) -> None:
    async with resizing(slow=slow) as w:
        await w.attached("a")
        assert w.guardian.calls_before["a"] == 1, "the guardian knows before the first limit is written"
        for command, cores in ((Shrink("a", 0.05, "b", "why"), 0.05), (Freeze("a", "b", "why"), 0.0)):
            w.resizing.execute(command)
            await w.until(lambda cores=cores: w.fake.cores["a"] == cores)
            assert w.resizing.small() == ["a"]
        w.resizing.execute(Restore("a", "why"))
        await w.until(lambda: len(w.answers()) == 3)
        assert w.answers() == [("a", "")] * 3 and w.fake.cores["a"] is None and w.resizing.small() == []
        w.resizing.leave("a", over=True)
        await w.until(lambda: not w.guardian.known)
        assert w.fake.leaders == {} and list(w.resizing.in_hand()) == []
        assert w.count("resizes_total", resizer="fake", action="shrink") == 1


async def test_what_is_refused_is_told_with_the_reason_and_counted() -> None:
    async with resizing() as w:
        await w.attached("a")
        w.fake.refuse("shrink", "a", "device busy")
        w.resizing.execute(Shrink("a", 0.05, "", ""))
        w.resizing.execute(Shrink("unknown", 0.05, "", ""))
        await w.until(lambda: len(w.answers()) == 2)
        assert dict(w.answers())["a"] and dict(w.answers())["unknown"] == "it is not attached"
        assert w.count("resize_failures_total", resizer="fake", action="shrink") == 1


async def test_a_container_that_cannot_be_taken_in_hand_never_becomes_ready() -> None:
    async with resizing() as w:
        w.fake.refuse("attach", "a", "no rights")
        w.resizing.attach("a", LEADER)
        await w.until(lambda: w.count("resize_failures_total", resizer="fake", action="attach") == 1)
        assert w.events == [] and w.guardian.known == {}
        w.resizing.leave("a", over=True)


async def test_one_that_is_let_go_while_it_dies_has_full_limits_and_is_let_go_of_at_its_end() -> None:
    async with resizing() as w:
        await w.attached("a")
        w.resizing.execute(Freeze("a", "b", "why"))
        w.resizing.leave("a", over=False)
        await w.until(lambda: w.fake.cores["a"] is None)
        assert "a" in w.guardian.known and w.resizing.small() == []
        w.resizing.leave("a", over=True)
        await w.until(lambda: "a" not in w.fake.leaders)
    assert ("detach", "a") in w.fake.calls and w.guardian.known == {}


async def test_what_runs_is_measured_each_time_and_what_stands_still_sometimes() -> None:
    async with resizing() as w:
        await w.attached("a", "b")
        w.fake.used = {"a": ContainerUsage(1.5, 100), "b": ContainerUsage(2.5, 200)}
        w.resizing.execute(Shrink("b", 0.05, "a", ""))
        w.events.clear()
        for _ in range(6):
            w.resizing.measure()
        served = [dict(e.cpu_s) for e in w.events if isinstance(e, Served)]
        assert served == [{"a": 1.5, "b": 2.5}, {"a": 1.5}, {"a": 1.5}, {"a": 1.5}, {"a": 1.5}, {"a": 1.5, "b": 2.5}]
        assert w.resizing.usages["b"].memory_mb == 200


async def test_memory_is_measured_at_first_and_then_sometimes_where_it_can_be_left_out() -> None:
    async with resizing() as w:
        vars(w.fake)["cpu_s"] = lambda container_id: w.fake.used[container_id].cpu_s
        w.resizing.measure()  # the round in which everything is measured goes by
        await w.attached("a")
        seen = []
        for round_ in range(2, 8):
            w.fake.used = {"a": ContainerUsage(float(round_), 100 * round_)}
            w.resizing.measure()
            seen.append(w.resizing.usages["a"])
        assert [usage.cpu_s for usage in seen] == [2, 3, 4, 5, 6, 7]
        assert [usage.memory_mb for usage in seen] == [200, 200, 200, 200, 600, 600]


async def test_limits_that_somebody_rewrote_are_written_again() -> None:
    async with resizing() as w:
        await w.attached("a")
        w.resizing.execute(Shrink("a", 0.05, "b", ""))
        w.fake.rewritten.add("a")
        w.resizing.measure()
        w.resizing.measure()
        assert w.fake.rewritten == set() and w.count("reasserts_total", resizer="fake") == 1


async def test_at_the_end_everything_has_full_limits() -> None:
    async with resizing() as w:
        await w.attached("a", "b")
        w.resizing.execute(Shrink("a", 0.05, "b", ""))
    assert w.fake.leaders == {} and w.guardian.known == {}
    assert ("detach", "a") in w.fake.calls and ("detach", "b") in w.fake.calls


async def test_what_cannot_be_given_back_stays_with_the_guardian() -> None:
    async with resizing() as w:
        await w.attached("a")
        w.fake.refuse("detach", "a", "device busy")
        w.resizing.leave("a", over=True)
        await w.until(lambda: w.count("resize_failures_total", resizer="fake", action="detach") == 1)
    assert "a" in w.guardian.known
