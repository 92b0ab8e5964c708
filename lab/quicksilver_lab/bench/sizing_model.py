"""What a proxy needs for a load: a model, calibrated on results of `bench task`.

Of one process a sum whose terms take as much in each run: an idle proxy, a report, a heartbeat, a task. Each further
worker takes a part of what reports and heartbeats with asks take, since it hears of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quicksilver_lab.bench.keep import files
from quicksilver_lab.bench.page import pages
from quicksilver_lab.bench.task.cluster import ASKS_RATIO
from sidecar.config import SidecarSettings

FULL_RATIO: Final = 0.7
"""Part of its core that a worker may use: masters and nodes are spread by chance, and load comes in bursts."""
NEAR_RATIO: Final = 0.9
"""Part of a load's tasks from which on a run is a measurement of it."""
_MOST_WORKERS: Final = 64
_MOST_TASKS: Final = 1e6
_HALVINGS: Final = 10
_BESIDE: Final = ("supervisor", "front")
"""Processes that do not grow with the load."""


@dataclass(frozen=True, slots=True)
class ProxyLoad:
    """What a proxy has to do; tasks, heartbeats and reports: in a second."""

    nodes: int
    masters: int
    tasks: float
    heartbeats: float
    reports: float
    workers: int = 1
    own_grants: bool = False

    @property
    def asks(self) -> float:
        """Heartbeats with asks in a second: each master asks for tasks together, in a part of its heartbeats."""
        return min(self.tasks, ASKS_RATIO * self.heartbeats)

    @property
    def further(self) -> int:
        """Workers beside the first."""
        return self.workers - 1


@dataclass(frozen=True, slots=True)
class SizingRun:
    """What the processes of a proxy took for a load.

    cores: of all; memory_mb: of the workers, beside_mb: of front and supervisor; skew: CPU time of the busiest worker
    over the mean of all.
    """

    load: ProxyLoad
    cores: float
    memory_mb: float
    beside_mb: float
    skew: float
    bytes_per_s: Mapping[str, float]
    commit: str
    machine: str


class SumTerm(NamedTuple):
    """A part of a sum: things of a load, each of which takes as much; `things`: how many it has."""

    each: str
    things: Callable[[ProxyLoad], float]


CPU: Final = (
    SumTerm("second of an idle proxy", lambda load: 1),
    SumTerm("report", lambda load: load.reports),
    SumTerm("heartbeat", lambda load: load.heartbeats),
    SumTerm("heartbeat with asks, and what follows", lambda load: load.asks),
    SumTerm("task, granted by the ResourceManager", lambda load: 0 if load.own_grants else load.tasks),
    SumTerm("task, granted by the proxy", lambda load: load.tasks if load.own_grants else 0),
    SumTerm("second of a node with keys", lambda load: load.nodes if load.own_grants else 0),
)
SHARED: Final = (1, 3)
"""Terms of CPU of which all workers hear: reports, and heartbeats with asks."""
MEMORY: Final = (
    SumTerm("proxy", lambda load: 1),
    SumTerm("further worker", lambda load: load.further),
    SumTerm("node, in each worker", lambda load: load.workers * load.nodes),
    SumTerm("master", lambda load: load.masters),
)
BYTES: Final[Mapping[str, tuple[SumTerm, ...]]] = {
    "nodes": (SumTerm("report", lambda load: load.reports), SumTerm("task", lambda load: load.tasks)),
    "masters": (SumTerm("heartbeat", lambda load: load.heartbeats), SumTerm("task", lambda load: load.tasks)),
    "rm": (
        SumTerm("heartbeat", lambda load: load.heartbeats),
        SumTerm("task, granted by the ResourceManager", lambda load: 0 if load.own_grants else load.tasks),
        SumTerm("task, granted by the proxy", lambda load: load.tasks if load.own_grants else 0),
    ),
}


