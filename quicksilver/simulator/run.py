"""Runs of a study, in as many processes as are wanted: what comes out is the same with any number of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from importlib import import_module
from multiprocessing import active_children, get_context, parent_process
from signal import SIG_IGN, SIGINT, signal
from time import process_time
from typing import Any, Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.figures import Figures, figures
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.source import Trace
from quicksilver.simulator.sweep import Case
from quicksilver.simulator.systems import System

Progress = Callable[[int], None]
"""Is told how many more jobs arrived in the runs."""
_TELL_EVERY: Final = 50
_LOOK_EVERY_S: Final = 0.25


class RunError(QuicksilverError):
    """A run that could not be done."""


@dataclass(frozen=True, slots=True)
class SystemOffer:
    """What all runs of a study have in common."""

    trace: Trace
    cluster: ClusterModel
    cutoff_s: float
    """A job is long when its tasks take longer than this by its estimate."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is kept of a run."""

    label: str
    system: str
    settings: dict[str, Any]
    varied: dict[str, Any]
    seed: int
    figures: Figures
    cpu_s: float
    """Of the run, the reading of its trace included."""

    def as_json(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)


def row_of(case: Case, record: dict[str, Any]) -> Row:
    """Return a run that was kept, under the names of today's case."""
    return Row(
        case.variant.label,
        case.variant.system,
        dict(case.variant.settings),
        dict(case.variant.varied),
        case.seed,
        Figures(**record["figures"]),
        record["cpu_s"],
    )


class _Stream:
    """Jobs on their way into a system: counted, and the long ones noted."""

    def __init__(self, jobs: Iterable[SimulatedJob], cutoff_s: float, tell: Progress) -> None:
        self._jobs, self._cutoff_s, self._tell = jobs, cutoff_s, tell
        self.long: set[int] = set()
        self.queues: dict[int, str] = {}
        self.jobs = self.tasks = 0

    def __iter__(self) -> Iterator[SimulatedJob]:
        for job in self._jobs:
            self.jobs += 1
            self.tasks += len(job.durations_s)
            if job.estimate_s > self._cutoff_s:
                self.long.add(job.number)
            self.queues[job.number] = job.queue
            if self.jobs % _TELL_EVERY == 0:
                self._tell(_TELL_EVERY)
            yield job
        self._tell(self.jobs % _TELL_EVERY)


def run(offer: SystemOffer, case: Case, tell: Progress) -> Row:
    """Do one run. Raises RunError."""
    begun_s = process_time()
    variant = case.variant
    place = f"{variant.label}, seed {case.seed}"
    system = _system(variant.place)
    settings = system.Settings.model_validate(variant.overrides)
    stream = _Stream(offer.trace.jobs_of(case.seed), offer.cutoff_s, tell)
    try:
        result = system.run(offer.trace.with_estimates(stream, case.seed), offer.cluster, settings, case.seed)
    except (SimulatorError, QuicksilverError) as error:
        raise RunError(str(error), place=place) from error
    _whole(result, stream, place)
    stats = figures(result, offer.cluster, stream.long, stream.queues)
    spent_s = round(process_time() - begun_s, 3)
    return Row(variant.label, variant.system, dict(variant.settings), dict(variant.varied), case.seed, stats, spent_s)


def _system(place: str) -> System:
    module, _, attribute = place.partition(":")
    system: System = getattr(import_module(module), attribute)
    return system


def _whole(result: SimResult, stream: _Stream, place: str) -> None:
    """Raises RunError when jobs or tasks did not come back, or came twice."""
    jobs, numbers = len(result.jobs), len({job.number for job in result.jobs})
    tasks = sum(job.tasks for job in result.jobs)
    if (jobs, numbers, tasks) != (stream.jobs, stream.jobs, stream.tasks):
        problem = (
            f"{stream.jobs} jobs of {stream.tasks} tasks went in, {jobs} jobs ({numbers} numbers), {tasks} tasks out"
        )
        raise RunError(problem, place=place, remedy="report it: the system loses jobs or doubles them")


_ARRIVED: Any = None


def _begin(arrived: Any) -> None:
    """Get a process ready: Ctrl-C is for its parent, without which it ends, too."""
    global _ARRIVED
    _ARRIVED = arrived
    signal(SIGINT, SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _tell(jobs: int) -> None:
    with _ARRIVED.get_lock():
        _ARRIVED.value += jobs


def _run(offer: SystemOffer, case: Case) -> Row:
    return run(offer, case, _tell)


def run_all(
    offer: SystemOffer, cases: Sequence[Case], processes: int, progress: Progress
) -> Iterator[tuple[Case, Row]]:
    """Yield the runs as they end, each with its case; one process does them here.

    When the generator is closed, or the first run fails, the others are given up. Raises RunError.
    """
    if processes == 1 or len(cases) <= 1:
        for case in cases:
            yield case, run(offer, case, progress)
        return
    context = get_context("spawn")
    arrived = context.Value("q", 0)
    before = set(active_children())
    pool = ProcessPoolExecutor(min(processes, len(cases)), context, _begin, (arrived,))
    try:
        yield from _ended(pool, offer, cases, lambda: progress(_taken(arrived)))
        pool.shutdown()
    except BrokenProcessPool as error:
        remedy = "look for a lack of memory, use fewer --processes; runs that are kept are not done again"
        raise RunError("a process of the study was killed", remedy=remedy) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # what is left is given up
        for child in set(active_children()) - before:
            child.terminate()
            child.join()


def _taken(arrived: Any) -> int:
    with arrived.get_lock():
        jobs, arrived.value = arrived.value, 0
    return int(jobs)


def _ended(
    pool: ProcessPoolExecutor, offer: SystemOffer, cases: Sequence[Case], look: Callable[[], None]
) -> Iterator[tuple[Case, Row]]:
    waiting: dict[Future[Row], Case] = {pool.submit(_run, offer, case): case for case in cases}
    while waiting:
        done, _ = wait(waiting, _LOOK_EVERY_S, FIRST_COMPLETED)
        look()
        for future in done:
            yield waiting.pop(future), future.result()
