"""Runs pytest as a step: within its bounds of time, with nothing left behind, and with stacks of what hangs."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

import psutil

from tests.gate import leftovers, stacks
from tests.gate.speed import Slowness
from tests.gate.steps import Step

PR_SET_CHILD_SUBREAPER: Final = 36
TEARDOWN_S: Final = 60
"""What tests have for their teardown once a run was interrupted or hangs."""


@dataclass
class Result:
    """What became of a step; `reasons` is empty when all is well."""

    wall_s: float = 0
    cpu_s: float = 0
    slowness: float = 1.0
    """How many times as many CPU seconds as at the reference the same work took meanwhile."""
    reasons: list[str] = field(default_factory=list)
    interrupted: bool = False


class Runner:
    """Runs one step after the other. Orphans of its descendants become its children: their CPU time is counted too."""

    def __init__(self, machine: Callable[[], leftovers.Machine] = leftovers.Machine.now) -> None:
        """machine: what there is beside processes, before and after a step."""
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        self.machine, self.slowness = machine, Slowness()
        self.signal = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._heard)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number

    def run(self, step: Step, command: Sequence[str], folder: Path) -> Result:
        """Run a command as a step; returns when neither it nor anything that it started is left."""
        before, began_s, began_cpu_s = self.machine(), time.monotonic(), _cpu_s()
        result, self.slowness = Result(), Slowness()
        environment = os.environ | dict(step.environment)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would compile the same modules
        child = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
        status = self._wait(child, step.wall_limit_s)
        if status is None:
            status = self._cut_short(child, step, result)
        if status:
            result.reasons.insert(0, f"exit status {status}")
        self._clean(before, result)
        result.wall_s, result.cpu_s = time.monotonic() - began_s, _cpu_s() - began_cpu_s
        result.slowness = self.slowness.ratio
        if step.cpu_limit_s is not None and result.cpu_s > step.cpu_limit_s * result.slowness:
            result.reasons.append(
                f"it took {result.cpu_s:.1f} s of CPU time, more than its bound: {step.cpu_limit_s:g} s, times "
                f"{result.slowness:.2f}, since this machine is that many times as slow as the reference"
            )
        return result

    def _wait(self, child: subprocess.Popen[bytes], limit_s: float) -> int | None:
        """Return the exit status of the child; None when the limit is reached or a signal came before."""
        ends = time.monotonic() + limit_s
        while child.returncode is None and not self.signal and time.monotonic() < ends:
            self._reap(child)
            self.slowness.look()
            time.sleep(0.05)
        return child.returncode

    def _reap(self, child: subprocess.Popen[bytes] | None = None) -> None:
        """Take the exit status of whatever ended, orphans included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if child is not None and pid == child.pid:
                child.returncode = os.waitstatus_to_exitcode(status)

    def _cut_short(self, child: subprocess.Popen[bytes], step: Step, result: Result) -> int:
        """End a step that hangs or was interrupted: teardown first, then whatever does not end by it."""
        if self.signal:
            result.interrupted = True
            result.reasons.append(f"interrupted by {signal.Signals(self.signal).name}")
            self.signal = 0
        else:
            result.reasons.append(f"it hung: it was not over after {step.wall_limit_s:.0f} s, its limit")
            _say(f"tests: {step.name} was not over after {step.wall_limit_s:.0f} s; stacks of all its processes:")
            for text in stacks.dump(leftovers.descendants(), limit=stacks.OF_A_STEP):
                _say(text)
        for process in _pytests(child):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGINT)
        status = self._wait(child, TEARDOWN_S)
        if status is None:
            result.reasons.append(f"its teardown was not over after {TEARDOWN_S:g} s")
            leftovers.end(leftovers.descendants())
            self._reap(child)
        return child.returncode or 1

    def _clean(self, before: leftovers.Machine, result: Result) -> None:
        """End, remove and name what the step left behind."""
        left = leftovers.remaining()
        if left:
            _say("tests: processes that were left behind, and their stacks:")
            for text in stacks.dump(left, limit=stacks.OF_A_TEST):
                _say(text)
        lines = leftovers.end(left)
        self._reap()
        now = self.machine()
        temporary = Path(tempfile.gettempdir())
        lines += leftovers.unmount(before, now, temporary) + leftovers.remove_groups(before, now)
        lines += leftovers.changes(before, now, temporary)
        result.reasons += [f"left behind: {line}" for line in lines]


def _pytests(child: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the child and its processes that run tests: each ends its fixtures."""
    with suppress(psutil.Error):  # it may end just now
        main = psutil.Process(child.pid)
        return [*(one for one in main.children() if one.name() == main.name()), main]
    return []


def _say(line: str) -> None:
    print(line, flush=True)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def pytest_command(step: Step, junit: Path, alone: Sequence[str]) -> list[str]:
    """Return the command of a step."""
    processes = str(min(os.cpu_count() or 1, 5) + 1)
    arguments: list[str] = []
    for argument in step.arguments:
        arguments += alone if argument == "{alone}" else [argument.replace("{cores+1}", processes)]
    return [sys.executable, "-m", "pytest", *arguments, f"--junit-xml={junit}"]
