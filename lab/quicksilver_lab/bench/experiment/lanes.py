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
from typing import Final

from quicksilver_lab.bench.emulator.model import RunResult
from quicksilver_lab.bench.experiment.step import Step, carry_out

PORTS_PER_LANE: Final = 500

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Failed:
    """A run that did not come to its end."""

    step: Step
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


class Lanes:
    """So many runs at a time. Runs of the same seed stand next to each other, and so share what the machine does."""

    def __init__(self, count: int, workdir: Path, base_port: int, progress: Progress) -> None:
        """Prepare. Ports count from `base_port` on, PORTS_PER_LANE for each lane."""
        self.count, self.workdir, self.base_port, self.progress = count, workdir, base_port, progress

    def run(self, steps: Sequence[Step]) -> Iterator[RunResult | Failed]:
        """Yield what each step came to, as it ends. Raises KeyboardInterrupt; nothing is left running."""
        free, pending = list(range(self.count)), list(steps)
        going: dict[Future[RunResult], tuple[Step, int]] = {}
        context = multiprocessing.get_context("spawn")
        with (
            ProcessPoolExecutor(self.count, mp_context=context, initializer=_own_group, max_tasks_per_child=1) as pool,
            _interrupted_too(),
        ):
            while pending or going:
                while pending and free:
                    step, lane = pending.pop(0), free.pop(0)
                    self.progress(f"{step.workload}, {step.competitor}, seed {step.seed}")
                    going[pool.submit(carry_out, step, self._folder(lane), self._port(lane))] = (step, lane)
                done, _ = wait(going, return_when=FIRST_COMPLETED)
                for future in done:
                    step, lane = going.pop(future)
                    free.append(lane)
                    yield self._outcome(step, future)

    def _folder(self, lane: int) -> Path:
        return self.workdir / f"lane{lane}"

    def _port(self, lane: int) -> int:
        return self.base_port + lane * PORTS_PER_LANE

    def _outcome(self, step: Step, future: Future[RunResult]) -> RunResult | Failed:
        error = future.exception()
        if error is not None:
            failed = Failed(step, f"{type(error).__name__}: {error}")
            self.progress(f"error: {failed}")
            return failed
        return future.result()
