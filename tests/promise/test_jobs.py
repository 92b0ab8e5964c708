"""Unmodified jobs under `policies: {}`: right, queueable, held by the sidecars, and nothing is left of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Clients
from quicksilver_lab.workloads.distributed_shell import marks, start_shell
from quicksilver_lab.workloads.mapreduce import JobResult, count_words, put_text, read_counts, start_wordcount
from quicksilver_lab.workloads.records import (
    GUARANTEED,
    RecordedGrants,
    RecordsWatch,
    RecordTally,
    application_of,
    is_master,
)
from quicksilver_lab.workloads.run_records import RunWay, held_starts, measure
from tests.promise.helpers import TEXT, WITHIN_S, logged, nothing_left, options, running, taken_back, until

pytestmark = [pytest.mark.promise, pytest.mark.hadoop]
MAPS, REDUCES, SHELLS = 3, 1, 4
STORED_S = 30.0
"""Until the proxy's store has what happened."""


@dataclass(frozen=True)
class Done:
    """Two jobs that ran side by side."""

    stack: LocalDaemons
    job: JobResult
    counted: dict[str, int]
    way: RunWay
    shell: str
    """Its application."""
    tally: RecordTally
    """The shell's."""
    granted: RecordedGrants

    def started(self, app: str) -> list[str]:
        """Return an application's containers that were not given back before they started, by the RM's log."""
        given = self.granted.all - self.granted.released
        return sorted(c for c in given if application_of(c) == app and not is_master(c))

    def taken_back(self, app: str) -> int:
        """Return how many of an application's containers were given back before they started."""
        return taken_back(self.stack, self.granted, app)

    def held(self, app: str, expected: int) -> tuple[int, int]:
        """Return how many starts of an application were held by the proxy's store, and how many the nodes confirm.

        expected: the store is asked again for a while until it has so many.
        """
        way, end_s = replace(self.way, job_id=app.replace("application_", "job_")), time.monotonic() + STORED_S
        while (found := held_starts(self.stack, way)).count < expected and time.monotonic() < end_s:
            time.sleep(0.5)
        return found.count, found.confirmed


@pytest.fixture(scope="module")
def done(jobs_cluster: Cluster) -> Iterator[Done]:
    with running(jobs_cluster, {}, "jobs") as stack:
        put_text(jobs_cluster, "/jobs/input", TEXT)
        with RecordsWatch(jobs_cluster) as watch, Clients() as together:
            job = start_wordcount(jobs_cluster, "/jobs/input", "/jobs/counted", maps=MAPS, options=options())
            together.add(job.client)
            shell = together.add(start_shell(jobs_cluster, GUARANTEED, SHELLS, sleep_s=2))
            result = job.wait(WITHIN_S)
            app = clients.application_id(shell.wait(WITHIN_S))
        way = measure(jobs_cluster, "quicksilver", result, watch, "")
        counted = read_counts(jobs_cluster, "/jobs/counted")
        yield Done(stack, result, counted, way, app, watch.tally(app), watch.granted())


def test_results_are_right(done: Done) -> None:
    assert done.counted == count_words(TEXT)
    assert (done.job.failed_attempts, done.job.killed_attempts) == (0, done.taken_back(done.job.application_id))
    assert done.job.maps == MAPS
    assert len(done.started(done.shell)) == SHELLS

    cluster = done.stack.cluster
    for container in done.started(done.shell):  # what a shell echoes goes to the log of its launch
        until(f"mark of {container}", lambda one=container: marks(logged(cluster, one, "prelaunch.out")) == {one}, 60)


def test_tasks_are_granted_and_run_as_opportunistic(done: Done) -> None:
    assert done.way.nm_opportunistic == MAPS + REDUCES, done.way
    assert done.way.rm_opportunistic == MAPS + REDUCES + done.taken_back(done.job.application_id), done.way
    assert done.way.disagreeing == ()
    assert done.tally.nm_opportunistic == done.tally.ran == SHELLS, done.tally
    assert done.tally.rm_opportunistic == done.tally.granted == SHELLS + done.taken_back(done.shell), done.tally
    assert done.tally.disagreeing == ()


def test_each_start_was_held_and_sent_when_the_sidecar_says(done: Done) -> None:
    assert done.held(done.job.application_id, MAPS + REDUCES) == (MAPS + REDUCES, MAPS + REDUCES)
    assert done.held(done.shell, SHELLS) == (SHELLS, SHELLS)


def test_nothing_is_left_and_nothing_was_launched_twice(done: Done) -> None:
    nothing_left(done.stack.cluster, done.stack, "jobs")
