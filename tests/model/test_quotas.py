"""Quotas and their changes through all machines, with YARN's models at both ends: what runs, waits and is asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from policies.config.policy_set import Policies
from tests.model.checks import check
from tests.model.requestor import Want
from tests.model.world import Run, registry

TASKS = 24


def settings(quota: dict[str, Any], route: str = "only_q") -> dict[str, Any]:
    return {
        "queues": "*",
        "routes": [{"policy": route}],
        "quota": quota,
        "place": {"policy": "least_queue"},
        "retries_to_g": 9,
    }


def absolute(most: int) -> dict[str, Any]:
    return {"policy": "absolute", "settings": {"max_q": most}}


class Job:
    """One job of many tasks on two nodes of four places; queueable containers end when they are told to."""

    def __init__(self, quota: dict[str, Any], tasks: int = TASKS) -> None:
        self.run = Run(settings(quota), ("SPARK",), nodes=2, seed=3)
        (self.am,) = self.run.ams
        for _ in range(tasks):
            self.am.ask(Want(0, 20, memory_mb=1024))

    def use(self, quota: dict[str, Any], route: str = "only_q") -> None:
        self.run.use(Policies.load(settings(quota, route), registry()))

    def step(self, end: int = 0) -> None:
        """A second: reports, heartbeats, starts; up to `end` containers of each node end before."""
        run = self.run
        for node_id, site in run.sites.items():
            for container_id in sorted(site.running)[:end]:
                site.finish(container_id, 0)
            run.node_heartbeat(node_id)
        run.tick(1.0)
        run.heartbeat(self.am)
        for container_id, assigned in list(self.am.assigned.items()):
            if assigned.call_id is None:
                run.start(self.am, container_id)
        run.look(self.am)
        check(run)

    def running(self) -> Counter[str]:
        """Return what the NodeManagers run, by kind."""
        processes = [p for site in self.run.sites.values() for p in site.running.values()]
        return Counter("Q" if p.opportunistic else "G" for p in processes)

    def waiting(self) -> int:
        return sum(len(site.node.state.queue) for site in self.run.sites.values())

    def queueable(self) -> int:
        """Return what counts against the quota: asked for, waiting, running."""
        attempt = self.run.coordinator.attempts[self.am.attempt_id]
        return attempt.live.count_q + attempt.table.sums.open_q

    def finish(self) -> None:
        self.run.settle()
        check(self.run)
        assert self.am.done == TASKS and self.am.surplus <= self.run.rm.excess[self.am.number]
        self.run.close()


def test_a_quota_of_three_never_shows_four_running() -> None:
    job = Job(absolute(3))
    most = 0
    for second in range(30):
        job.step(end=second % 2)
        assert job.running()["Q"] <= 3 and job.queueable() <= 3
        most = max(most, job.running()["Q"])
    assert most == 3
    job.finish()


def test_a_lowered_quota_empties_the_queues_and_leaves_what_runs() -> None:
    job = Job(absolute(TASKS))
    for _ in range(4):
        job.step()
    before = job.running()["Q"]
    assert (before, job.waiting()) == (8, TASKS - 8), "both nodes are full"
    job.use(absolute(3))
    for _ in range(3):
        job.step()
    assert job.waiting() == 0
    assert job.running()["Q"] == before, "what runs goes on"
    for _ in range(4):
        job.step(end=1)
        assert job.running()["Q"] <= before
    while job.running()["Q"] > 3:
        job.step(end=1)
    for _ in range(10):
        job.step()
        assert job.running()["Q"] <= 3 and job.queueable() <= 3
    job.finish()


def test_a_raised_quota_takes_guaranteed_asks_back() -> None:
    """All but three are asked for as guaranteed; seven of them are not, as soon as the quota is ten."""
    job = Job(absolute(3))
    job.step()
    attempt = job.run.coordinator.attempts[job.am.attempt_id]
    before = sum(entry.g_share for entry in attempt.entries)
    assert (before, job.queueable()) == (TASKS - 3, 3)
    job.use(absolute(10))
    job.run.heartbeat(job.am)
    assert job.queueable() == 10
    assert sum(entry.g_share for entry in attempt.entries) == before - 7
    job.finish()


@pytest.mark.parametrize("route", ["only_g", "only_q"])
def test_routes_that_change_back_and_forth_lose_and_double_nothing(route: str) -> None:
    job = Job(absolute(5))
    for turn in range(8):
        job.use(absolute(5), "only_g" if turn % 2 else "only_q")
        job.step(end=turn % 3)
    job.use(absolute(5), route)
    job.finish()


def test_a_quota_by_guaranteed_ones_follows_them() -> None:
    job = Job({"policy": "relative", "settings": {"per_g": 1.0, "min_q": 1}})
    attempt = job.run.coordinator.attempts[job.am.attempt_id]
    for second in range(12):
        held = len(attempt.live) - attempt.live.count_q
        before = job.queueable()
        job.step(end=second % 2)
        assert job.queueable() <= max(before, held, 1)
    job.finish()
