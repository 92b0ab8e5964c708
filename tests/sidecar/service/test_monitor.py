"""Memory of the machine and the containers of a sidecar: what is measured, and what the guard's word leads to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from quicksilver.common.errors import SettingsError
from sidecar.config import SidecarSettings
from sidecar.memory.pressure import Gauge, Pressure
from tests.sidecar.fakes import FakeAm, cid, start_request
from tests.sidecar.service.test_server import until, world


@dataclass
class Measured(Gauge):
    """A gauge that says what it is told."""

    free_mb: int

    def read(self) -> Pressure:
        return Pressure(16_384, self.free_mb, 0, 0.0, 0.25)


async def test_short_memory_holds_starts_up_and_the_last_resort_kills_a_queueable_one(tmp_path: Path) -> None:
    async with world(tmp_path, reserve_mb=512, guard_last_resort_mb=100, guard_calm_s=0.0, kill_wait_s=1.0) as w:
        gauge = w.sidecar.monitor._gauge = Measured(8000)
        await w.grant(2, 3)
        am = await FakeAm.connect(w.port)
        await am.start(start_request(cid(2), opportunistic=True))
        await until(lambda: w.nm.running == {cid(2)})
        gauge.free_mb = 400
        w.sidecar.monitor.check_memory()
        await am.start(start_request(cid(3), opportunistic=True))
        why = (await w.get(f"/v1/containers/{cid(3)}")).json()["why"]
        assert why.startswith("waits for physical memory: ") and "400 MB" in why
        text = (await w.get("/metrics")).text
        assert "quicksilver_sidecar_memory_squeezed 1.0" in text
        assert 'quicksilver_sidecar_stall_ratio{what="cpu"} 0.25' in text
        gauge.free_mb = 50
        w.sidecar.monitor.check_memory()
        await until(lambda: w.proxy.kinds(cid(2)) == ["held", "started", "killed"])
        killed = next(e for e in w.proxy.events if e.kind == "killed")
        assert "50 MB" in killed.reason, "the reason names the figures"
        await until(lambda: cid(2) not in w.nm.running)  # it is reported when the kill is ordered
        await asyncio.sleep(0.3)
        assert w.nm.running == set(), "and nothing starts in its place"
        gauge.free_mb = 8000
        w.sidecar.monitor.check_memory()
        await until(lambda: w.nm.running == {cid(3)}, 15)
        await am.close()


def test_contradicting_bounds_are_one_clear_error() -> None:
    with pytest.raises(SettingsError, match="last_resort_mb 600 is not within 0 and reserve_mb 512"):
        SidecarSettings(guard_last_resort_mb=600).guard_rules(16_384)
