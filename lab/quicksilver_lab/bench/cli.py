"""`quicksilver bench`: the measurements, each imported when it is run."""

from __future__ import annotations

import importlib
import json
from typing import Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.process.version import LAB, version


class BenchCommand(NamedTuple):
    """The place of a command, and its line in `--help` and `list`."""

    place: str
    summary: str


BENCHMARKS: Final = {
    "relay": BenchCommand("quicksilver_lab.bench.relay:relay", "Empty allocates direct and through the proxy."),
    "las": BenchCommand(
        "quicksilver_lab.bench.las.run:las",
        "Jobs of five classes on one node: FIFO, opportunistic, least attained service.",
    ),
    "resize": BenchCommand(
        "quicksilver_lab.bench.resize.run:resize", "Resizing a container, and a sidecar with 200 of them."
    ),
    "policies": BenchCommand(
        "quicksilver_lab.bench.policies.run:policies", "Each policy alone and all together against none."
    ),
    "scale": BenchCommand(
        "quicksilver_lab.bench.scale.run:scale", "What the proxy costs by nodes and application masters."
    ),
    "task": BenchCommand(
        "quicksilver_lab.bench.task.run:task", "What a short task costs the proxy, part by part; no cluster."
    ),
    "grants": BenchCommand(
        "quicksilver_lab.bench.grants.run:grants",
        "From an ask for a queueable container to its grant, over the load of other masters.",
    ),
    "run": BenchCommand(
        "quicksilver_lab.bench.experiment.run:run",
        "A plan on an emulated cluster: mixes of jobs, Mercury's experiments, a trace.",
    ),
    "zoe": BenchCommand(
        "quicksilver_lab.bench.zoe.run:zoe", "Zoe's applications: flexible against rigid admission and stock YARN."
    ),
    "hosts": BenchCommand(
        "quicksilver_lab.bench.hosts:hosts",
        "Jobs on hosts in racks, with delay and loss between them, against stock Fair.",
    ),
    "recovery": BenchCommand(
        "quicksilver_lab.bench.recovery:main", "How long a SIGKILL of the proxy or of a sidecar is felt."
    ),
    "fuzz": BenchCommand(
        "quicksilver_lab.bench.fuzz.__main__:main", "Malformed bytes for the wire, the relays and REST."
    ),
}
_COMMANDS: Final = BENCHMARKS | {
    "page": BenchCommand("quicksilver_lab.bench.page.__main__:main", "A result as one HTML page."),
    "keep": BenchCommand("quicksilver_lab.bench.keep:main", "A result, compressed, in the repository."),
}


class Benchmarks(CommandGroup):
    """Finds its commands in BENCHMARKS; others can be added to it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of BENCHMARKS."""
        return [*super().list_commands(ctx), *_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command. Raises ClickException when it needs a package that is not installed."""
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = entry.place.partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            message = f"`quicksilver bench {cmd_name}` needs {error.name}, which is not installed"
            raise click.ClickException(f"{message}; run pip install {LAB}=={version()}, which brings it") from error
        assert isinstance(command, click.Command), f"{entry.place} is no command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' lines without importing them."""
        own = [(name, command.get_short_help_str(80)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*own, *((name, entry.summary) for name, entry in _COMMANDS.items())])


@click.group(cls=Benchmarks)
def bench() -> None:
    """Measurements; each prints one JSON object as its last line and writes it to ./bench/results."""


@bench.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what is measured, by name.")
def list_command(as_json: bool) -> None:
    """List the benchmarks, and the plans that `run` finds by name."""
    from quicksilver_lab.bench.experiment.plan import load, plans

    summaries = {name: entry.summary for name, entry in BENCHMARKS.items()}
    summaries |= {f"run {name}": load(name).about for name in plans()}
    if as_json:
        click.echo(json.dumps(summaries))
        return
    table = Table(box=None)
    for column in ("benchmark", "what is measured"):
        table.add_column(column)
    for name, summary in summaries.items():
        table.add_row(name, summary)
    Console().print(table)
