"""The demo's figures: percentiles of the short jobs, the long job, and the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.report.stats import percentile
from quicksilver_lab.demo.shrinks import total_s
from quicksilver_lab.demo.timeline import PHASES, Timed, WayRun

GOALS: Final[Mapping[str, float]] = {"short_p50_ratio": 0.5, "long_ratio": 1.1}
"""The most that quicksilver's figure may be, as a share of plain YARN's."""


class DemoError(QuicksilverError):
    """The two runs differ in what should be equal."""


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """One way's figures."""

    short_p50_s: float
    short_p95_s: float
    short_phases_s: dict[str, float]
    """Means over the short jobs."""
    long_s: float
    kills: int
    stopped_s: float
    """Task-seconds in which tasks stood still."""


def figures(run: WayRun) -> DemoFigures:
    """Return the figures of a run."""
    long, *short = run.jobs
    times = [job.job_s for job in short]
    return DemoFigures(
        short_p50_s=round(percentile(times, 50), 2),
        short_p95_s=round(percentile(times, 95), 2),
        short_phases_s={name: round(_mean(short, at), 2) for at, name in enumerate(PHASES)},
        long_s=round(long.job_s, 2),
        kills=run.kills,
        stopped_s=round(sum(total_s(use.stopped) for use in run.uses), 1),
    )


def _mean(jobs: Sequence[Timed], phase: int) -> float:
    return fmean(job.phases_s[phase] for job in jobs)


def goals(plain: DemoFigures, through: DemoFigures) -> dict[str, dict[str, Any]]:
    """Return each goal with its value and whether it is met."""
    values = {
        "short_p50_ratio": through.short_p50_s / plain.short_p50_s,
        "long_ratio": through.long_s / plain.long_s,
    }
    return {
        name: {"value": round(values[name], 3), "goal": goal, "met": values[name] <= goal}
        for name, goal in GOALS.items()
    }


def check_results(plain: WayRun, through: WayRun, expected: Mapping[str, Sequence[str]]) -> int:
    """Return how many tasks left their result in both ways. Raises DemoError for a missing or a wrong result."""
    for run in (plain, through):
        for job in run.jobs:
            if sorted(job.results) != sorted(expected[job.name]):
                raise DemoError(
                    f"its tasks left {len(job.results)} results, such as {[*job.results, '-'][0]!r}; expected are "
                    f"{len(expected[job.name])}, such as {expected[job.name][0]!r}",
                    place=f"{run.way}, {job.name}",
                    remedy="report this with the logs of the cluster's folder",
                )
    return sum(len(job.results) for job in through.jobs)


def as_json(plain: WayRun, through: WayRun, tasks: int, total: float) -> dict[str, Any]:
    """Return everything for a file: figures, goals, and each job and container of both ways."""
    baseline, candidate = figures(plain), figures(through)
    return {
        "plain": asdict(baseline),
        "quicksilver": asdict(candidate),
        "goals": goals(baseline, candidate),
        "tasks_equal": tasks,
        "wall_s": round(total, 1),
        "runs": [asdict(plain), asdict(through)],
    }
