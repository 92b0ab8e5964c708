"""What the ResourceManager of the emulated cluster is configured with."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
import uvloop

from quicksilver_lab.bench.emulator.rm import (
    FAIR,
    OPPORTUNISTIC,
    NodeShape,
    RmOptions,
    allocations,
    cancelled_by_sigterm,
    spec,
)


def test_the_stock_one_knows_nothing_of_quicksilver_nor_of_opportunistic_containers() -> None:
    made = spec(Path("/x"), NodeShape(4, 8192), RmOptions())
    yarn = made.extra_site["yarn"]
    assert made.rm_only and not made.overlay
    assert (made.node_vcores, made.node_memory_mb) == (4, 8192)
    assert yarn["yarn.resourcemanager.nodemanagers.heartbeat-interval-ms"] == "1000"
    assert "yarn.resourcemanager.scheduler.class" not in yarn and not OPPORTUNISTIC.items() & yarn.items()


def test_a_competitor_lays_its_settings_over_all() -> None:
    options = RmOptions(
        scheduler="fair",
        heartbeat_s=0.5,
        yarn={**OPPORTUNISTIC, "yarn.resourcemanager.scheduler.class": "mine"},
        capacity_scheduler={"yarn.scheduler.capacity.maximum-applications": "7"},
    )
    sites = spec(Path("/x"), NodeShape(), options).extra_site
    assert OPPORTUNISTIC.items() <= sites["yarn"].items()
    assert sites["yarn"]["yarn.resourcemanager.nodemanagers.heartbeat-interval-ms"] == "500"
    assert sites["yarn"]["yarn.resourcemanager.scheduler.class"] == "mine"
    assert sites["capacity-scheduler"]["yarn.scheduler.capacity.maximum-applications"] == "7"
    fair = spec(Path("/x"), NodeShape(), RmOptions(scheduler="fair")).extra_site["yarn"]
    assert fair["yarn.resourcemanager.scheduler.class"] == FAIR
    assert fair["yarn.scheduler.fair.allocation.file"] == "/x/fair-scheduler.xml"


def test_queues_and_more_of_the_fair_scheduler_stand_in_its_allocation_file() -> None:
    options = RmOptions(queues={"wide": 60, "short": 40}, fair_scheduler={"defaultFairSharePreemptionTimeout": "5"})
    root = fromstring(allocations(options))
    assert {queue.get("name"): queue.findtext("weight") for queue in root.findall("queue")} == {
        "wide": "60",
        "short": "40",
    }
    assert root.findtext("defaultFairSharePreemptionTimeout") == "5"


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_sigterm_cancels_what_runs_so_that_it_clears_up(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    before, cleared = signal.getsignal(signal.SIGTERM), []

    async def go() -> None:
        with cancelled_by_sigterm():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(60)
            finally:
                cleared.append(True)

    with asyncio.Runner(loop_factory=loop_factory) as runner, pytest.raises(asyncio.CancelledError):
        runner.run(go())
    assert cleared == [True] and signal.getsignal(signal.SIGTERM) is before
