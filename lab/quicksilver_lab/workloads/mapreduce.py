"""Hadoop's own MapReduce examples on a local cluster: write the input, run the jobs, read and compare the outputs."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.errors import JobFailedError, OutputError
from quicksilver_lab.workloads.hdfs import Hdfs
from quicksilver_lab.workloads.history import Counters, JobHistory

_PI: Final = re.compile(r"Estimated value of Pi is (\d+\.\d+)")
_MAX_SPLIT: Final = "mapreduce.input.fileinputformat.split.maxsize"


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a job is submitted with."""

    queue: str = "default"
    tags: tuple[str, ...] = ()
    """YARN's application tags; the name is the program's own, whatever is asked for."""
    user: str | None = None
    properties: Mapping[str, str] | None = None
    """More properties of the job (-D)."""

    def arguments(self) -> list[str]:
        """Return them as Hadoop's generic options."""
        base = {"mapreduce.job.queuename": self.queue}
        if self.tags:
            base["mapreduce.job.tags"] = ",".join(self.tags)
        return [f"-D{key}={value}" for key, value in (base | dict(self.properties or {})).items()]


DEFAULTS: Final = JobOptions()


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job that succeeded."""

    job_id: str
    application_id: str
    name: str
    wall_s: float
    """From the start of the client program to its end."""
    job_s: float
    """From the submission to the end, according to the job's history."""
    maps: int
    reduces: int
    failed_attempts: int
    killed_attempts: int
    counters: Counters
    text: str
    """What the client printed."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job whose client runs; several may run side by side."""

    cluster: Cluster
    client: Client

    def wait(self, timeout_s: float = clients.TIMEOUT_S, each: Callable[[], None] = lambda: None) -> JobResult:
        """Wait for the end, calling `each` now and then.

        Raises JobFailedError when the job does not succeed in time, OutputError when its history does not come.
        """
        text = self.client.wait(timeout_s, each)
        job = clients.job_id(text)
        history = JobHistory(self.cluster)
        record = history.job(job)
        if record.state != "SUCCEEDED":
            raise JobFailedError(f"its history says {record.state}", place=job, remedy=f"read {self.client.log}")
        return JobResult(
            job_id=job,
            application_id=job.replace("job_", "application_"),
            name=record.name,
            wall_s=self.client.wall_s,
            job_s=(record.finished_ms - record.submitted_ms) / 1000,
            maps=record.maps,
            reduces=record.reduces,
            failed_attempts=record.failed_attempts,
            killed_attempts=record.killed_attempts,
            counters=history.counters(job),
            text=text,
        )


def make_text(lines: int, seed: int = 1, words_per_line: int = 8, vocabulary: int = 200) -> str:
    """Return text of `lines` lines; equal arguments give an equal text, and its words are not equally frequent."""
    rng = random.Random(seed)
    weights = [1 / rank for rank in range(1, vocabulary + 1)]
    words = [f"word{rank}" for rank in range(1, vocabulary + 1)]
    drawn = rng.choices(words, weights, k=lines * words_per_line)
    rows = (drawn[at : at + words_per_line] for at in range(0, len(drawn), words_per_line))
    return "".join(" ".join(row) + "\n" for row in rows)


def count_words(text: str) -> dict[str, int]:
    """Return wordcount's expected result for `text`."""
    return dict(Counter(text.split()))


def put_text(cluster: Cluster, path: str, text: str) -> None:
    """Write a text to HDFS, in place of what may be there. Raises requests.RequestException."""
    Hdfs(cluster).put(path, text.encode())


def start_example(
    cluster: Cluster, label: str, program: str, arguments: Sequence[str], options: JobOptions = DEFAULTS
) -> RunningJob:
    """Start a program of Hadoop's examples jar (wordcount, pi, teragen, ...); `label` names its log file."""
    words = [program, *options.arguments(), *arguments]
    return RunningJob(cluster, clients.start(cluster, label, "examples", words, options.user))


def start_wordcount(
    cluster: Cluster, source: str, target: str, *, maps: int = 2, reduces: int = 1, options: JobOptions = DEFAULTS
) -> RunningJob:
    """Start wordcount on a file, cut into `maps` splits; `target` is a folder that must not be there yet.

    A file that is too small for that many splits of one byte or more has fewer maps.
    """
    size = sum(int(entry["length"]) for entry in Hdfs(cluster).entries(source))
    own = {_MAX_SPLIT: str(max(1, math.ceil(size / maps))), "mapreduce.job.reduces": str(reduces)}
    options = JobOptions(options.queue, options.tags, options.user, own | dict(options.properties or {}))
    return start_example(cluster, f"wordcount{target.replace('/', '-')}", "wordcount", [source, target], options)


def start_pi(cluster: Cluster, label: str, maps: int, samples: int, options: JobOptions = DEFAULTS) -> RunningJob:
    """Start the estimation of pi: `maps` maps that compute `samples` points each, one reduce, next to no data."""
    return start_example(cluster, label, "pi", [str(maps), str(samples)], options)


def pi_estimate(text: str) -> float:
    """Return what the program pi printed as its result. Raises OutputError when it printed none."""
    match = _PI.search(text)
    if match is None:
        raise OutputError("no estimate of pi in it", place="output of pi")
    return float(match.group(1))


def read_counts(cluster: Cluster, folder: str) -> dict[str, int]:
    """Return the words and counts in an output folder of wordcount. Raises requests.RequestException, OutputError."""
    hdfs = Hdfs(cluster)
    names = [str(entry["pathSuffix"]) for entry in hdfs.entries(folder)]
    if "_SUCCESS" not in names:
        raise OutputError("no _SUCCESS in it, so it is not complete", place=folder)
    counts: dict[str, int] = {}
    for name in names:
        if name.startswith("part-"):
            counts |= parse_counts(hdfs.read(f"{folder}/{name}").decode())
    return counts


def parse_counts(text: str) -> dict[str, int]:
    """Return the words and counts of one output file of wordcount."""
    rows = (line.rpartition("\t") for line in text.splitlines())
    return {word: int(count) for word, _, count in rows}


def differences(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the words whose counts differ between two outputs, with both counts; 0 where a word is missing."""
    words = sorted(first.keys() | second.keys())
    return {w: (first.get(w, 0), second.get(w, 0)) for w in words if first.get(w, 0) != second.get(w, 0)}
