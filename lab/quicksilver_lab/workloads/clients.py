"""A Hadoop client program as a process: its output in a file, its end awaited, its job found in the output."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.workloads.errors import JobFailedError, OutputError

Progress = Callable[[str], None]
TIMEOUT_S: Final = 900.0
_POLL_S: Final = 0.2
_TAIL_LINES: Final = 12
_JOB: Final = re.compile(r"Running job: (job_\d+_\d+)")
_APPLICATION: Final = re.compile(r"Submitted application (application_\d+_\d+)")


def silent(message: str) -> None:
    """Take no notice of progress."""


@dataclass
class Client:
    """A running client program."""

    name: str
    process: subprocess.Popen[str]
    log: Path
    started_s: float = field(default_factory=time.monotonic)
    ended_s: float | None = None

    @property
    def text(self) -> str:
        """What it has printed so far, errors included."""
        return self.log.read_text(errors="replace")

    @property
    def wall_s(self) -> float:
        """Seconds from the start of the program to its end, or to now."""
        return (time.monotonic() if self.ended_s is None else self.ended_s) - self.started_s

    def poll(self) -> int | None:
        """Return the exit code, None as long as it runs."""
        code = self.process.poll()
        if code is not None and self.ended_s is None:
            self.ended_s = time.monotonic()
        return code

    def wait(self, timeout_s: float = TIMEOUT_S, each: Callable[[], None] = lambda: None) -> str:
        """Wait for its end, calling `each` now and then; return what it printed.

        Raises JobFailedError when the exit code is not 0, or after `timeout_s`, the program being killed then.
        """
        try:
            return self._wait(timeout_s, each)
        finally:
            if self.poll() is None:  # interrupted, or `each` failed
                self.kill()

    def _wait(self, timeout_s: float, each: Callable[[], None]) -> str:
        while (code := self.poll()) is None:
            if self.wall_s > timeout_s:
                self.kill()
                raise self._failed(f"not done after {timeout_s:g} s")
            each()
            time.sleep(_POLL_S)
        each()
        if code != 0:
            raise self._failed(f"exit code {code}")
        return self.text

    def kill(self) -> None:
        """End the program; the job that it submitted may go on."""
        self.process.kill()
        self.process.wait()
        self.poll()

    def _failed(self, message: str) -> JobFailedError:
        tail = "\n".join(f"  {line}" for line in self.text.splitlines()[-_TAIL_LINES:])
        return JobFailedError(f"{message}; the end of its output:\n{tail}", place=self.name, remedy=f"read {self.log}")


class Clients:
    """Clients that are started together: those that still run at the end of a with block are killed."""

    def __init__(self) -> None:
        self._started: list[Client] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._started:
            if client.poll() is None:
                client.kill()

    def add(self, client: Client) -> Client:
        """Take charge of a client; return it."""
        self._started.append(client)
        return client


def start(cluster: Cluster, name: str, main: str, args: Sequence[str], user: str | None = None) -> Client:
    """Start `main` (a name that Cluster.popen knows, or a class); its output goes to logs/clients in the workdir.

    name: of the log file; a file of that name is replaced.
    """
    log = log_file(cluster.spec.workdir, name)
    with log.open("w") as output:
        return Client(name, cluster.popen(main, *args, user=user, output=output), log)


def log_file(workdir: Path, name: str) -> Path:
    """Return the file for a client's output; its folder is there."""
    folder = workdir / "logs" / "clients"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.log"


def job_id(text: str) -> str:
    """Return the MapReduce job that a client reports. Raises OutputError when it names none."""
    return _first_group(_JOB, text, "job id")


def application_id(text: str) -> str:
    """Return the application that a client reports. Raises OutputError when it names none."""
    return _first_group(_APPLICATION, text, "application id")


def _first_group(pattern: re.Pattern[str], text: str, noun: str) -> str:
    match = pattern.search(text)
    if match is None:
        raise OutputError(f"no {noun} in it", place="output of a client", remedy="read the logs in logs/clients")
    return match.group(1)
