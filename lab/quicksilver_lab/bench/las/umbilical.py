"""Reports of tasks to their master, as in MapReduce, with very little work: a named pipe."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SCRIPT: Final = Path(__file__).with_name("burn.py")
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Note:
    """A report of a task. at_s: Unix seconds by the task; value: process id at its begin, CPU seconds at its end."""

    begin: bool
    at_s: float
    value: float


Listener = Callable[[Note], None]
Launcher = Callable[[str, Sequence[str]], Sequence[str]]
"""A container's name and its task's words to the words that are run in its place."""


def in_docker(url: str, image: str) -> Launcher:
    """Return what runs tasks as Docker containers, named as LinuxContainerExecutor names them.

    They see the host's files, because the image is next to empty, and its process ids.
    """

    def words(container: str, task: Sequence[str]) -> Sequence[str]:
        run = ["docker", "-H", url, "run", "--rm", "--name", container, "--network", "none", "--pid", "host"]
        return [*run, "-v", "/:/host", image, "/bin/busybox", "chroot", "/host", *task]

    return words


class Umbilical:
    """One pipe for all tasks of a run; use it within a running event loop."""

    def __init__(self, pipe: Path, file: int, launcher: Launcher | None = None) -> None:
        """Take an open pipe; `opened` makes one."""
        self._launcher = launcher
        self._pipe, self._file = pipe, file
        self._listeners: dict[str, Listener] = {}
        self._rest = b""

    def command(self, container: str, cpu_s: float) -> str:
        """Return the shell command of a task in a container."""
        words: Sequence[str] = [sys.executable, "-S", "-E", "-I", str(_SCRIPT)]
        words = [*words, str(self._pipe), container, f"{cpu_s:.6f}"]
        if self._launcher is not None:
            words = self._launcher(container, words)
        return f"exec {shlex.join(words)} 2>&1"

    def listen(self, container: str, listener: Listener) -> None:
        """Call `listener` for each report of a container's task, until `forget`."""
        self._listeners[container] = listener

    def forget(self, container: str) -> None:
        """Take no more notice of a container."""
        self._listeners.pop(container, None)

    def read(self) -> None:
        """Handle arrived reports; the event loop calls it."""
        lines = (self._rest + os.read(self._file, _READ_BYTES)).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            word, container, at_s, value = line.decode().split()
            listener = self._listeners.get(container)
            if listener is not None:
                listener(Note(word == "begin", float(at_s), float(value)))


@contextmanager
def opened(pipe: Path, launcher: Launcher | None = None) -> Iterator[Umbilical]:
    """Make the pipe and read it for the time of a with block."""
    pipe.parent.mkdir(parents=True, exist_ok=True)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    file = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # a writer too, so that the last task's end is no end of file
    umbilical = Umbilical(pipe, file, launcher)
    loop = asyncio.get_running_loop()
    loop.add_reader(file, umbilical.read)
    try:
        yield umbilical
    finally:
        loop.remove_reader(file)
        os.close(file)
        pipe.unlink()
