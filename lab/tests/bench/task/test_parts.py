"""The clock of parts: each moment counts for the function that runs, and for one alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from quicksilver_lab.bench.task.parts import LOOP, PARTS, PartClock, watch


class Hours:
    """Time that passes where it is let pass."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def work(self, seconds: float) -> None:
        self.now_s += seconds


def test_a_part_has_no_time_while_another_one_runs_that_it_called() -> None:
    hours = Hours()
    clock = PartClock(hours)
    inner = clock.with_timer("inner", hours.work)

    def work() -> str:
        hours.work(1)
        inner(2)
        hours.work(4)
        return "done"

    assert clock.with_timer("outer", work)() == "done"
    hours.work(8)
    assert clock.reading() == {"outer": 5, "inner": 2, LOOP: 8}


def test_it_counts_what_raised_too_and_goes_on() -> None:
    hours = Hours()
    clock = PartClock(hours)

    def fail() -> None:
        hours.work(3)
        raise ValueError("no")

    try:
        clock.with_timer("failing", fail)()
    except ValueError:
        hours.work(1)
    assert clock.reading() == {"failing": 3, LOOP: 1}


def test_steps_of_a_generator_count_and_what_runs_between_them_does_not() -> None:
    hours = Hours()
    clock = PartClock(hours)

    def steps() -> Iterator[int]:
        for number in range(2):
            hours.work(1)
            yield number

    for _ in clock.with_timed_steps("steps", steps)():
        hours.work(10)
    assert clock.reading() == {"steps": 2, LOOP: 20}


def test_another_thread_is_not_counted() -> None:
    hours = Hours()
    clock = PartClock(hours)
    thread = threading.Thread(target=clock.with_timer("part", hours.work), args=(5,))
    thread.start()
    thread.join()
    assert "part" not in clock.reading()


def test_functions_are_wrapped_in_place() -> None:
    class Owner:
        def work(self) -> int:
            return 7

    clock = PartClock()
    watch(clock, {"part": ((Owner, ("work",)),)})
    assert Owner().work() == 7
    assert clock.reading()["part"] >= 0


def test_each_function_of_the_proxy_is_there_and_belongs_to_one_part() -> None:
    functions = [(owner, name) for part in PARTS.values() for owner, names in part for name in names]
    assert len(set(functions)) == len(functions)
    assert [name for owner, name in functions if name not in vars(owner)] == []
