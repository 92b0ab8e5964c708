"""The demo's jobs: a wordcount over HDFS, whose result is checked, and short ones beside it."""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Final

from quicksilver_lab.workloads.containers.compose import Compose
from quicksilver_lab.workloads.containers.engine import Progress
from quicksilver_lab.workloads.errors import JobFailedError, OutputError
from quicksilver_lab.workloads.mapreduce import count_words, differences, make_text

MAPS: Final = 6
SHORT_JOBS: Final = 2
LINES: Final = 5000
JOB_S: Final = 900.0
_POLL_S: Final = 0.2
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
    plans = {"wordcount": ["wordcount", "-Dmapreduce.job.queuename=batch", "/demo/in", "/demo/out"]}
    plans |= {f"pi {number}": ["pi", "2", "100"] for number in range(1, SHORT_JOBS + 1)}
    runs = _run_together(compose, plans)
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
        word, (count, target) = next(iter(wrong.items()))
        raise OutputError(f"{len(wrong)} words wrong, such as {word}: {count}, not {target}", place="wordcount")


def _run_together(compose: Compose, plans: Mapping[str, Sequence[str]]) -> list[JobRun]:
    """Run examples of Hadoop side by side: their arguments, by name."""
    with ExitStack() as stack:
        started = []
        for name, arguments in plans.items():
            output = stack.enter_context(tempfile.TemporaryFile())
            client = compose.popen(CLIENT, "hadoop", "examples", *arguments, output=output)
            stack.callback(client.wait)
            stack.callback(client.kill)  # for those that an error or Ctrl-C leaves; their containers end soon
            started.append((name, client, output))
        return _wait(started)


def _wait(started: Sequence[tuple[str, subprocess.Popen[bytes], IO[bytes]]]) -> list[JobRun]:
    began_s, runs = time.monotonic(), dict[str, JobRun]()
    while len(runs) < len(started):
        for name, client, output in started:
            if name not in runs and client.poll() is not None:
                output.seek(0)
                text = output.read().decode(errors="replace")
                runs[name] = ended(name, client.returncode, text, time.monotonic() - began_s)
        if time.monotonic() - began_s > JOB_S:
            missing = [name for name, _, _ in started if name not in runs]
            raise JobFailedError(f"not done after {JOB_S:g} s", place=", ".join(missing))
        time.sleep(_POLL_S)
    return [runs[name] for name, _, _ in started]


def ended(name: str, exit_code: int, output: str, wall_s: float) -> JobRun:
    """Return a job whose client ended with this output. Raises JobFailedError, OutputError for a wrong pi."""
    tail = "\n".join(output.splitlines()[-5:])
    application = _APPLICATION.search(output)
    if exit_code != 0 or application is None:
        raise JobFailedError(f"its client ended with {exit_code}:\n{tail}", place=name)
    if name.startswith("pi"):
        pi = _PI.search(output)
        if pi is None or abs(float(pi[1]) - 3.14) > 0.2:
            raise OutputError(f"no estimate of pi:\n{tail}", place=name)
    return JobRun(name, application[0], wall_s)
