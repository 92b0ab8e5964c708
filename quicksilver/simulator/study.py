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
from quicksilver.simulator.run import Offer, Progress, Row, row_of, run_all
from quicksilver.simulator.source import LONGEST_S, Survey, Trace, survey
from quicksilver.simulator.sweep import POLICIES, Case, Choice, StudyError, Wanted
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
    fixed: tuple[Choice, ...]
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

    asked: Asked
    offer: Offer
    survey: Survey
    policies: Mapping[str, Any] | None

    def wanted(self, swept: Sequence[Choice] = (), option: str = "--sweep") -> Wanted:
        """Return what is to be run, with settings that are tried; option: which names them."""
        asked = self.asked
        cutoff_s = self.offer.cutoff_s
        return Wanted(asked.systems, asked.fixed, swept, self.policies, cutoff_s, option, asked.compares)

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
        trace, cluster, found = self.offer.trace, self.offer.cluster, self.survey
        said = [
            f"{trace.name}: {found.jobs:,} jobs, {found.tasks:,} tasks",
            f"arrivals {trace.source.speed:.6g} times as fast" if trace.source.speed != 1 else "",
            "each seed has others of the same kind" if trace.source.differs_by_seed else "",
            f"each seed has another {trace.sample_ratio:g} of the jobs" if trace.sample_ratio != 1 else "",
            f"estimates wrong by up to {trace.error:g} ({trace.errors})" if trace.error else "",
            *found.left_out,
        ]
        offered = f"{found.load(cluster):.3g} of the slots over {found.span_s:,.0f} s of arrivals"
        memory = f", {cluster.memory_mb:,} MB each" if cluster.memory_mb else ""
        return [
            ("trace", "; ".join(part for part in said if part)),
            ("cluster", f"{cluster.nodes:,} nodes of {cluster.slots} slots{memory}, network {cluster.delay_s:g} s"),
            ("offered load", offered if found.span_s else "all jobs arrive at once"),
            ("long jobs", f"tasks of more than {self.offer.cutoff_s:.6g} s by their estimate"),
            ("quicksilver", version()),
        ]


def study(asked: Asked) -> Study:
    """Read the trace once and check what can be checked before a run. Raises QuicksilverError."""
    policies = _policies(asked)
    if Path(asked.trace.source.name).is_fifo():
        remedy = "write it to a file first"
        raise StudyError("is a pipe, and each run reads the trace anew", place=asked.trace.source.name, remedy=remedy)
    found, trace = survey(asked.trace), asked.trace
    _of_this_world(found, trace)
    if asked.load is not None and not (found.span_s and found.work_s):
        what, remedy = "jobs that arrive at once, or take no time, are no load", "give --nodes without --load"
        raise StudyError(what, place=trace.source.name, remedy=remedy)
    if asked.nodes is None and asked.load is None:
        nodes = -(-found.slots_for(0.9) // asked.slots)
        remedy = f"give --nodes, or --load 0.9 (which is {nodes} nodes)" if found.span_s else "give --nodes"
        raise StudyError("the number of nodes is not known", place=trace.source.name, remedy=remedy)
    nodes = asked.nodes or -(-found.slots_for(asked.load or 1.0) // asked.slots)
    if nodes * asked.slots > MOST_SLOTS:
        remedy = "give a higher --load, or less --nodes or --slots"
        raise StudyError(f"a cluster of {nodes * asked.slots:.3g} slots; {MOST_SLOTS:,} at most", remedy=remedy)
    cluster = ClusterModel(nodes, asked.slots, asked.memory_mb, asked.delay_s)
    if asked.nodes is not None and asked.load is not None:
        speed = asked.load / found.load(cluster)
        trace = replace(trace, source=replace(trace.source, speed=trace.source.speed * speed))
        found = found.faster(speed)
        _of_this_world(found, trace)
    cutoff_s = found.long_s if asked.cutoff_s is None else asked.cutoff_s
    return Study(asked, Offer(trace, cluster, cutoff_s), found, policies)


def _of_this_world(found: Survey, trace: Trace) -> None:
    """Raises StudyError for times that would keep a run busy for ever."""
    for what, seconds in (("a task takes", found.longest_s), ("jobs arrive over", found.span_s)):
        if seconds > LONGEST_S:
            remedy = f"mend it: a trace has seconds, and {LONGEST_S:g} at most (three years)"
            raise StudyError(f"{what} {seconds:g} s", place=trace.source.name, remedy=remedy)


def _policies(asked: Asked) -> Mapping[str, Any] | None:
    """Return the section `policies:` of the settings file, checked as in production."""
    models = [load(name).Settings for name in asked.systems]
    if asked.config is None:
        return None
    from quicksilver.common.settings.settings_file import load_settings  # takes a while

    settings = load_settings(asked.config)
    settings.policies()
    if not any(POLICIES in model.model_fields and model.takes_file for model in models):
        what = f"{' and '.join(asked.systems)} {'takes' if len(models) == 1 else 'take'} no policies"
        raise StudyError(what, place="--config", remedy="add a system that does (quicksilver simulate --list)")
    section: Mapping[str, Any] = settings.data.get("policies") or {"preset": DEFAULT}
    return section


class Runner:
    """Does the runs that are not kept yet."""

    def __init__(self, study: Study, kept: Checkpoint | None) -> None:
        self._study = study
        self._kept = kept
        self._rows: dict[str, Row] = {}
        """Those of earlier calls: rounds of a search ask for the same ones again."""

    def done(self, cases: Sequence[Case]) -> int:
        """Return how many of the runs are kept already."""
        return sum(self._known(case) is not None for case in cases)

    def _known(self, case: Case) -> Row | None:
        if self._kept and case.key in self._kept.rows:
            return row_of(case, self._kept.rows[case.key])
        return self._rows.get(case.key)

    def rows(
        self, cases: Sequence[Case], progress: Progress, ended: Callable[[Row], None] = lambda _: None
    ) -> list[Row]:
        """Return the rows of all cases, in their order. Raises RunError, OSError."""
        found = {case.key: row for case in cases if (row := self._known(case)) is not None}
        missing = [case for case in cases if case.key not in found]
        for case, row in run_all(self._study.offer, missing, self._study.asked.processes, progress):
            if self._kept:
                self._kept.add(case.key, row.as_json())
            else:
                self._rows[case.key] = row
            found[case.key] = row
            ended(row)
        return [found[case.key] for case in cases]


@contextmanager
def runner(study: Study) -> Iterator[Runner]:
    """Yield what does the runs, on the checkpoint in the study's folder where it has one. Raises CheckpointError."""
    folder = study.asked.out
    if folder is not None and folder.exists() and not folder.is_dir():
        raise QuicksilverError("is no folder", place=str(folder), remedy="name one that is, or that is not there yet")
    with opened(folder / RUNS, study.about()) if folder else nullcontext() as kept:
        yield Runner(study, kept)
