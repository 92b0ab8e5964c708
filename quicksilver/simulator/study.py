"""A study from the options of a command line to its rows: surveyed, checked, run, kept, gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from policies.config.presets import DEFAULT
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.version import version
from quicksilver.simulator.checkpoint import Checkpoint, opened
from quicksilver.simulator.model import ClusterModel
from quicksilver.simulator.run import Progress, Row, SystemOffer, row_of, run_all
from quicksilver.simulator.source import LONGEST_S, Survey, Trace, survey
from quicksilver.simulator.sweep import POLICIES, Case, StudyError, SweepChoice, SweepWish
from quicksilver.simulator.systems import load

MOST_SLOTS: Final = 1_000_000
"""Six times as many as the largest of the papers' clusters; each takes some hundred bytes."""
RUNS: Final = "runs.jsonl"
"""The checkpoint's name in a study's folder."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What both commands are asked for."""

    trace: Trace
    systems: tuple[str, ...]
    fixed: tuple[SweepChoice, ...]
    config: Path | None
    nodes: int | None
    load: float | None
    """Offered load (above 0) to choose the number of nodes by, or with `nodes` how fast jobs arrive."""
    slots: int
    memory_mb: int
    delay_s: float
    cutoff_s: float | None
    processes: int
    out: Path | None
    compares: bool = False
    """Whether systems are compared, so that the product gets a base line in its own world."""


@dataclass(frozen=True, slots=True)
class Study:
    """What was asked for, with what the trace tells about it."""

    request: Asked
    offer: SystemOffer
    survey: Survey
    policies: Mapping[str, Any] | None

    def plan(self, swept: Sequence[SweepChoice] = (), option: str = "--sweep") -> SweepWish:
        """Return what is to be run, with settings that are tried; option: which names them."""
        request = self.request
        cutoff_s = self.offer.cutoff_s
        return SweepWish(request.systems, request.fixed, swept, self.policies, cutoff_s, option, request.compares)

    def about(self) -> dict[str, Any]:
        """Return what all runs have in common."""
        trace = self.offer.trace
        return {
            "quicksilver": version(),
            "trace": self.survey.digest,
            "speed": trace.source.speed,
            "sample_ratio": trace.sample_ratio,
            "error": [trace.error, trace.errors] if trace.error else None,
            "cluster": asdict(self.offer.cluster),
            "cutoff_s": self.offer.cutoff_s,
        }

    def facts(self) -> list[tuple[str, str]]:
        """Return the same and more, in words."""
        trace, cluster, totals = self.offer.trace, self.offer.cluster, self.survey
        parts = [
            f"{trace.name}: {totals.jobs:,} jobs, {totals.tasks:,} tasks",
            f"arrivals {trace.source.speed:.6g} times as fast" if trace.source.speed != 1 else "",
            "each seed has others of the same kind" if trace.source.differs_by_seed else "",
            f"each seed has another {trace.sample_ratio:g} of the jobs" if trace.sample_ratio != 1 else "",
            f"estimates wrong by up to {trace.error:g} ({trace.errors})" if trace.error else "",
            *totals.left_out,
        ]
        offered = f"{totals.load(cluster):.3g} of the slots over {totals.span_s:,.0f} s of arrivals"
        memory = f", {cluster.memory_mb:,} MB each" if cluster.memory_mb else ""
        return [
            ("trace", "; ".join(part for part in parts if part)),
            ("cluster", f"{cluster.nodes:,} nodes of {cluster.slots} slots{memory}, network {cluster.delay_s:g} s"),
            ("offered load", offered if totals.span_s else "all jobs arrive at once"),
            ("long jobs", f"tasks of more than {self.offer.cutoff_s:.6g} s by their estimate"),
            ("quicksilver", version()),
        ]


