"""The demo's jobs: a wordcount over HDFS, whose result is checked, and short ones beside it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from quicksilver.workloads.containers.compose import Compose
from quicksilver.workloads.containers.engine import Progress
from quicksilver.workloads.errors import JobFailedError, OutputError
from quicksilver.workloads.mapreduce import count_words, differences, make_text

MAPS: Final = 6
SHORT_JOBS: Final = 2
LINES: Final = 5000
JOB_S: Final = 900.0
CLIENT: Final = "jobhistory"
"""The service in which clients run: its configuration is a client's."""
_PI: Final = re.compile(r"Estimated value of Pi is (\d+\.\d+)")
_APPLICATION: Final = re.compile(r"application_\d+_\d+")
_PUT: Final = (
    f"cat > /tmp/text && mkdir -p /tmp/in && for n in $(seq {MAPS}); do cp /tmp/text /tmp/in/$n; done "
    "&& hadoop fs -mkdir -p /demo && hadoop fs -put -f /tmp/in /demo/ && rm -r /tmp/in /tmp/text"
)


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job that succeeded with the right result. wall_s: its client's time, a JVM's start included."""

    name: str
    application_id: str
    wall_s: float


def run_jobs(compose: Compose, progress: Progress) -> list[JobRun]:
    """Run all jobs at once; return them, the wordcount first. Raises WorkloadError, OutputError for a wrong result."""
    text = make_text(LINES)
    progress(f"jobs: {MAPS} files to HDFS")
    compose.execute(CLIENT, "sh", "-c", _PUT, timeout_s=JOB_S, stdin=text.encode())
    progress(f"jobs: a wordcount with {MAPS} maps in queue batch, beside it {SHORT_JOBS} short ones in queue default")
    with ThreadPoolExecutor(1 + SHORT_JOBS) as pool:
        count = pool.submit(_wordcount, compose)
        short = [pool.submit(_pi, compose, number) for number in range(1, SHORT_JOBS + 1)]
        runs = [count.result(), *(job.result() for job in short)]
    for run in runs:
        progress(f"jobs: {run.name} took {run.wall_s:.1f} s")
    expected = {word: MAPS * times for word, times in count_words(text).items()}
    check_counts(compose.execute(CLIENT, "hadoop", "fs", "-cat", "/demo/out/part-r-*", timeout_s=JOB_S), expected)
    return runs


def check_counts(output: str, expected: Mapping[str, int]) -> None:
    """Compare wordcount's output, a word and a number per line, with what it must be. Raises OutputError."""
    rows = (line.split("\t") for line in output.splitlines() if "\t" in line)
    wrong = differences({word: int(times) for word, times in rows}, expected)
    if wrong:
        word, (found, wanted) = next(iter(wrong.items()))
        raise OutputError(f"{len(wrong)} words wrong, such as {word}: {found}, not {wanted}", place="wordcount")


def _wordcount(compose: Compose) -> JobRun:
    arguments = ["-Dmapreduce.job.queuename=batch", "/demo/in", "/demo/out"]
    return _timed(compose, "wordcount", ["wordcount", *arguments])[0]


def _pi(compose: Compose, number: int) -> JobRun:
    run, output = _timed(compose, f"pi {number}", ["pi", "2", "100"])
    found = _PI.search(output)
    if found is None or abs(float(found[1]) - 3.14) > 0.2:
        raise OutputError(f"no estimate of pi: {output[-300:]}", place=run.name)
    return run


def _timed(compose: Compose, name: str, arguments: Sequence[str]) -> tuple[JobRun, str]:
    began_s = time.monotonic()
    words = ["sh", "-c", 'exec hadoop examples "$@" 2>&1', "sh", *arguments]
    output = compose.execute(CLIENT, *words, timeout_s=JOB_S)
    found = _APPLICATION.search(output)
    if found is None:
        raise JobFailedError(f"no application in its output: {output[-300:]}", place=name)
    return JobRun(name, found[0], time.monotonic() - began_s), output
