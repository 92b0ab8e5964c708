"""Probes and load over real RPC against a small YARN in the test's loop."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lab.tests.bench.emulator.fake_yarn import FakeYarn, fake_yarn
from quicksilver_lab.bench.emulator.masters.asks import MAP_PRIORITY, OPPORTUNISTIC_MAP_PRIORITY
from quicksilver_lab.bench.grants import probes as probes_module
from quicksilver_lab.bench.grants.probes import ProbePhase, ProbeResult, Probes
from quicksilver_lab.bench.grants.run import GrantsPlan, Samples, steps_of
from quicksilver_lab.bench.load.loadgen import LoadGenerator, LoadPhase, Measured
from quicksilver_lab.bench.rig import submit

PHASE = ProbePhase(warm_up_s=0.05, seconds=0.4, rate=50, beat_s=0.01)


def silent(_text: str) -> None:
    """Hear progress."""


async def probed(yarn: FakeYarn, priority: int, phase: ProbePhase = PHASE, masters: int = 3) -> ProbeResult:
    yarn.umbilical = lambda *_: None
    probes = Probes(yarn.scheduler, priority, {"test": os.getpid()})
    try:
        await probes.connect(await submit(yarn.rm, masters, silent))
        return await probes.run(phase)
    finally:
        await probes.close()


def run(story: Callable[[FakeYarn], Awaitable[ProbeResult]]) -> tuple[ProbeResult, FakeYarn]:
    async def whole() -> tuple[ProbeResult, FakeYarn]:
        async with fake_yarn(slots=100) as yarn:
            return await story(yarn), yarn

    return asyncio.run(whole())


@pytest.mark.parametrize("priority", [MAP_PRIORITY, OPPORTUNISTIC_MAP_PRIORITY])
def test_each_ask_is_granted_by_one_call_and_its_container_runs(priority: int) -> None:
    result, yarn = run(lambda yarn: probed(yarn, priority))
    assert len(result.grants) + result.skipped == 20 and len(result.grants) >= 10
    assert {(sample.calls, sample.own) for sample in result.grants} == {(1, False)}
    assert all(0 < sample.call_us <= sample.since_ask_us for sample in result.grants)
    assert len(result.late_us) == len(result.grants)
    assert (result.missing, result.refused) == (0, 0)
    assert set(result.cpu_s) == {"test", "probes", "machine"}
    assert set(yarn.starts.values()) == {1}
    opportunistic = priority == OPPORTUNISTIC_MAP_PRIORITY
    assert all((priority, opportunistic) in app.asked for app in yarn.apps.values())


def test_a_grant_that_took_more_calls_is_measured_from_its_ask_on() -> None:
    async def story(yarn: FakeYarn) -> ProbeResult:
        yarn.slots = 0
        asyncio.get_running_loop().call_later(0.15, setattr, yarn, "slots", 100)
        return await probed(yarn, MAP_PRIORITY, ProbePhase(0.0, 0.3, 10, 0.02), masters=1)

    result, _ = run(story)
    first, *_ = result.grants
    assert first.calls > 2 and first.since_ask_us > first.call_us + 2 * 20_000
    assert result.skipped, "it asks for one container at a time"


def test_without_room_an_ask_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes_module, "PATIENCE_S", 0.05)

    async def story(yarn: FakeYarn) -> ProbeResult:
        yarn.slots = 0
        return await probed(yarn, MAP_PRIORITY, ProbePhase(0.0, 0.3, 5, 0.01), masters=1)

    result, yarn = run(story)
    assert (result.missing, result.grants) == (2, [])
    assert yarn.calls["allocate"] > 4


def test_a_container_that_its_node_refuses_is_counted_and_released() -> None:
    async def story(yarn: FakeYarn) -> ProbeResult:
        yarn.refuse = dict.fromkeys(range(1, 100), "no")
        return await probed(yarn, MAP_PRIORITY, ProbePhase(0.0, 0.4, 20, 0.01), masters=1)

    result, yarn = run(story)
    assert result.refused >= len(result.grants) - 1 > 0
    assert len(yarn.released) >= result.refused - 1


def test_a_probe_that_the_resourcemanager_forgot_is_an_error() -> None:
    async def story(yarn: FakeYarn) -> ProbeResult:
        yarn.forgets = {2}
        return await probed(yarn, MAP_PRIORITY)

    with pytest.raises(probes_module.ProbeError, match="forgot a probe"):
        run(story)


def test_the_load_asks_for_a_part_of_its_calls_and_releases_what_it_gets() -> None:
    async def story() -> tuple[Measured, FakeYarn]:
        async with fake_yarn(slots=100) as yarn:
            load = LoadGenerator(yarn.scheduler, yarn.scheduler, {})
            try:
                await load.connect(await submit(yarn.rm, 4, silent, app_type="BUSY"))
                phase = LoadPhase(4, 0.05, 0.5, share=1, interval_s=0.02, asks_ratio=0.5)
                return await load.run(phase), yarn
            finally:
                await load.close()

    measured, yarn = asyncio.run(story())
    calls = sum(map(len, measured.latency_us))
    assert calls >= 20 and measured.granted == pytest.approx(calls / 2, rel=0.5)
    assert set(yarn.released) <= set(range(1, yarn.serial + 1)) and len(yarn.released) >= yarn.serial - 4
    assert {key for app in yarn.apps.values() for key in app.asked} == {(20, False)}


def test_the_steps_of_a_system_run_in_processes_of_their_own() -> None:
    async def story() -> tuple[Samples, list[str]]:
        async with fake_yarn(slots=100) as yarn:
            yarn.umbilical = lambda *_: None
            addresses = SimpleNamespace(client=yarn.rm, scheduler=yarn.scheduler, moved_scheduler=("127.0.0.1", 1))
            rm = SimpleNamespace(addresses=addresses)
            pids = {"rm": os.getpid(), "emulator": os.getpid()}
            checks: list[str] = []
            nodes = SimpleNamespace(check=lambda: checks.append("checked"))
            cluster: Any = SimpleNamespace(rm=rm, nodes=nodes, through=None, pids=pids)
            plan = GrantsPlan(
                ("stock",), (0, 40), masters=5, probes=2, rate=20, seconds=1.0, warm_up_s=0.1, heating_s=0.5
            )
            samples: Samples = defaultdict(list)
            await steps_of(plan, "stock", cluster, samples, lambda line: checks.append(line.split(",")[0]))
            return samples, checks

    samples, lines = asyncio.run(story())
    assert list(samples) == [("stock", 0), ("stock", 40)]
    (idle, nothing), (busy, load) = (rounds[0] for rounds in samples.values())
    assert nothing is None and load is not None
    assert idle.grants and busy.grants and load.granted
    assert set(busy.cpu_s) == {"rm", "nodes", "load", "probes", "machine"}
    assert lines.count("checked") == 2
    assert [line.partition(" (")[0] for line in lines if line.startswith("stock")] == ["stock at 0/s", "stock at 40/s"]
