"""`quicksilver trace generate|convert|show|generators`: traces of jobs for the simulator."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final, cast, get_args

import click

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.version import missing
from quicksilver.simulator.model import SimulatedJob
from quicksilver.simulator.traces.formats.dynoyarn import dump_dynoyarn
from quicksilver.simulator.traces.formats.hawk import dump_hawk
from quicksilver.simulator.traces.formats.registry import FORMATS
from quicksilver.simulator.traces.generators import LAB_PACKAGE, generate, generator, generators
from quicksilver.simulator.traces.jobs import dump_jobs
from quicksilver.simulator.traces.lines import Mistakes
from quicksilver.simulator.traces.shaping import Errors, Measure, measured
from quicksilver.simulator.traces.source import Source
from quicksilver.simulator.traces.spec import Stages, spec_of

WRITERS: Final[dict[str, Callable[[Iterable[SimulatedJob], IO[str]], int]]] = {
    "hawk": dump_hawk,
    "jobs": dump_jobs,
    "dynoyarn": lambda jobs, file: dump_dynoyarn(map(spec_of, jobs), file),
}
Command = Callable[..., None]


@click.group(cls=CommandGroup)
def trace() -> None:
    """Traces of jobs for the simulator."""


def _shaping(command: Command) -> Command:
    """Add the options that change a trace on its way."""
    options = (
        click.option("--from", "fmt", type=click.Choice(FORMATS), help="Its format.  [default: as it begins]"),
        click.option("--stages", type=click.Choice(get_args(Stages)), default="all", show_default=True),
        click.option("--skip", is_flag=True, help="Leave broken jobs out and count them, instead of stopping."),
        click.option("--first", "jobs", type=click.IntRange(1), help="So many jobs.  [default: all]"),
        click.option("--seed", default=1, show_default=True, help="Of generated jobs and of wrong estimates."),
        click.option("--speed", default=1.0, show_default=True, help="Arrivals come so many times as fast."),
        click.option("--load", type=float, help="Share of --slots that is to be busy, in place of --speed."),
        click.option("--slots", type=click.IntRange(1)),
        click.option("--error", default=0.0, show_default=True, help="Estimates are off by up to this share."),
        click.option("--errors", type=click.Choice(get_args(Errors)), default="both", show_default=True),
    )
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def _click_errors() -> Iterator[None]:
    """Turn our errors into click's; a pipe that is closed early is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (QuicksilverError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@trace.command("generate")
@click.argument("name")
@click.option("--jobs", type=click.IntRange(1), help="So many.  [default: as the paper has]")
@click.option("--seed", default=1, show_default=True)
@click.option("--interarrival", "every_s", type=float, help="Mean seconds between arrivals.  [default: the paper's]")
@click.option("--busy", "load_slots", type=float, help="Slots that are to be busy on average, in place of it.")
@click.option("--format", "fmt", type=click.Choice(list(WRITERS)), help="[default: hawk; jobs where jobs have stages]")
def generate_command(
    name: str, jobs: int | None, seed: int, every_s: float | None, load_slots: float | None, fmt: str | None
) -> None:
    """Write jobs of a paper's workload to standard output; `trace generators` lists them."""
    with _click_errors():
        fmt = fmt or ("jobs" if generator(name).stages else "hawk")
        WRITERS[fmt](generate(name, jobs, seed, interarrival_s=every_s, load_slots=load_slots), sys.stdout)


@trace.command("generators")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def generators_command(as_json: bool) -> None:
    """List what `trace generate NAME` and traces named gen:NAME can be."""
    known = generators()
    if not known:
        raise click.ClickException(missing("trace generators", LAB_PACKAGE))
    if as_json:
        rows = [{key: value for key, value in asdict(each).items() if key != "shapes"} for each in known.values()]
        click.echo(json.dumps(rows, indent=2))
        return
    for each in known.values():
        busy = each.mean_work_s / each.interarrival_s
        click.echo(f"{each.name}: {each.jobs:,} jobs, each {each.interarrival_s:g} s, {busy:,.0f} slots busy")
        click.echo(f"  {each.about}")


@trace.command("convert")
@click.argument("source", metavar="A")
@click.argument("target", metavar="B", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--format", "to", type=click.Choice(list(WRITERS)), default="jobs", show_default=True)
@_shaping
def convert_command(source: str, target: Path, to: str, **shaping: Any) -> None:
    """Read trace A (a file, a folder of job history, gen:NAME) and write it as B; - is standard output."""
    with _click_errors():
        origin = Source(source, **shaping)
        if target.exists() and not origin.is_generated and target.samefile(source):
            raise click.UsageError(f"{target} is the trace itself; write to another file")
        mistakes = Mistakes(skip=origin.skip)
        with _whole(target) as file:
            count = WRITERS[to](origin.stream(mistakes), file)
    click.echo(f"{count} jobs written to {target}", err=True)
    _report(mistakes)


@contextmanager
def _whole(target: Path) -> Iterator[IO[str]]:
    """Yield a file that is there as a whole in the end, packed where it is named .gz, or as it was before."""
    if str(target) == "-" or (target.exists() and not target.is_file()):
        with click.open_file(str(target), "w") as file:
            yield file
        return
    part = target.with_name(f".{target.name}.part")
    try:
        with (gzip.open if target.suffix == ".gz" else open)(part, "wt", encoding="utf-8") as output:
            yield cast(IO[str], output)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


@trace.command("show")
@click.argument("source", metavar="A")
@click.option("--cutoff", "cutoff_s", type=float, help="Jobs of longer tasks, in seconds, are counted as long.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_shaping
def show_command(source: str, cutoff_s: float | None, as_json: bool, **shaping: Any) -> None:
    """Show what a trace amounts to: jobs, tasks, work, load."""
    with _click_errors():
        origin = Source(source, **shaping)
        mistakes = Mistakes(skip=origin.skip)
        measure = measured(origin.stream(mistakes), cutoff_s)
    if as_json:
        click.echo(
            json.dumps(
                {**asdict(measure), "slots": measure.slots, "mistakes": mistakes.count, "left_out": mistakes.left_out}
            )
        )
    else:
        for line in _words(measure, cutoff_s):
            click.echo(line)
    _report(mistakes)


def _words(measure: Measure, cutoff_s: float | None) -> list[str]:
    lines = [
        f"{measure.jobs:,} jobs, {measure.tasks:,} tasks, {measure.work_s:,.0f} s of work",
        f"arrivals from {measure.first_s:,.1f} s to {measure.last_s:,.1f} s; {measure.slots:,.1f} slots would be busy",
        f"most tasks of a job {measure.most_tasks:,}; longest task {measure.longest_s:,.1f} s",
    ]
    if cutoff_s is not None and measure.jobs:
        work = measure.long_work_s / measure.work_s if measure.work_s else 0.0
        lines.append(
            f"long: {measure.long_jobs:,} jobs ({measure.long_jobs / measure.jobs:.2%}), {work:.2%} of the work"
        )
    return lines


def _report(mistakes: Mistakes) -> None:
    for line in mistakes.words():
        click.echo(line, err=True)
    for line in mistakes.first:
        click.echo(f"left out: {line}", err=True)
