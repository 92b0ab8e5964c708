"""GridMix from a history of its own: small MapReduce jobs, their Rumen trace, and GridMix running a trace."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from quicksilver_lab.workloads import mapreduce
from quicksilver_lab.workloads.clients import Clients, Progress
from quicksilver_lab.workloads.environment import Environment
from quicksilver_lab.workloads.errors import JobFailedError
from quicksilver_lab.workloads.gridmix_site import INPUT_LINES, GridmixSite, folder_name
from quicksilver_lab.workloads.gridmix_summary import GridmixSummary, finished_jobs, parse_summary
from quicksilver_lab.workloads.mapreduce import JobOptions, JobResult, RunningJob

POLICIES: Final = ("STRESS", "SERIAL", "REPLAY")
JOB_TYPES: Final = ("LOADJOB", "SLEEPJOB")
MOST_JOBS: Final = 12
SIDE_BY_SIDE: Final = 2
_INPUT: Final = "/gridmix-source/text"
_SLEEP_MAX_MS: Final = 4000
_SHAPES: Final = (
    # maps, reduces, queue; pi where the number of reduces is None
    (2, 1, "default"),
    (4, 2, "batch"),
    (3, None, "default"),
    (1, 1, "batch"),
    (3, 1, "default"),
    (2, 2, "batch"),
)


@dataclass(frozen=True, slots=True)
class GridmixPlan:
    """What GridMix is to do."""

    jobs: int = 6
    policy: str = "STRESS"
    job_type: str = "LOADJOB"
    data_mb: int = 2
    """Input that GridMix generates, of which its jobs read as much as the traced ones did; 0: it is put there ready."""
    trace_queues: bool = True
    """Whether each job goes to the queue that its traced job was in, and not to the default queue."""


@dataclass(frozen=True, slots=True)
class GridmixOutcome:
    """A run of GridMix."""

    summary: GridmixSummary
    outcomes: dict[str, tuple[str, str]]
    """GridMix's name of each job: its id and how it ended."""


def make_history(env: Environment, jobs: int) -> list[JobResult]:
    """Run `jobs` small jobs of different shapes, two at a time. Raises JobFailedError when one fails."""
    text = mapreduce.make_text(INPUT_LINES)
    mapreduce.put_text(env.cluster, _INPUT, text)
    expected = mapreduce.count_words(text)
    stamp = time.strftime("%H%M%S")
    done: list[JobResult] = []
    for first in range(0, jobs, SIDE_BY_SIDE):
        numbers = range(first, min(first + SIDE_BY_SIDE, jobs))
        with Clients() as together:
            batch = [(number, _start(env, number, stamp, together)) for number in numbers]
            for number, job in batch:
                done.append(job.wait())
                if _SHAPES[number % len(_SHAPES)][1] is not None:
                    _check_output(env, _output(stamp, number), expected)
                env.progress(f"history: job {len(done)} of {jobs} done ({done[-1].job_id}, {done[-1].job_s:.0f} s)")
    return done


def _output(stamp: str, number: int) -> str:
    return f"/gridmix-history-{stamp}/{number}"


def _start(env: Environment, number: int, stamp: str, together: Clients) -> RunningJob:
    maps, reduces, queue = _SHAPES[number % len(_SHAPES)]
    options = JobOptions(queue=queue, tags=("gridmix-history",))
    if reduces is None:
        job = mapreduce.start_pi(env.cluster, f"pi-{stamp}-{number}", maps, 1000, options)
    else:
        target = _output(stamp, number)
        job = mapreduce.start_wordcount(env.cluster, _INPUT, target, maps=maps, reduces=reduces, options=options)
    together.add(job.client)
    return job


def _check_output(env: Environment, folder: str, expected: dict[str, int]) -> None:
    wrong = mapreduce.differences(mapreduce.read_counts(env.cluster, folder), expected)
    if wrong:
        raise JobFailedError(
            f"{len(wrong)} words are counted wrongly, such as {next(iter(wrong.items()))}", place=folder
        )


def run_at(site: GridmixSite, plan: GridmixPlan, trace: Path, progress: Progress) -> GridmixOutcome:
    """Run GridMix on a trace, showing each of its jobs that ends. Raises JobFailedError, OutputError."""
    folder = folder_name()
    if plan.data_mb == 0:
        site.put_input(folder)
    client = site.start(gridmix_arguments(plan, folder, trace.absolute().as_uri()))
    progress(f"GridMix runs ({plan.policy}, {plan.job_type}); its output: {client.log}")
    shown: dict[str, tuple[str, str]] = {}

    def show() -> None:
        for name, (job, outcome) in finished_jobs(client.text).items():
            if name not in shown:
                progress(f"GridMix: {name} ({job}) {outcome}")
                shown[name] = (job, outcome)

    text = client.wait(each=show)
    site.clean(folder)
    jobs = {name: job for name, job in shown.items() if name[len("GRIDMIX") :].isdigit()}
    return GridmixOutcome(parse_summary(text), jobs)


def gridmix_arguments(plan: GridmixPlan, folder: str, trace: str) -> list[str]:
    """Return GridMix's command line: a small input, every job as the submitting user, no distributed cache."""
    generated = plan.data_mb > 0
    properties: dict[str, Any] = {
        "gridmix.job-submission.policy": plan.policy,
        "gridmix.job.type": plan.job_type,
        "gridmix.user.resolve.class": "org.apache.hadoop.mapred.gridmix.SubmitterUserResolver",
        "gridmix.min.file.size": 1,
        "gridmix.gen.bytes.per.file": 1 << 20,
        "gridmix.distributed-cache-emulation.enable": "false",
        "gridmix.compression-emulation.enable": str(generated).lower(),
        "gridmix.job-submission.use-queue-in-trace": str(plan.trace_queues).lower(),
        "gridmix.sleep.max-map-time": _SLEEP_MAX_MS,
        "gridmix.sleep.max-reduce-time": _SLEEP_MAX_MS,
        "gridmix.sleep.interval": 1,
    }
    options = [f"-D{name}={value}" for name, value in properties.items()]
    return [*options, *(["-generate", f"{plan.data_mb}m"] if generated else []), folder, trace]