def study(request: Asked) -> Study:
    """Read the trace once and check what can be checked before a run. Raises QuicksilverError."""
    policies = _policies(request)
    if Path(request.trace.source.name).is_fifo():
        remedy = "write it to a file first"
        raise StudyError("is a pipe, and each run reads the trace anew", place=request.trace.source.name, remedy=remedy)
    totals, trace = survey(request.trace), request.trace
    _of_this_world(totals, trace)
    if request.load is not None and not (totals.span_s and totals.work_s):
        problem, remedy = "jobs that arrive at once, or take no time, are no load", "give --nodes without --load"
        raise StudyError(problem, place=trace.source.name, remedy=remedy)
    if request.nodes is None and request.load is None:
        nodes = -(-totals.slots_for(0.9) // request.slots)
        remedy = f"give --nodes, or --load 0.9 (which is {nodes} nodes)" if totals.span_s else "give --nodes"
        raise StudyError("the number of nodes is not known", place=trace.source.name, remedy=remedy)
    nodes = request.nodes or -(-totals.slots_for(request.load or 1.0) // request.slots)
    if nodes * request.slots > MOST_SLOTS:
        remedy = "give a higher --load, or less --nodes or --slots"
        raise StudyError(f"a cluster of {nodes * request.slots:.3g} slots; {MOST_SLOTS:,} at most", remedy=remedy)
    cluster = ClusterModel(nodes, request.slots, request.memory_mb, request.delay_s)
    if request.nodes is not None and request.load is not None:
        speed = request.load / totals.load(cluster)
        trace = replace(trace, source=replace(trace.source, speed=trace.source.speed * speed))
        totals = totals.faster(speed)
        _of_this_world(totals, trace)
    cutoff_s = totals.long_s if request.cutoff_s is None else request.cutoff_s
    return Study(request, SystemOffer(trace, cluster, cutoff_s), totals, policies)


def _of_this_world(totals: Survey, trace: Trace) -> None:
    """Raises StudyError for times that would keep a run busy for ever."""
    for phrase, seconds in (("a task takes", totals.longest_s), ("jobs arrive over", totals.span_s)):
        if seconds > LONGEST_S:
            remedy = f"mend it: a trace has seconds, and {LONGEST_S:g} at most (three years)"
            raise StudyError(f"{phrase} {seconds:g} s", place=trace.source.name, remedy=remedy)


def _policies(request: Asked) -> Mapping[str, Any] | None:
    """Return the section `policies:` of the settings file, checked as in production."""
    models = [load(name).Settings for name in request.systems]
    if request.config is None:
        return None
    from quicksilver.common.settings.settings_file import load_settings  # takes a while

    settings = load_settings(request.config)
    settings.policies()
    if not any(POLICIES in model.model_fields and model.takes_file for model in models):
        problem = f"{' and '.join(request.systems)} {'takes' if len(models) == 1 else 'take'} no policies"
        raise StudyError(problem, place="--config", remedy="add a system that does (quicksilver simulate --list)")
    section: Mapping[str, Any] = settings.data.get("policies") or {"preset": DEFAULT}
    return section


class Runner:
    """Does the runs that are not kept yet."""

    def __init__(self, study: Study, checkpoint: Checkpoint | None) -> None:
        self._study = study
        self._checkpoint = checkpoint
        self._rows: dict[str, Row] = {}
        """Those of earlier calls: rounds of a search ask for the same ones again."""

    def done(self, cases: Sequence[Case]) -> int:
        """Return how many of the runs are kept already."""
        return sum(self._known(case) is not None for case in cases)

    def _known(self, case: Case) -> Row | None:
        if self._checkpoint and case.key in self._checkpoint.rows:
            return row_of(case, self._checkpoint.rows[case.key])
        return self._rows.get(case.key)

    def rows(
        self, cases: Sequence[Case], progress: Progress, ended: Callable[[Row], None] = lambda _: None
    ) -> list[Row]:
        """Return the rows of all cases, in their order. Raises RunError, OSError."""
        rows = {case.key: row for case in cases if (row := self._known(case)) is not None}
        missing = [case for case in cases if case.key not in rows]
        for case, row in run_all(self._study.offer, missing, self._study.request.processes, progress):
            if self._checkpoint:
                self._checkpoint.add(case.key, row.as_json())
            else:
                self._rows[case.key] = row
            rows[case.key] = row
            ended(row)
        return [rows[case.key] for case in cases]


@contextmanager
def runner(study: Study) -> Iterator[Runner]:
    """Yield what does the runs, on the checkpoint in the study's folder where it has one. Raises CheckpointError."""
    folder = study.request.out
    if folder is not None and folder.exists() and not folder.is_dir():
        raise QuicksilverError("is no folder", place=str(folder), remedy="name one that is, or that is not there yet")
    with opened(folder / RUNS, study.about()) if folder else nullcontext() as checkpoint:
        yield Runner(study, checkpoint)
