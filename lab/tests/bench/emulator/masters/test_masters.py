"""Masters over real RPC against a small YARN in the test's loop: jobs come to their end, whatever breaks on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from itertools import count

import pytest

from lab.tests.bench.emulator.fake_yarn import FakeYarn, fake_yarn
from quicksilver_lab.bench.emulator.masters import masters as masters_module
from quicksilver_lab.bench.emulator.masters import session
from quicksilver_lab.bench.emulator.masters.am import AmSettings
from quicksilver_lab.bench.emulator.masters.masters import Masters, MastersSettings
from quicksilver_lab.bench.emulator.model import REDUCE, JobRecord, JobSpec, TaskSpec

BEAT_S = 0.01
SHORT = TaskSpec(0.005)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "AGAIN_S", BEAT_S)
    monkeypatch.setattr(masters_module, "START_AGAIN_S", BEAT_S)


def job(number: int, *tasks: TaskSpec, **more: object) -> JobSpec:
    return JobSpec(number, 0.0, "short", tasks or (SHORT,) * 3, **more)  # type: ignore[arg-type]


def run(
    jobs: Iterable[JobSpec],
    prepare: Callable[[FakeYarn], None] = lambda fake: None,
    settings: AmSettings | None = None,
    linger_beats: int = 0,
    most_links: int = 100,
    clock: Callable[[], float] = time.monotonic,
    **more: object,
) -> tuple[list[JobRecord], Masters, FakeYarn]:
    async def story() -> tuple[list[JobRecord], Masters, FakeYarn]:
        async with fake_yarn() as fake:
            prepare(fake)
            chosen = MastersSettings(
                settings or AmSettings(), heartbeat_s=BEAT_S, linger_beats=linger_beats, most_links=most_links
            )
            masters = Masters(fake.rm, fake.scheduler, chosen, clock=clock)
            fake.umbilical = masters.umbilical
            return await masters.run(jobs, **more), masters, fake  # type: ignore[arg-type]

    return asyncio.run(story())


def assert_done(records: list[JobRecord], masters: Masters) -> None:
    for record in records:
        assert record.ended_s is not None, record.errors
        assert all(task.ended_s is not None and task.ended_s <= record.ended_s for task in record.tasks)
    assert (masters.counts["lost"], masters.counts["doubled"], masters.living) == (0, 0, 0)


def test_jobs_run_to_their_end_and_every_moment_is_recorded() -> None:
    records, masters, fake = run([job(n, told_s=2.5) for n in range(1, 4)])
    assert_done(records, masters)
    assert [record.errors for record in records] == [[]] * 3
    assert fake.apps[1].tags == ("expected_s:2.500",)
    assert {app.finished for app in fake.apps.values()} == {"finished"}
    assert masters.counts["starts"] == masters.counts["granted"] == 9
    for record in records:
        for task in record.tasks:
            moments = (task.wanted_s, task.granted_s, task.started_s, task.ended_s)
            assert None not in moments and list(moments) == sorted(moments)  # type: ignore[type-var]


def test_jobs_with_reduces_and_opportunistic_maps() -> None:
    tasks = (*(SHORT,) * 10, TaskSpec(0.005, REDUCE), TaskSpec(0.005, REDUCE))
    records, masters, _ = run([job(1, *tasks)], settings=AmSettings(opportunistic_percent=100))
    assert_done(records, masters)
    (record,) = records
    assert [task.opportunistic for task in record.tasks] == [True] * 10 + [False] * 2
    last_map_s = max(task.ended_s or 0 for task in record.tasks[:10])
    assert all((task.started_s or 0) > last_map_s for task in record.tasks[10:])


def test_killed_refused_and_failed_containers_are_made_up_for() -> None:
    def prepare(fake: FakeYarn) -> None:
        fake.kills = {1: -102, 2: -108, 3: 143}
        fake.refuse = {4: "no room"}

    records, masters, _ = run([job(1, *(SHORT,) * 6)], prepare)
    assert_done(records, masters)
    (record,) = records
    assert masters.counts["killed"] == sum(task.killed for task in record.tasks) == 2
    assert masters.counts["refused"] == 1
    assert [masters.counts[f"exit_{status}"] for status in (-102, -108, 143)] == [1, 1, 1]
    assert any("exit 143" in error for error in record.errors) and any("no room" in e for e in record.errors)


def test_a_task_that_fails_too_often_fails_its_job_alone() -> None:
    records, masters, fake = run(
        [job(1, SHORT), job(2)], lambda fake: fake.refuse.update({1: "never"}), AmSettings(most_failures=1)
    )
    failed = [record for record in records if record.ended_s is None]
    assert len(failed) == 1 and any("never" in error for error in failed[0].errors)
    assert masters.counts["failed_jobs"] == 1
    assert masters.counts["lost"] == 0, "a failed job does not claim to be done"
    assert {app.finished for app in fake.apps.values()} == {"finished"}


@pytest.mark.parametrize("what", ("forgets", "hang_ups"))
def test_a_master_that_is_forgotten_or_cut_off_goes_on(what: str) -> None:
    records, masters, fake = run([job(1, *(SHORT,) * 20)], lambda fake: getattr(fake, what).update({0, 1, 3}))
    assert_done(records, masters)
    assert masters.counts["resyncs" if what == "forgets" else "reconnects"] == 3 - len(getattr(fake, what))
    assert masters.counts["reconnects" if what == "forgets" else "resyncs"] == 0
    assert max(fake.starts.values()) == 1


def test_a_start_whose_answer_is_lost_is_sent_again_and_not_doubled() -> None:
    records, masters, _ = run([job(1)], lambda fake: fake.hang_up_starts.update({1, 2}))
    assert_done(records, masters)
    assert masters.counts["retried_starts"] >= 1 and masters.counts["refused"] == 0
    assert [record.errors for record in records] == [[]]


def test_few_connections_are_enough() -> None:
    records, masters, _ = run([job(n, *(SHORT,) * 8) for n in range(1, 5)], most_links=1)
    assert_done(records, masters)
    assert masters.counts["evicted_links"] > 0


def test_a_closed_loop_keeps_so_many_jobs_under_way() -> None:
    records, masters, fake = run((job(n) for n in range(1, 8)), concurrent=2)
    assert_done(records, masters)
    assert len(records) == len(fake.apps) == 7
    moments = [(record.submitted_s, 1) for record in records] + [(record.ended_s or 0.0, -1) for record in records]
    under_way = 0
    for _, more in sorted(moments):
        under_way += more
        assert 0 <= under_way <= 2


def test_nothing_is_submitted_when_the_time_is_over() -> None:
    late = JobSpec(2, 999.0, "late", (SHORT,))
    records, masters, _ = run([job(1), late, late], submit_for_s=998.0)
    assert_done(records, masters)
    assert [record.number for record in records] == [1]
    ticks = count()
    records, masters, _ = run(
        (job(n) for n in count(1)), concurrent=2, submit_for_s=100.0, clock=lambda: float(next(ticks))
    )
    assert_done(records, masters)
    assert 2 <= len(records) < 100 and all(record.submitted_s <= 103.0 for record in records)


@pytest.mark.long
def test_what_is_not_over_in_time_is_killed_and_says_so() -> None:
    records, masters, fake = run([job(1, TaskSpec(999.0)), job(2)], stop_after_s=3.0)
    cut, done = records
    assert cut.ended_s is None and cut.errors == ["cut off before its end"] and done.ended_s is not None
    assert fake.apps[1].finished == "killed" or fake.apps[2].finished == "killed"
    assert masters.counts["lost"] == 0 and masters.living == 0


def test_a_job_that_is_not_let_in_says_why() -> None:
    records, masters, _ = run([job(1, queue="closed"), job(2)])
    assert "queue is closed" in records[0].errors[0] and records[1].ended_s is not None
    assert masters.counts["failed_jobs"] == 1


def test_masters_linger_until_yarn_has_seen_the_end_of_their_containers() -> None:
    records, masters, fake = run([job(1)], linger_beats=50)
    assert_done(records, masters)
    assert not fake.apps[1].ends


def test_the_ledger_counts_what_masters_do_not_see() -> None:
    ledger = Masters(("127.0.0.1", 1), ("127.0.0.1", 1)).ledger
    ledger.assigned("a", 1, 0)
    ledger.assigned("b", 1, 0)
    for name in ("a", "b", "stray"):
        ledger.heard(name, "began")
        ledger.heard(name, "done")
    assert (ledger.doubled, ledger.strays) == (1, 2)
    assert ledger.lost([job(1, SHORT, SHORT)]) == 1
    ledger.heard("a", "began")
    assert ledger.doubled == 2


def test_what_was_given_up_is_late_and_not_double() -> None:
    ledger = Masters(("127.0.0.1", 1), ("127.0.0.1", 1)).ledger
    for name in ("early", "held", "good"):
        ledger.assigned(name, 1, 0)
    ledger.heard("early", "began")
    ledger.given_up("early")
    ledger.given_up("held")
    ledger.heard("early", "done")
    ledger.heard("held", "began")
    ledger.heard("good", "done")
    assert (ledger.late_begins, ledger.late_ends, ledger.doubled, ledger.lost([job(1, SHORT)])) == (1, 1, 0, 0)
