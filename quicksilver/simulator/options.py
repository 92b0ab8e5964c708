"""The options that `simulate` and `tune` share, made into what a study is asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import click
from click.shell_completion import CompletionItem
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from policies.config.validation import setting_rows
from quicksilver.common.errors import QuicksilverError
from quicksilver.report.cells import shown
from quicksilver.report.model import ReportTable
from quicksilver.simulator.errors import SimulatorError, UnknownSystemError
from quicksilver.simulator.source import Trace
from quicksilver.simulator.study import Asked
from quicksilver.simulator.sweep import choice
from quicksilver.simulator.systems import SYSTEMS, load
from quicksilver.simulator.traces.formats.registry import FORMATS
from quicksilver.simulator.traces.generators import generators
from quicksilver.simulator.traces.shaping import Errors
from quicksilver.simulator.traces.source import GENERATED, Source
from quicksilver.simulator.traces.spec import Stages

C = TypeVar("C", bound=Callable[..., Any])


class Finite(click.FloatRange):
    """Neither infinity nor what is no number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number within the range, or fail."""
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


SECONDS: Final = Finite(0)
ABOVE_0: Final = Finite(0, min_open=True)


def _names(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return the names of systems between commas."""
    names = tuple(name.strip() for name in (value or "").split(",") if name.strip())
    for name in names:
        if name not in SYSTEMS:
            raise click.BadParameter(str(UnknownSystemError(name, SYSTEMS)))
    return names


def _complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the systems that begin so, for the shell."""
    return [CompletionItem(name) for name in SYSTEMS if name.startswith(incomplete)]


def _traces(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return generators that begin so, or let the shell complete files."""
    named = [f"{GENERATED}{name}" for name in generators()]
    items = [CompletionItem(name) for name in named if incomplete and name.startswith(incomplete)]
    return items or [CompletionItem(incomplete, type="file")]


def systems_option(*names: str, metavar: str, help: str) -> Callable[[C], C]:
    """Return an option that takes names of systems."""
    return click.option(*names, metavar=metavar, help=help, callback=_names, shell_complete=_complete)


class Comparing(click.Command):
    """Lets several words follow `--compare`, until the next option or a file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Join the words with commas."""
        return super().parse_args(ctx, joined(args, "--compare"))


def joined(args: list[str], option: str) -> list[str]:
    """Return a command line in which the words after an option are one, with commas; a system is no file."""
    words: list[str] = []
    taking = False
    for arg in args:
        if arg == option or arg.startswith(("-", GENERATED)) or (arg not in SYSTEMS and Path(arg).exists()):
            taking = arg == option
            words.append(arg)
        elif taking and words[-1] != option:
            words[-1] += f",{arg}"
        else:
            words.append(arg)
    return words


def _describe(ctx: click.Context, _parameter: click.Parameter, name: str | None) -> None:
    """Print a system's settings."""
    if name is None or ctx.resilient_parsing:
        return
    try:
        rows = setting_rows(load(name).Settings)
    except SimulatorError as error:
        raise click.BadParameter(str(error)) from error
    cells = [[row["name"], row["type"], json.dumps(row["default"]), row["range"], row["doc"]] for row in rows]
    show(ReportTable(["setting", "type", "default", "range", "meaning"], cells))
    ctx.exit()


