"""Unmodified jobs under `policies: {}`: right, queueable, held by the sidecars, and nothing is left of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
import requests

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
from tests.promise.helpers import TEXT, WITHIN_S, logged, nothing_left, options, running, until

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

    @property
    def shells(self) -> list[str]:
        """The shell's containers, by the ResourceManager's log."""
        return sorted(c for c in self.granted.all if application_of(c) == self.shell and not is_master(c))

    @property
    def given_back(self) -> int:
        """How many containers the shell's master had too many, as its log says.

        Distributed shell takes a request back once it has a container for it. A heartbeat that leaves before asks for
        one more, on stock YARN too; the master gives it back unused.
        """
        (master,) = (c for c in self.granted.all if application_of(c) == self.shell and is_master(c))
        said = until(f"log of {master}", lambda: logged(self.stack.cluster, master, "AppMaster.stderr"), STORED_S)
        assert "Got response from RM for container ask" in said, said
        return said.count("Releasing the extra container allocation")

    def marked(self) -> list[str]:
        """Return those of the shell's containers that ran: what a shell echoes goes to the log of its launch."""
        found = []
        for container in self.shells:
            with suppress(requests.RequestException):  # of one that never ran there is none
                if marks(logged(self.stack.cluster, container, "prelaunch.out")) == {container}:
                    found.append(container)
        return found

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
    assert (done.job.failed_attempts, done.job.killed_attempts) == (0, 0)
    assert done.job.maps == MAPS
    until("marks of the shells", lambda: len(done.marked()) == SHELLS, 60, seen=done.marked)
    assert len(done.shells) == SHELLS + done.given_back


def test_tasks_are_granted_and_run_as_opportunistic(done: Done) -> None:
    assert done.way.rm_opportunistic == done.way.nm_opportunistic == MAPS + REDUCES, done.way
    assert done.way.disagreeing == ()
    assert done.tally.rm_opportunistic == done.tally.granted, done.tally
    assert done.tally.nm_opportunistic == done.tally.ran == SHELLS, done.tally
    assert done.tally.disagreeing == ()


def test_each_start_was_held_and_sent_when_the_sidecar_says(done: Done) -> None:
    assert done.held(done.job.application_id, MAPS + REDUCES) == (MAPS + REDUCES, MAPS + REDUCES)
    assert done.held(done.shell, SHELLS) == (SHELLS, SHELLS)


def test_nothing_is_left_and_nothing_was_launched_twice(done: Done) -> None:
    nothing_left(done.stack.cluster, done.stack, "jobs")
