"""`quicksilver simulate` and `quicksilver tune`: a trace's jobs under one system or several, and what to set."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from policies.config.schema import full_queue
from quicksilver.common.settings.settings_yaml import settings_yaml
from quicksilver.report import files
from quicksilver.report.model import Page, Prose, ReportEstimate, ReportSection, ReportTable, Value
from quicksilver.simulator.findings import findings
from quicksilver.simulator.options import Comparing, show, study_options, systems_option
from quicksilver.simulator.report import classes_of, page
from quicksilver.simulator.results import WRITERS, by_label, metric, needs, summary
from quicksilver.simulator.run import Row
from quicksilver.simulator.stock import is_stock
from quicksilver.simulator.study import Asked, Runner, Study, runner, study
from quicksilver.simulator.sweep import POLICIES, Case, StudyError, Variant, cases, choice, variants
from quicksilver.simulator.tune import Round, Verdict, goal_of, has, tune

FORMATS: Final = (*WRITERS, "html")
_FILES: Final = {"json": "result.json", "csv": "runs.csv", "parquet": "runs.parquet", "html": "report.html"}
_FIGURES: Final = ("mean", "p50", "p95", "p99", "wait")


def _formats(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    unknown = set(names) - set(FORMATS)
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(FORMATS)}")
    return names


formats_option = click.option(
    "--formats",
    default="json,csv,html",
    show_default=True,
    callback=_formats,
    help="Of results, parquet too; in --out.",
)


@click.command(cls=Comparing)
@study_options
@systems_option("--compare", "several", metavar="SYSTEM...", help="Several, against the best stock scheduler.")
@click.option("--sweep", "swept", multiple=True, metavar="KEY=A,B,C", help="Try each value, with each of other sweeps.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Runs of each: seeds 1, 2, ...")
@formats_option
def simulate(request: Asked, swept: tuple[str, ...], seeds: int, formats: tuple[str, ...], as_json: bool) -> None:
    """Run the jobs of TRACE under a virtual clock.

    --list shows the systems, --describe SYSTEM the settings of one.
    """
    _ready(request, formats)
    choices = [choice(text, "--sweep") for text in swept]
    study = _study(request)
    batch = cases(variants(study.plan(choices)), range(1, seeds + 1))
    with runner(study) as does, _progress(study, does, batch) as step:
        rows = does.rows(batch, *step)
    about = study.about() | {"argv": shlex.join(sys.argv[1:]), "facts": dict(study.facts())}
    about |= {"verdict": findings(rows)}
    places = _write(request.out, formats, about, rows, page(_facts(study), rows, _title(study)))
    if as_json:
        click.echo(json.dumps(summary(about, rows)))
    else:
        _print(study, rows, places)
    _warn(study, rows)


@click.command("tune")
@study_options
@click.option(
    "--goal", default="p95_short", show_default=True, help="mean, throughput, p95_short, or any other figure."
)
@click.option("--param", "swept", multiple=True, required=True, metavar="KEY=A,B,C", help="Values to try; repeatable.")
@click.option("--seeds", type=click.IntRange(2), default=8, show_default=True, help="Of the comparison at the end.")
@formats_option
def tune_command(
    request: Asked, goal: str, swept: tuple[str, ...], seeds: int, formats: tuple[str, ...], as_json: bool
) -> None:
    """Search the settings that are best for a goal on TRACE, and say how sure that is."""
    _ready(request, formats)
    if len(request.systems) > 1:
        raise StudyError("one system at a time can be tuned", place="--system", remedy="name one")
    choices = [choice(text, "--param") for text in swept]
    figure = goal_of(goal)
    study = _study(request)
    present, *_ = variants(study.plan())
    with runner(study) as does:
        candidates = variants(study.plan(choices, "--param"))
        has(_batch(study, does, [Case(present, 1)])[0], figure)  # before a round of runs, not after it
        verdict = tune(present, candidates, goal, seeds, lambda batch: _batch(study, does, batch))
    about = study.about() | {"argv": shlex.join(sys.argv[1:]), "facts": dict(study.facts()), **_outcome(verdict)}
    rows = list(verdict.rows)
    places = _write(request.out, formats, about, rows, _evidence(study, verdict))
    _warn(study, rows)
    if as_json:
        click.echo(json.dumps(about))
        return
    for search_round in verdict.rounds:
        show(_round(search_round, verdict.goal))
    click.echo(verdict.words())
    if verdict.significant:
        click.echo(to_set(verdict))
    _say(places)


def _ready(request: Asked, formats: Sequence[str]) -> None:
    """Raises QuicksilverError for what would fail only after the runs."""
    if request.out is not None:
        needs(formats, request.out)


def _study(request: Asked) -> Study:
    """Return the study, and say what was left out of its trace."""
    prepared = study(request)
    for line in prepared.survey.left_out:
        click.echo(line, err=True)
    for line in prepared.survey.mistakes:
        click.echo(f"left out: {line}", err=True)
    return prepared


def _warn(study: Study, rows: Sequence[Row]) -> None:
    """Warn of a settings file under which nothing was queueable: it changed nothing."""
    queues = ", ".join(map(full_queue, study.survey.queues))
    for label, same in by_label(rows if study.policies is not None else ()).items():
        counts, app_type = same[0].figures.counts, same[0].settings.get("app_type")
        if not is_stock(same[0]) and counts.get("granted G") and not counts.get("granted Q"):
            problem = f"{label}: no container was queueable, so its policies changed nothing"
            remedy = f"look at queues, routes and mode: the jobs are of {queues}, of type {app_type}"
            click.echo(f"quicksilver: warning: {problem}; {remedy}", err=True)


def _batch(study: Study, does: Runner, batch: Sequence[Case]) -> list[Row]:
    with _progress(study, does, batch) as step:
        return does.rows(batch, *step)


@contextmanager
def _progress(study: Study, does: Runner, batch: Sequence[Case]) -> Iterator[tuple[Any, Any]]:
    """Show on a terminal how many jobs of all runs arrived and how many runs ended."""
    missing = len(batch) - does.done(batch)
    console = Console(stderr=True)
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as bar:
        jobs = round(study.survey.jobs * study.offer.trace.sample_ratio)
        arrived = bar.add_task("jobs", total=jobs * missing)
        runs = bar.add_task("runs", total=len(batch), completed=len(batch) - missing)
        yield (lambda count: bar.advance(arrived, count)), (lambda _: bar.advance(runs))


def _title(study: Study) -> str:
    return f"Simulation of {study.offer.trace.name}"


def _facts(study: Study) -> list[tuple[str, str]]:
    return [*study.facts(), ("command", f"`quicksilver {shlex.join(sys.argv[1:])}`")]


def _write(
    folder: Path | None, formats: Sequence[str], about: Mapping[str, Any], rows: Sequence[Row], document: Page
) -> list[Path]:
    """Write the results of a study to its folder; return their paths."""
    places = []
    for name in formats if folder else ():
        assert folder is not None
        path = folder / _FILES[name]
        if name in WRITERS:
            WRITERS[name](path, about, rows)
        else:
            files.write(document, path)
        places.append(path)
    return places


def _print(study: Study, rows: Sequence[Row], places: Sequence[Path]) -> None:
    sentences = findings(rows)
    for sentence in sentences:
        click.echo(sentence)
    if sentences:
        click.echo()
    for name, value in study.facts():
        click.echo(f"{name}: {value}")
    groups = by_label(rows)
    for klass in classes_of(groups):
        table: list[list[Value]] = [
            [label, metric(same, f"jobs_{klass}"), *(metric(same, f"{kind}_{klass}") for kind in _FIGURES)]
            for label, same in groups.items()
        ]
        show(ReportTable(["system", "jobs", *_FIGURES], table, f"\n{klass} jobs: completion and wait, s"))
    whole = [
        [label, len(same), metric(same, "utilisation"), metric(same, "throughput")] for label, same in groups.items()
    ]
    show(ReportTable(["system", "seeds", "utilisation", "tasks/s"], whole, "\ncluster"))
    _say(places)


def _say(places: Sequence[Path]) -> None:
    for path in places:
        click.echo(f"written to {path}")


def _outcome(verdict: Verdict) -> dict[str, Any]:
    ratio = verdict.ratio
    shown = (
        {"value": ratio.value, "ci_low": ratio.low, "ci_high": ratio.high}
        if isinstance(ratio, ReportEstimate)
        else ratio
    )
    return {
        "goal": verdict.goal,
        "verdict": verdict.words(),
        "significant": verdict.significant,
        "proposed": dict(verdict.best.varied) if verdict.significant else {},
        "best": _variant(verdict.best),
        "present": _variant(verdict.present),
        "ratio": shown,
        "fresh_seeds": verdict.seeds,
        "rounds": [
            {"seeds": search_round.seeds, "standings": [[s.label, s.value, s.survivor] for s in search_round.standings]}
            for search_round in verdict.rounds
        ],
    }


def to_set(verdict: Verdict) -> str:
    """Return the proposal as options, and as quicksilver.yaml has it where policies are in it."""
    best, present = verdict.best, verdict.present
    options = " ".join(shlex.quote(f"--set={name}={_value(value)}") for name, value in best.varied.items())
    old, new = (variant.settings.get(POLICIES) or {} for variant in (present, best))
    changed = {slot: section for slot, section in new.items() if section != old.get(slot)}
    if not changed:
        return f"To simulate it: {options}"
    return f"To simulate it: {options}\nIn quicksilver.yaml:\n{settings_yaml({POLICIES: changed})}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _variant(variant: Variant) -> dict[str, Any]:
    return {"label": variant.label, "varied": dict(variant.varied), "settings": dict(variant.settings)}


def _round(search_round: Round, goal: str) -> ReportTable:
    rows: list[list[Value]] = [
        [standing.label, standing.value, "goes on" if standing.survivor else ""] for standing in search_round.standings
    ]
    return ReportTable(["settings", f"{goal}, mean", ""], rows, f"{search_round.seeds} seeds")


def _evidence(study: Study, verdict: Verdict) -> Page:
    """Return the page of a search: what to do, how it was found, and the comparison at the end."""
    rounds = [_round(search_round, verdict.goal) for search_round in verdict.rounds]
    facts = [*_facts(study), ("goal", verdict.goal)]
    title = f"Tuning {verdict.present.system} on {study.offer.trace.name}"
    sections = [ReportSection("Verdict", [Prose(verdict.words())]), ReportSection("Search", rounds)]
    if not verdict.rows:
        return Page(title, facts, sections)
    compared = page(facts, verdict.rows, title)
    return Page(title, facts, [*sections, *compared.sections])
