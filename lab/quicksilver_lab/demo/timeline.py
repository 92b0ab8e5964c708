"""Who had the slots of the nodes over time, and where the time of each job went: by the logs of YARN's own daemons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from quicksilver_lab.demo.jobs import DemoJobRun
from quicksilver_lab.demo.shrinks import Interval
from quicksilver_lab.workloads.nm_log import Life
from quicksilver_lab.workloads.records import application_of, is_master

_REGISTERED: Final = re.compile(
    r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) .*appattempt_(\d+_\d+)_\d+ State change from LAUNCHED to RUNNING",
    re.MULTILINE,
)
PHASES: Final = ("waits for its master's slot", "master starts", "tasks wait for slots", "tasks run", "ends")


@dataclass(frozen=True, slots=True)
class CoreUse:
    """A container at a node; seconds since the begin of the run."""

    container: str
    job: str
    master: bool
    node: str
    begin_s: float
    end_s: float
    killed: bool
    stopped: tuple[Interval, ...] = ()
    """When it stood still for another one."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A job of a run. submitted_s: since the begin of the run; phases_s: how long each of PHASES took."""

    name: str
    submitted_s: float
    job_s: float
    phases_s: tuple[float, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WayRun:
    """All jobs of one way, the long one first."""

    way: str
    jobs: tuple[Timed, ...]
    uses: tuple[CoreUse, ...]

    @property
    def kills(self) -> int:
        """Tasks that were killed."""
        return sum(use.killed for use in self.uses if not use.master)

    @property
    def end_s(self) -> float:
        """When the last job ended."""
        return max(job.submitted_s + job.job_s for job in self.jobs)


def registered(rm_log: str) -> dict[str, float]:
    """Return when the master of each application registered, in Unix seconds, by the ResourceManager's log."""
    return {f"application_{number}": _unix_s(stamp) for stamp, number in _REGISTERED.findall(rm_log)}


def _unix_s(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()


def way_run(
    way: str,
    runs: Sequence[DemoJobRun],
    lives: Mapping[str, Life],
    registered_s: Mapping[str, float],
    shrunk: Mapping[str, Sequence[Interval]],
) -> WayRun:
    """Join what jobs, NodeManagers, ResourceManager and sidecars showed; time begins at the first submission."""
    zero_s = min(run.submitted_s for run in runs)
    names = {run.application_id: run for run in runs}
    uses = []
    for container, life in lives.items():
        run = names.get(application_of(container))
        if run is None or life.running_s is None:
            continue
        end_s = life.over_s if life.over_s is not None else run.finished_s
        stopped = tuple((begin - zero_s, end - zero_s) for begin, end in shrunk.get(container, ()))
        times = (life.running_s - zero_s, max(life.running_s, end_s) - zero_s)
        uses.append(CoreUse(container, run.name, is_master(container), life.node, *times, life.killed, stopped))
    uses.sort(key=lambda use: use.begin_s)
    jobs = [_timed(run, zero_s, [use for use in uses if use.job == run.name], registered_s) for run in runs]
    return WayRun(way, tuple(jobs), tuple(uses))


def _timed(run: DemoJobRun, zero_s: float, uses: Sequence[CoreUse], registered_s: Mapping[str, float]) -> Timed:
    """Return a job with its phases; one that no log shows takes no time."""
    tasks = [use for use in uses if not use.master]
    marks = [
        run.submitted_s - zero_s,
        min((use.begin_s for use in uses if use.master), default=0.0),
        registered_s.get(run.application_id, zero_s) - zero_s,
        max((use.begin_s for use in tasks), default=0.0),
        max((use.end_s for use in tasks), default=0.0),
        run.finished_s - zero_s,
    ]
    for at in range(1, len(marks)):
        marks[at] = max(marks[at], marks[at - 1])
    phases = tuple(round(end - begin, 3) for begin, end in pairwise(marks))
    return Timed(run.name, round(marks[0], 3), round(run.job_s, 3), phases, run.results)


def rows_of(uses: Sequence[CoreUse], nodes: Sequence[str], slots: int) -> tuple[list[str], dict[str, int]]:
    """Return the names of the rows of a picture, and the row of each container by its id.

    A node has `slots` rows, and more where more containers were there at a time; a container takes the first free one.
    """
    names: list[str] = []
    rows: dict[str, int] = {}
    for node in nodes:
        free_s = [0.0] * slots
        for use in sorted((use for use in uses if use.node == node), key=lambda use: use.begin_s):
            row = next((row for row, until_s in enumerate(free_s) if until_s <= use.begin_s), len(free_s))
            if row == len(free_s):
                free_s.append(0.0)
            free_s[row] = use.end_s
            rows[use.container] = len(names) + row
        names += [f"{node} {number}" for number in range(1, len(free_s) + 1)]
    return names, rows