class TermSum:
    """A model: the amount that each term takes is the same in all runs."""

    def __init__(
        self, terms: Sequence[SumTerm], runs: Sequence[SizingRun], value: Callable[[SizingRun], float]
    ) -> None:
        """Fit it to what `value` says of each run."""
        self.terms, self._runs, self._value = terms, runs, value
        rows = np.array([[float(term.things(run.load)) for term in terms] for run in runs])
        self.amounts = amounts_of(rows, np.array([value(run) for run in runs]))
        self._in_runs = rows.any(axis=0)

    def of(self, load: ProxyLoad) -> float:
        """Return what a load takes; NaN where it has something of which no run had any."""
        counts = np.array([float(term.things(load)) for term in self.terms])
        return math.nan if (counts[~self._in_runs] != 0).any() else float(counts @ self.amounts)

    def worst_ratio(self) -> float:
        """Return the largest error at a run, as a part of what was measured."""
        return max(abs(self.of(run.load) / self._value(run) - 1) for run in self._runs)


def amounts_of(rows: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the amounts, shape (terms,), that give `values` for `rows`, shape (runs, terms), as well as any do.

    Errors count as parts of their value. A term that would be negative is left out, and so is one without a count.
    """
    parts = rows / values[:, None]
    widths = np.abs(parts).max(axis=0)
    terms = [term for term, width in enumerate(widths) if width > 0]
    while terms:
        scaled = np.linalg.lstsq(parts[:, terms] / widths[terms], np.ones(len(values)), rcond=None)[0]
        lowest = int(scaled.argmin())
        if scaled[lowest] >= 0:
            break
        del terms[lowest]
    amounts = np.zeros(rows.shape[1])
    amounts[terms] = scaled / widths[terms] if terms else ()
    return amounts


class CpuSum:
    """CPU time of the processes of a proxy, in cores: that of a single one, and a part of what all workers hear of.

    The first is fitted to runs of one process, the part to those of several.
    """

    def __init__(self, runs: Sequence[SizingRun]) -> None:
        """Fit it. Raises ValueError without a run of one process."""
        single = [run for run in runs if not run.load.further]
        if not single:
            raise ValueError("no run of one process")
        self.one_process = TermSum(CPU, single, lambda run: run.cores)
        self._runs = runs
        several = [run for run in runs if run.load.further]
        self.further_ratio = self._further_ratio(several) if several else math.nan
        """What each further worker takes, as a part of what SHARED takes."""

    def _further_ratio(self, runs: Sequence[SizingRun]) -> float:
        cores = np.array([run.cores for run in runs])
        heard = np.array([run.load.further * self._shared(run.load) for run in runs]) / cores
        rest = 1 - np.array([self.one_process.of(run.load) for run in runs]) / cores
        return max(0.0, float(heard @ rest / (heard @ heard)))

    def _shared(self, load: ProxyLoad) -> float:
        return sum(float(CPU[term].things(load) * self.one_process.amounts[term]) for term in SHARED)

    def of(self, load: ProxyLoad) -> float:
        """Return the cores that a load takes; NaN where it has something of which no run had any."""
        further = load.further * self.further_ratio * self._shared(load) if load.further else 0.0
        return self.one_process.of(load) + further

    def worst_ratio(self) -> float:
        """Return the largest error at a run, as a part of what was measured."""
        return max(abs(self.of(run.load) / run.cores - 1) for run in self._runs)


def reports_per_s(nodes: int, tasks: float) -> float:
    """Return the reports of all sidecars in a second, where starts and ends of tasks come at random.

    A sidecar reports when something changed, a little later (`coalesce_s`), and else each `report_s`.
    """
    settings = SidecarSettings()
    changes = 2 * tasks / nodes
    waits_s = -math.expm1(-changes * settings.report_s) / changes if changes else settings.report_s
    return nodes / (settings.coalesce_s + waits_s)


def runs_of(results: Iterable[Mapping[str, Any]]) -> list[SizingRun]:
    """Return the runs of results; of those with the same settings the last one counts.

    A result of several workers has two, since its single process is measured, too. Results with the clock of parts have
    none, which costs CPU time, nor have those whose grants come ahead of the ResourceManager.
    """
    newest: dict[tuple[Any, ...], list[SizingRun]] = {}
    for result in results:
        settings, size, load = result["settings"], result["settings"]["size"], result["settings"]["load"]
        own_grants, workers = settings.get("own_grants", False), settings.get("workers", 1)
        if settings["timers"] or own_grants == "ahead" or "memory_mb" not in result:
            continue
        key = (*size.values(), *load.values(), workers, own_grants)
        newest[key] = [_run(result, result, workers)]
        if "one" in result:
            newest[key].append(_run(result, result["one"], 1))
    return [run for runs in newest.values() for run in runs]


def _run(result: Mapping[str, Any], figures: Mapping[str, Any], workers: int) -> SizingRun:
    settings, per_s, cores, memory = result["settings"], figures["per_s"], figures["cores"], figures["memory_mb"]
    size, machine = settings["size"], result["machine"]
    load = ProxyLoad(
        nodes=size["nodes"],
        masters=size["masters"],
        tasks=per_s["completed"],
        heartbeats=per_s["heartbeats"],
        reports=per_s["reports"],
        workers=workers,
        own_grants=bool(settings.get("own_grants", False)),
    )
    busy = [spent for name, spent in cores.items() if name not in _BESIDE]
    return SizingRun(
        load=load,
        cores=sum(cores.values()),
        memory_mb=sum(amount for name, amount in memory.items() if name not in _BESIDE),
        beside_mb=sum(memory.get(name, 0.0) for name in _BESIDE),
        skew=max(busy) * len(busy) / sum(busy),
        bytes_per_s={end: figures["bytes_per_s"][f"from_{end}"] + figures["bytes_per_s"][f"to_{end}"] for end in BYTES},
        commit=result["commit"],
        machine=f"{machine['cores']} cores ({machine['cpu']}), Python {machine['python']}",
    )


def kept_runs(folder: Path) -> list[SizingRun]:
    """Return the runs of the results that are kept in a folder."""
    return runs_of(pages.load(file) for file in files(folder) if file.name.startswith("task-"))


@dataclass(frozen=True, slots=True)
class Needs:
    """What a load needs. workers: None where no number of them carries it, or none was measured; then with NaN."""

    workers: int | None
    cores: float
    memory_mb: float
    bytes_per_s: float


class SizingModel:
    """What a proxy needs, by runs."""

    def __init__(self, runs: Sequence[SizingRun]) -> None:
        """Fit all sums. Raises ValueError without runs."""
        if not runs:
            raise ValueError("no result of `bench task` is kept of which a model could be made")
        self.runs = runs
        self.cpu = CpuSum(runs)
        self.memory = TermSum(MEMORY, runs, lambda run: run.memory_mb)
        self.bytes = {end: TermSum(terms, runs, _bytes(end)) for end, terms in BYTES.items()}
        self.beside_mb = max(run.beside_mb for run in runs)
        self.most = ProxyLoad(
            nodes=max(run.load.nodes for run in runs),
            masters=max(run.load.masters for run in runs),
            tasks=max(run.load.tasks for run in runs),
            heartbeats=max(run.load.heartbeats for run in runs),
            reports=max(run.load.reports for run in runs),
            workers=max(run.load.workers for run in runs),
        )
        """The largest of each; no run had all of them."""

    def needs(self, load: ProxyLoad) -> Needs:
        """Return what a load needs, with as few workers as leave each a part of its core."""
        bytes_per_s = sum(each.of(load) for each in self.bytes.values())
        for workers in range(1, _MOST_WORKERS + 1):
            load = replace(load, workers=workers)
            cores = self.cpu.of(load)
            if cores <= FULL_RATIO * workers:
                memory_mb = self.memory.of(load) + (self.beside_mb if workers > 1 else 0)
                return Needs(workers, cores, memory_mb, bytes_per_s)
        return Needs(None, math.nan, math.nan, bytes_per_s)

    def most_tasks(self, load_of: Callable[[float], ProxyLoad]) -> float:
        """Return about how many tasks a second can be carried at all; `load_of` returns the load for some."""
        low, high = 0.0, 1.0
        while self.needs(load_of(high)).workers is not None and high < _MOST_TASKS:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.needs(load_of(middle)).workers is None else (middle, high)
        return low

    def covers(self, load: ProxyLoad, workers: int) -> bool:
        """Return whether a run was as large, with so many workers and the same kind of grants."""
        return any(
            run.load.nodes == load.nodes
            and run.load.workers == workers
            and run.load.own_grants == load.own_grants
            and run.load.tasks >= load.tasks * NEAR_RATIO
            for run in self.runs
        )


def _bytes(end: str) -> Callable[[SizingRun], float]:
    return lambda run: run.bytes_per_s[end]
