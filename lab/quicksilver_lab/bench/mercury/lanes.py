"""Runs in processes of their own, some at a time: each with its ports, its folder and its addresses."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from quicksilver_lab.bench.emulator.model import RunResult

_PORTS_PER_LANE: Final = 500

Progress = Callable[[str], None]


class LaneStep(Protocol):
    """One run; it can be pickled."""

    @property
    def workload(self) -> str:
        """What is offered."""

    @property
    def competitor(self) -> str:
        """Who runs it."""

    @property
    def seed(self) -> int:
        """Of the jobs."""


S = TypeVar("S", bound=LaneStep)


@dataclass(frozen=True, slots=True)
class Failed:
    """A run that did not come to its end."""

    step: LaneStep
    why: str

    def __str__(self) -> str:
        return f"{self.step.workload}, {self.step.competitor}, seed {self.step.seed}: {self.why}"


def _own_group() -> None:
    """Have a run's process hear of Ctrl-C from its parent alone: a second one would prevent an orderly end."""
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _interrupted_too() -> Iterator[None]:
    """Interrupt the runs' processes when the block is left by an exception; they then stop what they started."""
    try:
        yield
    except BaseException:
        for child in multiprocessing.active_children():
            if child.pid is not None:
                os.kill(child.pid, signal.SIGINT)
        raise


class Lanes(Generic[S]):
    """So many runs at a time. Runs of the same seed stand next to each other, and so share what the machine does."""

    def __init__(
        self,
        count: int,
        workdir: Path,
        base_port: int,
        progress: Progress,
        carry_out: Callable[[S, Path, int], RunResult],
    ) -> None:
        """Prepare. carry_out: runs a step in a folder, with ports from a first one on; a function of a module."""
        self._carry_out = carry_out
        self.count, self.workdir, self.base_port, self.progress = count, workdir, base_port, progress

    def run(self, steps: Sequence[S]) -> Iterator[RunResult | Failed]:
        """Yield what each step came to, as it ends. Raises KeyboardInterrupt; nothing is left running."""
        free, pending = list(range(self.count)), list(steps)
        going: dict[Future[RunResult], tuple[S, int]] = {}
        context = multiprocessing.get_context("spawn")
        with (
            ProcessPoolExecutor(self.count, mp_context=context, initializer=_own_group, max_tasks_per_child=1) as pool,
            _interrupted_too(),
        ):
            while pending or going:
                while pending and free:
                    step, lane = pending.pop(0), free.pop(0)
                    self.progress(f"{step.workload}, {step.competitor}, seed {step.seed}")
                    going[pool.submit(self._carry_out, step, self._folder(lane), self._port(lane))] = (step, lane)
                done, _ = wait(going, return_when=FIRST_COMPLETED)
                for future in done:
                    step, lane = going.pop(future)
                    free.append(lane)
                    yield self._outcome(step, future)

    def _folder(self, lane: int) -> Path:
        return self.workdir / f"lane{lane}"

    def _port(self, lane: int) -> int:
        return self.base_port + lane * _PORTS_PER_LANE

    def _outcome(self, step: S, future: Future[RunResult]) -> RunResult | Failed:
        error = future.exception()
        if error is not None:
            failed = Failed(step, f"{type(error).__name__}: {error}")
            self.progress(f"error: {failed}")
            return failed
        return future.result()
