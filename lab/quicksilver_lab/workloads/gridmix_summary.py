"""GridMix's own summary of a run: found in its output, and read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from quicksilver_lab.workloads.errors import OutputError

START: Final = "Execution Summary:-"
_LOG_LINE: Final = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ ")
_JOB: Final = re.compile(r"(GRIDMIX\w*) \((job_\d+_\d+)\) (\w+)")
_UNITS_S: Final = {"hrs": 3600, "mins": 60, "sec": 1}
_PART: Final = re.compile(r"(\d+)(hrs|mins|sec)")


@dataclass(frozen=True, slots=True)
class GridmixSummary:
    """The figures of GridMix's execution summary."""

    in_trace: int
    processed: int
    successful: int
    failed: int
    lost: int
    maps: int
    reduces: int
    runtime_s: int
    simulation_s: int
    policy: str
    text: str
    """The summary as GridMix printed it."""

    @property
    def all_successful(self) -> bool:
        """Whether every job of the trace was run and succeeded."""
        return self.in_trace > 0 and self.in_trace == self.processed == self.successful


_INTEGERS: Final = {
    "in_trace": "Total number of jobs in trace",
    "processed": "Total number of jobs processed",
    "successful": "Total number of successful jobs",
    "failed": "Total number of failed jobs",
    "lost": "Total number of lost jobs",
    "maps": "Total number of map tasks launched",
    "reduces": "Total number of reduce task launched",
}
_TIMES: Final = {"runtime_s": "Gridmix runtime", "simulation_s": "Time spent in simulation"}
_POLICY: Final = "Gridmix job submission policy"


def parse_summary(output: str) -> GridmixSummary:
    """Return the summary in GridMix's output. Raises OutputError when there is none, or a line of it is missing."""
    start = output.find(START)
    if start < 0:
        raise OutputError("no execution summary in it", place="output of GridMix")
    lines = [line for line in output[start:].splitlines() if line and not _LOG_LINE.match(line)]
    values = dict(line.split(": ", 1) for line in lines if ": " in line)

    def value(label: str) -> str:
        if label not in values:
            raise OutputError(f"no line `{label}` in the summary", place="output of GridMix")
        return values[label]

    numbers = {key: int(value(label)) for key, label in _INTEGERS.items()}
    times = {key: seconds(value(label)) for key, label in _TIMES.items()}
    return GridmixSummary(**numbers, **times, policy=value(_POLICY), text="\n".join(lines))


def seconds(text: str) -> int:
    """Return a time of Hadoop's StringUtils.formatTime, such as `1mins, 16sec`, in seconds."""
    return sum(int(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))


def finished_jobs(output: str) -> dict[str, tuple[str, str]]:
    """Return GridMix's names of the jobs that ended so far, with job id and outcome, such as `success`."""
    return {name: (job, outcome) for name, job, outcome in _JOB.findall(output)}
