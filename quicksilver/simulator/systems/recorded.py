"""What a cluster did with the jobs that its proxy recorded: a column to compare other systems with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from heapq import merge
from math import isclose

from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import SystemSettings
from quicksilver.simulator.traces.formats.recorded import RecordedJob, read_recorded

_SAMPLES = 1000


class RecordedSettings(SystemSettings):
    """Which record."""

    store: str = ""
    """The proxy's store whose jobs are simulated: its file, or the URL of a PostgreSQL."""


class Recorded:
    """The record as a system: nothing is simulated, and the cluster is only what its slots are a share of."""

    name = "recorded"
    about = "What a cluster did with the jobs that its proxy recorded: to compare the others with."
    Settings = RecordedSettings

    def run(
        self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: RecordedSettings, seed: int
    ) -> SimResult:
        """Return what became of these jobs. Raises SimulatorError when they are not those of the store."""
        if not settings.store:
            raise SimulatorError("recorded: set recorded.store to the proxy's store that the trace is of")
        result = SimResult(self.name, seed)
        tasks = tries = 0
        lost_s = 0.0
        intervals: list[RecordedJob] = []
        records = iter(read_recorded(settings.store))
        for job in jobs:
            match = next((record for record in records if _same(record.job, job)), None)
            if match is None:
                raise SimulatorError(
                    f"recorded: job {job.number} ({job.name}) is not in {settings.store} as it is here"
                )
            result.jobs.append(replace(match.outcome, number=job.number))
            intervals.append(match)
            tasks, tries = tasks + len(match.tasks), tries + sum(task.tries for task in match.tasks)
            lost_s += sum(task.lost_s for task in match.tasks)
        result.busy = _busy(intervals, cluster.total_slots)
        result.counts = {"tasks": tasks, "started": tries, "ended": tasks, "lost": 0, "doubled": 0, "events": 0}
        result.counts["queueable"] = sum(task.kind == "Q" for record in intervals for task in record.tasks)
        result.extra = {"lost_s": lost_s, "unfinished": float(sum(record.unfinished for record in intervals))}
        return result


def _same(recorded: SimulatedJob, job: SimulatedJob) -> bool:
    """Return whether two jobs are one: arrivals and estimates of the simulated one may be others."""
    return recorded.durations_s == job.durations_s and recorded.name == job.name and _at(recorded, job)


def _at(recorded: SimulatedJob, job: SimulatedJob) -> bool:
    return isclose(recorded.arrives_s, job.arrives_s, abs_tol=1e-6)


def _busy(jobs: Iterable[RecordedJob], slots: int) -> list[tuple[float, float]]:
    """Return samples of how many slots are busy, as a share of those that the cluster is said to have, at most 1."""
    tasks = [task for record in jobs for task in record.tasks]
    steps = merge(sorted((task.begun_s, 1) for task in tasks), sorted((task.ended_s, -1) for task in tasks))
    samples: list[tuple[float, float]] = []
    running = 0
    for at_s, step in steps:
        running += step
        samples.append((at_s, min(1.0, running / slots)))
    every = max(1, len(samples) // _SAMPLES)
    return samples[::every]


SYSTEM = Recorded()