def _list(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    """Print the systems."""
    if not value or ctx.resilient_parsing:
        return
    show(ReportTable(["system", "what it is"], [[name, _about(name)] for name in SYSTEMS]))
    ctx.exit()


def _about(name: str) -> str:
    """Return a system's line; of one that cannot be loaded, why."""
    try:
        return load(name).about
    except SimulatorError as error:
        return str(error)


_OPTIONS: Final = (
    click.argument("trace", shell_complete=_traces),
    systems_option("--system", "system", metavar="SYSTEM", help="What schedules the jobs."),
    click.option("--format", "fmt", type=click.Choice(FORMATS), help="Of the trace.  [default: as it begins]"),
    click.option("--nodes", type=click.IntRange(1), help="Equal ones."),
    click.option(
        "--load",
        type=ABOVE_0,
        help="Work by slots: chooses the nodes, or with --nodes the speed.",
    ),
    click.option("--slots", type=click.IntRange(1), default=1, show_default=True, help="Tasks a node runs at once."),
    click.option("--memory-mb", type=click.IntRange(0), default=0, help="Of a node.  [default: not counted]"),
    click.option("--delay-s", type=SECONDS, default=0.0005, show_default=True, help="Of the network, one way."),
    click.option("--cutoff-s", type=SECONDS, help="Jobs with longer tasks are long.  [default: one job in ten is]"),
    click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="quicksilver.yaml."),
    click.option("--set", "fixed", multiple=True, metavar="KEY=VALUE", help="A setting of the systems; repeatable."),
    click.option("--first", type=click.IntRange(1), help="Only so many jobs of the trace."),
    click.option("--speed", type=ABOVE_0, default=1.0, show_default=True, help="Jobs arrive so many times as fast."),
    click.option("--stages", type=click.Choice(get_args(Stages)), default="all", show_default=True, help="That count."),
    click.option("--as-eagle", is_flag=True, help="Read Hawk's text as Eagle's public simulator does."),
    click.option("--error", type=Finite(0, 1), default=0.0, help="Estimates are wrong by up to this share."),
    click.option("--errors", type=click.Choice(get_args(Errors)), default="both", show_default=True, help="Which way."),
    click.option(
        "--sample",
        type=Finite(0, 1, min_open=True),
        default=1.0,
        show_default=True,
        help="Each seed has another share of the jobs, at the same load.",
    ),
    click.option("--skip", is_flag=True, help="Leave out jobs of the trace that are broken, and count them."),
    click.option("--processes", type=click.IntRange(1), help="[default: one for each core]"),
    click.option("--out", type=click.Path(path_type=Path), help="Folder of results; runs in it are not done again."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="Show the systems."),
    click.option(
        "--describe",
        metavar="SYSTEM",
        is_eager=True,
        expose_value=False,
        callback=_describe,
        help="Show a system's settings.",
    ),
)


def study_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a click command the shared options, passed to it as `request` and `as_json`."""

    @wraps(command)
    def wrapped(as_json: bool, system: tuple[str, ...], several: tuple[str, ...] = (), **options: Any) -> None:
        systems = tuple(dict.fromkeys((*system, *several)))
        if not systems:
            raise click.UsageError("name a system: --system NAME; --list shows them")
        shared = {name: options.pop(name) for name in _SHARED}
        try:
            command(request=_request(systems, shared, bool(several)), as_json=as_json, **options)
        except QuicksilverError as error:
            raise click.ClickException(str(error)) from error
        except (SimulatorError, OSError) as error:
            raise click.ClickException(str(error)) from error

    decorated = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_SHARED: Final = (
    *("trace", "fmt", "nodes", "load", "slots", "memory_mb", "delay_s", "cutoff_s", "config", "fixed", "first"),
    *("speed", "stages", "as_eagle", "error", "errors", "sample", "skip", "processes", "out"),
)


def _request(systems: tuple[str, ...], params: Mapping[str, Any], compares: bool) -> Asked:
    names = ("fmt", "stages", "skip", "as_eagle", "speed")
    source = Source(params["trace"], **{name: params[name] for name in names}, jobs=params["first"])
    return Asked(
        Trace(source, params["sample"], params["error"], params["errors"]),
        systems,
        tuple(choice(text, "--set", several=False) for text in params["fixed"]),
        params["config"],
        params["nodes"],
        params["load"],
        params["slots"],
        params["memory_mb"],
        params["delay_s"],
        params["cutoff_s"],
        params["processes"] or len(os.sched_getaffinity(0)),
        params["out"],
        compares,
    )


def show(table: ReportTable) -> None:
    """Print a table to a terminal; numbers stand to the right."""
    grid = RichTable(title=table.title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for at, column in enumerate(table.columns):
        right = all(not isinstance(row[at], str) for row in table.rows)
        grid.add_column(column, justify="right" if right else "left", overflow="fold", no_wrap=at == 0)
    for row in table.rows:
        grid.add_row(*(Text(shown(cell)) for cell in row))
    Console(width=None if Console().is_terminal else 200).print(grid)
