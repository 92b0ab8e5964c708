"""Percentiles of completion time and slowdown."""

from __future__ import annotations

from quicksilver_lab.bench.emulator.model import MAP, JobRecord, JobSpec, TaskSpec
from quicksilver_lab.bench.mixes.bound import Slots
from quicksilver_lab.bench.mixes.slowdown import alone_s, cdf, mean_cdf

REDUCE = 1


def ended(number: int, klass: str, took_s: float) -> JobRecord:
    job = JobRecord(number, klass, 5.0)
    job.ended_s = 5.0 + took_s
    return job


def test_a_class_alone_has_all_slots_and_the_delays_of_the_protocol() -> None:
    narrow = JobSpec(1, 3.0, "narrow", (TaskSpec(10.0), TaskSpec(4.0, REDUCE)))
    wide = JobSpec(2, 9.0, "wide", (TaskSpec(10.0),) * 3)
    found = alone_s([narrow, wide], Slots(2))
    assert MAP == 0 and found["narrow"] == 0.25 + 1.0 + 0.1 + 10.0 + 1.0 + 0.1 + 4.0
    assert abs(found["wide"] - (0.25 + 1.0 + 0.1 + 10.0 + 0.03 + 0.1 + 10.0)) < 1e-9


def test_percentiles_of_latency_and_slowdown() -> None:
    jobs = [ended(1, "a", 10.0), ended(2, "b", 40.0)]
    found = cdf(jobs, {"a": 5.0, "b": 40.0})
    assert (found["latency_s"]["p50"], found["slowdown"]["p50"]) == (25.0, 1.5)
    assert found["slowdown"]["p99"] == 1.99 and list(found["slowdown"]) == ["p10", "p25", "p50", "p75", "p90", "p99"]
    other = cdf([ended(1, "a", 20.0)], {"a": 5.0})
    assert mean_cdf([found, other])["latency_s"]["p50"] == 22.5
    assert cdf([], {}) == {} and mean_cdf([]) == {}
