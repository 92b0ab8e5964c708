"""Whole applications over real RPC against a small YARN in the test's loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.tests.bench.emulator.fake_yarn import FakeYarn, fake_yarn
from quicksilver_lab.bench.emulator.masters import session
from quicksilver_lab.bench.emulator.masters.application import ApplicationSpec, MasterRecord
from quicksilver_lab.bench.emulator.masters.application_masters import ApplicationMasters, ApplicationMastersSettings

BEAT_S = 0.01
ELASTIC = ApplicationSpec(1, 0.0, "batch-elastic", 3, 2, 1024, 1024, 0.1, 2)
RIGID = ApplicationSpec(2, 0.0, "batch-rigid", 2, 0, 1024, 1024, 0.1)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "AGAIN_S", BEAT_S)


def run(
    *specs: ApplicationSpec,
    slots: int = 5,
    prepare: Callable[[FakeYarn], None] = lambda fake: None,
    stop_after_s: float | None = 20.0,
) -> tuple[list[MasterRecord], ApplicationMasters, FakeYarn]:
    async def story() -> tuple[list[MasterRecord], ApplicationMasters, FakeYarn]:
        async with fake_yarn(slots=slots) as fake:
            prepare(fake)
            began: dict[str, float] = {}

            def served(_node: str, container_id: str) -> float | None:
                return time.monotonic() - began[container_id] if container_id in fake.running else None

            masters = ApplicationMasters(
                fake.rm, fake.scheduler, served, ApplicationMastersSettings(heartbeat_s=BEAT_S, tick_s=0.005)
            )

            def umbilical(container_id: str, kind: str, now_s: float) -> None:
                began.setdefault(container_id, time.monotonic())
                masters.umbilical(container_id, kind, now_s)  # type: ignore[arg-type]

            fake.umbilical = umbilical
            return await masters.run(specs, stop_after_s=stop_after_s), masters, fake

    return asyncio.run(story())


def test_applications_run_one_after_the_other_where_there_is_no_room_for_both() -> None:
    records, masters, fake = run(ELASTIC, RIGID, slots=5)
    assert [record.errors for record in records] == [[], []]
    for record in records:
        moments = (record.submitted_s, record.registered_s, record.first_core_s, record.began_s, record.ended_s)
        assert None not in moments and list(moments) == sorted(moments)  # type: ignore[type-var]
    assert [(record.ended_s or 0) - (record.began_s or 0) >= 0.09 for record in records] == [True, True]
    assert {app.finished for app in fake.apps.values()} == {"finished"}
    assert fake.apps[1].tags == ("core:10=3", "runtime_s:0.100")
    assert not fake.running, "each component was stopped"
    assert masters.counts["starts"] == masters.counts["stops"] == 7
    assert (masters.counts["doubled"], masters.counts["strays"], masters.counts["failed_applications"]) == (0, 0, 0)


def test_what_is_lost_is_started_again() -> None:
    records, masters, _ = run(ELASTIC, prepare=lambda fake: fake.kills.update({2: -100, 5: -102}))
    (record,) = records
    assert record.ended_s is not None and not record.errors
    assert record.lost_core + record.preempted + record.lost_elastic == 2
    assert masters.counts["starts"] == 7
    assert (masters.counts["exit_-100"], masters.counts["exit_-102"]) == (1, 1)


def test_a_refused_start_is_tried_with_another_container() -> None:
    records, masters, fake = run(ELASTIC, prepare=lambda fake: fake.refuse.update({1: "no room"}))
    (record,) = records
    assert record.ended_s is not None and "no room" in record.errors[0]
    assert (masters.counts["refused"], fake.released) == (1, [1])


@pytest.mark.parametrize("what", ("forgets", "hang_ups"))
def test_a_master_that_is_forgotten_or_cut_off_goes_on(what: str) -> None:
    spec = replace(ELASTIC, runtime_s=0.2)
    records, masters, _ = run(spec, prepare=lambda fake: getattr(fake, what).update({0, 2}))
    assert records[0].ended_s is not None
    assert masters.counts["resyncs" if what == "forgets" else "reconnects"] == 2


def test_what_is_not_over_in_time_is_killed_and_says_so() -> None:
    records, masters, fake = run(RIGID, slots=1, stop_after_s=0.3)
    assert records[0].ended_s is None and records[0].began_s is None
    assert "cut off before its end" in records[0].errors
    assert masters.counts["failed_applications"] == 1
    assert fake.apps[1].finished == "killed"


def test_an_application_that_yarn_refuses_is_an_error_of_its_own() -> None:
    records, masters, _ = run(replace(RIGID, queue="closed"), ELASTIC)
    assert "queue is closed" in records[0].errors[0]
    assert records[1].ended_s is not None
    assert masters.counts["failed_applications"] == 1
