"""Stacks of processes that hang: Python's by py-spy, those of JVMs by SIGQUIT, of others what the kernel knows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import psutil

OF_A_STEP: Final = 400_000
OF_A_TEST: Final = 100_000
"""Characters at most, of all processes."""
_OF_A_PROCESS: Final = 40_000
_COMMAND: Final = 200
_PY_SPY: Final = str(Path(sys.executable).with_name("py-spy"))
_WAIT_S: Final = 15
"""For one process."""


def command_of(process: psutil.Process) -> str:
    """Return "pid: command line", cut."""
    try:
        words = " ".join(process.cmdline()) or f"[{process.name()}]"
    except psutil.Error:
        words = "ended"
    return f"{process.pid}: {words[:_COMMAND]}"


def dump(processes: Iterable[psutil.Process], limit: int) -> Iterator[str]:
    """Yield a text for each process: its command line, and its stacks as long as there is room."""
    for process in processes:
        text = _stacks_of(process)[: min(_OF_A_PROCESS, max(limit, 0))]
        limit -= len(text)
        yield f"--- {command_of(process)}\n{text.rstrip() or '(no room for its stacks)'}\n"


def _stacks_of(process: psutil.Process) -> str:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return "(a zombie)"
        name = process.name()
        if name == "java":
            return _of_jvm(process)
        if "python" in Path(process.exe()).name:
            return _of_python(process.pid)
        return _of_other(process)
    except (psutil.Error, OSError, subprocess.SubprocessError) as error:
        return f"({error!r})"


def _of_python(pid: int) -> str:
    done = subprocess.run(
        [_PY_SPY, "dump", "--pid", str(pid)], capture_output=True, text=True, timeout=_WAIT_S, check=False
    )
    return done.stdout + done.stderr


def _of_jvm(process: psutil.Process) -> str:
    """By jstack where there is a JDK; else ask the JVM for a dump, and read what it appends to its output."""
    jstack = Path(process.exe()).with_name("jstack")
    if jstack.exists() or shutil.which("jstack"):
        words = [str(jstack) if jstack.exists() else "jstack", str(process.pid)]
        return subprocess.run(words, capture_output=True, text=True, timeout=_WAIT_S, check=False).stdout
    output = Path(f"/proc/{process.pid}/fd/1").readlink()
    before = output.stat().st_size if output.is_file() else 0
    process.send_signal(signal.SIGQUIT)
    if not output.is_file():
        return f"(asked by SIGQUIT; the dump goes to {output})"
    ends = time.monotonic() + 5
    size = before
    while time.monotonic() < ends and (size == before or output.stat().st_size != size):
        size = output.stat().st_size
        time.sleep(0.3)
    with output.open("rb") as file:
        file.seek(before)
        return file.read(_OF_A_PROCESS).decode(errors="replace")


def _of_other(process: psutil.Process) -> str:
    texts = []
    for name in ("wchan", "stack"):
        try:
            texts.append(f"{name}: {Path(f'/proc/{process.pid}/{name}').read_text().strip()}")
        except OSError as error:
            texts.append(f"{name}: ({error.strerror})")
    return f"{process.status()}, {', '.join(texts)}"


def own_stacks() -> str:
    """Return the stacks of all threads of this process."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"--- thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame)[-40:])}"
        for ident, frame in sys._current_frames().items()
    ]
    return "".join(parts)[-OF_A_TEST:]


def write(descriptor: int, text: str) -> None:
    """Write to a descriptor, past what captures output."""
    data = text.encode(errors="replace")
    while data:
        data = data[os.write(descriptor, data) :]
