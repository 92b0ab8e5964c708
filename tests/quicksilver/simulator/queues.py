"""A small system to try studies with: each task waits at the shortest of some queues, which are drawn by chance."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import Field

from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, JobOutcome, SimResult, SimulatedJob
from quicksilver.simulator.systems import SYSTEMS, SystemSettings


class Settings(SystemSettings):
    choices: int = Field(1, ge=1)
    """Queues to look at."""
    cutoff_s: float = 10.0
    """Not used, but asked for."""
    fails_at: int = 0
    """The number of a job that cannot run."""
    policies: dict[str, Any] | None = None
    """Not used."""


class Queues:
    """A small system to try studies with."""

    name = "queues"
    about = "A small system to try studies with."
    Settings = Settings

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: Settings, seed: int) -> SimResult:
        rng, free_s = Random(seed), [0.0] * cluster.total_slots
        result = SimResult(self.name, seed, counts={"lost": 0, "doubled": 0, "behind_long": 0})
        tasks, ends = 0, list[tuple[float, int]]()
        for job in jobs:
            if job.number == settings.fails_at:
                raise SimulatorError(f"job {job.number} fits nowhere")
            waited_s, ended_s = 0.0, job.arrives_s
            for duration_s in job.durations_s:
                slot = min(rng.sample(range(len(free_s)), min(settings.choices, len(free_s))), key=free_s.__getitem__)
                begins_s = max(job.arrives_s, free_s[slot])
                waited_s += begins_s - job.arrives_s
                free_s[slot] = begins_s + duration_s
                ended_s = max(ended_s, free_s[slot])
                ends += [(begins_s, 1), (free_s[slot], -1)]
                tasks += 1
                result.counts["behind_long"] += begins_s - job.arrives_s > 10
            mean_s = waited_s / max(1, len(job.durations_s))
            result.jobs.append(
                JobOutcome(job.number, job.arrives_s, ended_s, len(job.durations_s), job.work_s, "", mean_s)
            )
        running = 0
        for at_s, change in sorted(ends):
            running += change
            result.busy.append((at_s, running / len(free_s)))
        result.counts |= {"tasks": tasks, "started": tasks, "ended": tasks}
        return result


SYSTEM = Queues()


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system be found as `queues`, and once more as `others`."""
    for name in ("queues", "others"):
        monkeypatch.setitem(SYSTEMS, name, "tests.quicksilver.simulator.queues:SYSTEM")


def write_trace(path: Path, jobs: int = 120) -> Path:
    """Write a trace: every tenth job has ten tasks of 30 s, the others two of 1 to 3 s; one every 2 s."""
    rng = Random(7)
    with path.open("w") as file:
        for number in range(jobs):
            durations_s = [30.0] * 10 if number % 10 == 9 else [1 + 2 * rng.random(), 1 + 2 * rng.random()]
            file.write(json.dumps({"arrives_s": 2.0 * number, "durations_s": durations_s}) + "\n")
    return path
