"""The bound on cases that are reckoned by hand: 0.25 s to register, 1 s to the first ask, 0.1 s to start."""

from __future__ import annotations

from itertools import repeat

import pytest

from quicksilver_lab.bench.emulator.model import REDUCE, JobSpec, TaskSpec
from quicksilver_lab.bench.mixes.bound import Delays, Omniscient, Slots


def job(number: int, arrives_s: float, *durations_s: float, reduces: tuple[float, ...] = ()) -> JobSpec:
    tasks = [TaskSpec(seconds) for seconds in durations_s] + [TaskSpec(seconds, REDUCE) for seconds in reduces]
    return JobSpec(number, arrives_s, "k", tuple(tasks))


def ends(slots: Slots, *jobs: JobSpec, preemptive: bool = False) -> list[float]:
    found = Omniscient(slots, preemptive=preemptive).run(jobs)
    return [round(one.ended_s or 0.0, 3) for one in found]


def test_a_task_pays_registration_heartbeat_and_start() -> None:
    (found,) = Omniscient(Slots(1)).run([job(7, 10.0, 2.0)])
    assert (found.number, found.submitted_s, found.registered_s, found.work_s) == (7, 10.0, 10.25, 2.0)
    (task,) = found.tasks
    assert [task.wanted_s, task.granted_s, task.started_s, task.ended_s] == pytest.approx([10.25, 11.25, 11.35, 13.35])
    assert found.ended_s == task.ended_s


def test_reduces_are_asked_for_a_heartbeat_after_the_last_map() -> None:
    assert ends(Slots(2), job(1, 0.0, 1.0, 2.0, reduces=(3.0, 3.0))) == pytest.approx([7.45])


def test_reduces_alone_are_asked_for_at_once() -> None:
    assert ends(Slots(1), job(1, 0.0, reduces=(3.0,))) == [4.35]


def test_a_slot_is_given_again_when_its_end_was_reported() -> None:
    assert ends(Slots(1), job(1, 0.0, 2.0, 2.0)) == pytest.approx([5.48])


def test_the_job_with_the_least_work_left_goes_first() -> None:
    first, wide, short, least = job(0, -0.5, 1.0), job(1, 0.0, 4.0, 4.0), job(2, 0.0, 5.0), job(3, 0.0, 1.0)
    least_s = 1.85 + 0.13 + 1.0
    short_s = least_s + 0.13 + 5.0
    wide_s = short_s + 0.13 + 4.0 + 0.13 + 4.0
    assert ends(Slots(1), first, wide, short, least) == [1.85, round(wide_s, 3), round(short_s, 3), round(least_s, 3)]


def test_the_longest_task_of_a_job_starts_first() -> None:
    assert ends(Slots(2), job(1, 0.0, 1.0, 1.0, 2.0)) == pytest.approx([3.48])


def test_a_paused_task_goes_on_where_it_was() -> None:
    long, short = job(1, 0.0, 10.0), job(2, 3.0, 2.0)
    assert ends(Slots(1), long, short) == [11.35, 13.48]
    short_s = 3.0 + 1.35 + 2.0
    ran_s = 4.25 - 1.35  # the long one, when the short one's ask came
    assert ends(Slots(1), long, short, preemptive=True) == [round(short_s + 0.03 + 10.0 - ran_s, 3), short_s]


def test_nobody_gives_way_to_a_job_with_as_much_work_left() -> None:
    assert ends(Slots(1), job(1, 0.0, 3.0), job(2, 0.0, 3.0), preemptive=True) == [4.35, 7.48]


def test_endless_slots_leave_the_delays_alone() -> None:
    jobs = [job(number, 0.0, *repeat(2.0, 300)) for number in range(5)]
    assert ends(Slots(None), *jobs) == [3.35] * 5


def test_fast_slots_are_taken_first() -> None:
    slots = Slots(2, slow=1, slow_times=3.0)
    assert ends(slots, job(1, 0.0, 2.0)) == [3.35]
    assert ends(slots, job(1, 0.0, 2.0, 2.0)) == [7.35]


def test_in_a_closed_loop_the_next_job_comes_when_one_ends() -> None:
    endless = (job(number, 0.0, 2.0) for number in range(1000))
    found = Omniscient(Slots(4)).run(endless, concurrent=2, submit_for_s=5.0)
    assert [round(one.submitted_s, 3) for one in found] == [0.0, 0.0, 3.35, 3.35]


def test_other_delays() -> None:
    (found,) = Omniscient(Slots(1), Delays(0.0, 0.2, 0.0, 0.0)).run([job(1, 0.0, 1.0)])
    assert found.ended_s == pytest.approx(1.2)
