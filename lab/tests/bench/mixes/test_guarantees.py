"""What queues and users get beside a flood, against what stock YARN gives them."""

from __future__ import annotations

import pytest

from quicksilver_lab.bench.emulator.model import JobRecord, RunResult, TaskRecord
from quicksilver_lab.bench.mixes.guarantees import compared, goals, jobs, labels, occupancy, routed, shortfall, wanting

UNTIL_S = 100


def run_of(*had: tuple[str, str, int], wait_s: float = 1.0, more: int = 0) -> RunResult:
    """Return a run of 100 s in which each (queue, user, slots) holds its slots with tasks of 10 s, and `more` wait."""
    found = []
    for number, (queue, user, slots) in enumerate(had):
        tasks = [
            TaskRecord(number, at, at - wait_s, at, float(at), at + 10.0)
            for at in range(0, UNTIL_S, 10)
            for _ in range(slots)
        ]
        tasks += [TaskRecord(number, 0, 0.0)] * more
        found.append(JobRecord(number, user, 0.0, 0.0, 100.0, tasks, queue=queue, user=user))
    last = JobRecord(99, "last", float(UNTIL_S), None, 101.0, [], queue="default", user="alice")
    return RunResult("c", "guarantees", 1, 10, 40, 10.0, 90.0, [*found, last])


def test_held_and_wanted_tasks_are_counted_each_second() -> None:
    tasks = [TaskRecord(1, 0, 1.5, 2.0, 3.5, 6.0), TaskRecord(1, 1, 1.5, None, None, None)]
    assert occupancy(tasks, 8) == [0, 0, 0, 0, 1, 1, 1, 0]
    assert wanting(tasks, 8) == [0, 0, 2, 2, 1, 1, 1, 1]


def test_who_has_less_while_it_waits_falls_short() -> None:
    stock, ours = run_of(("default", "alice", 10)), run_of(("default", "alice", 8), more=20)
    assert shortfall(("user", "alice"), stock, ours) == pytest.approx(0.2)
    assert shortfall(("queue", "default"), stock, stock) == 0.0
    assert shortfall(("user", "alice"), ours, stock) == 0.0, "more than stock YARN gives is no shortfall"


def test_who_wants_no_more_falls_short_of_nothing() -> None:
    stock, ours = run_of(("default", "alice", 10)), run_of(("default", "alice", 8), wait_s=0.0)
    assert shortfall(("user", "alice"), stock, ours) == 0.0


def test_queues_users_and_guaranteed_waits_have_goals() -> None:
    both = [("default", "alice", 20), ("default", "bob", 10), ("prod", "carol", 10)]
    stock = run_of(*[tuple(one) for one in both])
    ours = run_of(("default", "alice", 24), ("default", "bob", 6), ("prod", "carol", 10), wait_s=1.5, more=9)
    assert labels(ours) == [
        ("queue", "default"),
        ("queue", "prod"),
        ("user", "alice"),
        ("user", "bob"),
        ("user", "carol"),
    ]
    found = compared([stock], [ours])
    assert found["shortfall"]["user bob"] == pytest.approx(0.4)
    assert found["shortfall"]["queue default"] == found["shortfall"]["user carol"] == 0.0
    assert found["wait_added_s"] == pytest.approx(0.5)
    verdicts = goals(found)
    assert not verdicts["guarantees.shortfall.user bob"]["met"] and verdicts["guarantees.shortfall.queue prod"]["met"]
    assert not verdicts["guarantees.wait_added_s"]["met"]
    assert goals({}) == {} and compared([], [ours]) == {}


def test_everybody_offers_more_than_its_right_and_one_queue_is_guaranteed() -> None:
    found = jobs(256, 1)
    assert [job.number for job in found] == list(range(1, len(found) + 1)) and found != jobs(256, 2)
    assert found == sorted(found, key=lambda job: job.arrives_s)
    firsts = {job.user: job.arrives_s for job in reversed(found)}
    assert firsts["alice"] < 5 and 20 <= firsts["bob"] < 25 and 50 <= firsts["carol"] < 55
    assert {(job.queue, job.user) for job in found} == {("default", "alice"), ("default", "bob"), ("prod", "carol")}


def test_own_routes_stay_behind_the_guaranteed_queues() -> None:
    policies = {"queues": "*", "routes": [{"policy": "hybrid_gq"}]}
    assert routed(policies, ()) is policies
    assert routed(policies, ("prod",))["routes"] == [
        {"policy": "only_g", "match": {"queue": ["prod"]}},
        {"policy": "hybrid_gq"},
    ]
