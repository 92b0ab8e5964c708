"""The program `quicksilver`: one group whose commands are imported when they are used."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import IO, Any, Final

import click

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.loading import loading
from quicksilver.common.process.masking import masked
from quicksilver.common.process.version import DISTRIBUTION, LAB, version


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is, and the line that `--help` shows for it."""

    module: str
    attribute: str
    help: str
    later: str = ""
    """The module that its long-running command imports only when it runs."""


COMMANDS: Final[dict[str, Lazy]] = {
    "proxy": Lazy(
        "rm_proxy.cli.bypass",
        "proxy",
        "The proxy in front of the ResourceManager's scheduler.",
        "rm_proxy.service.process",
    ),
    "sidecar": Lazy("sidecar.cli", "sidecar", "The sidecar beside a NodeManager."),
    "tracker": Lazy("sidecar.tracker.cli", "tracker", "The relay between a NodeManager and the resource tracker."),
    "supervise": Lazy("quicksilver.supervisor", "supervise", "Run proxy or sidecar, hold its sockets, restart it."),
    "node": Lazy("rm_proxy.cli.commands", "node", "The cluster's nodes."),
    "queue": Lazy("rm_proxy.cli.commands", "queue", "YARN's queues."),
    "app": Lazy("rm_proxy.cli.commands", "app", "Applications."),
    "decision": Lazy("rm_proxy.cli.commands", "decision", "Containers as they were delivered."),
    "choice": Lazy(
        "rm_proxy.cli.history_commands", "choice", "Other decisions: refusals, steers, sheds, moves, promotions."
    ),
    "ledger": Lazy("rm_proxy.cli.history_commands", "ledger", "What kills lost, shrinking saved, queueing took."),
    "explain": Lazy(
        "rm_proxy.cli.commands", "explain", "Why a container is what and where it is; an application's story."
    ),
    "summary": Lazy("rm_proxy.cli.commands", "summary", "Containers by node and kind, delays."),
    "estimate": Lazy("rm_proxy.cli.estimates", "estimate", "How good the expected durations were."),
    "health": Lazy("rm_proxy.cli.commands", "health", "Whether the proxy works, and its problems."),
    "daemonlog": Lazy("quicksilver.daemonlog_cli", "daemonlog", "Levels of loggers of a running daemon."),
    "store": Lazy("rm_proxy.cli.store", "store", "The store's tables: their version, steps up and down."),
    "policy": Lazy("quicksilver.policy_cli", "policy", "The policies, and the check of quicksilver.yaml."),
    "certs": Lazy("quicksilver.certs_cli", "certs", "Certificates and tokens for REST."),
    "doctor": Lazy("quicksilver.doctor.cli", "doctor", "What in this cluster would break quicksilver, and what to do."),
    "install": Lazy(
        "quicksilver.doctor.install_cli", "install_command", "Put quicksilver's properties into site files."
    ),
    "uninstall": Lazy("quicksilver.doctor.install_cli", "uninstall_command", "Take exactly these out again."),
    "cluster": Lazy("quicksilver.cluster.cli", "cluster", "A real local Hadoop cluster."),
    "demo": Lazy("quicksilver.demo.cli", "demo", "Short jobs beside a long one, without and with quicksilver."),
    "simulate": Lazy(
        "quicksilver.simulator.cli", "simulate", "A trace's jobs under a virtual clock, one system or several."
    ),
    "tune": Lazy(
        "quicksilver.simulator.cli", "tune_command", "What to set for a goal, by simulation, and how sure that is."
    ),
    "trace": Lazy("quicksilver.simulator.traces.cli", "trace", "Traces of jobs, for the simulator."),
    "bench": Lazy("quicksilver.bench.cli", "bench", "Measurements, as JSON."),
}


def load() -> None:
    """Import all that the command needs which this process was started for; its modules run nothing."""
    lazy = COMMANDS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    with loading():
        for module in (lazy.module, lazy.later) if lazy is not None else ():
            if module:
                importlib.import_module(module)


class OneLineError(click.ClickException):
    """Prints one line for each mistake, without a traceback; exit code 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print to stderr, or to `file`."""
        for line in self.message.splitlines():
            click.echo(f"quicksilver: error: {masked(line)}", file=file, err=file is None)


def _missing(command: str, module: str) -> str:
    """Return the error of a command without a module: one of ours is in the other distribution."""
    if module.split(".")[0] == "quicksilver":
        return f"`quicksilver {command}` is in {LAB}, which is not installed; run pip install {LAB}=={version()}"
    return f"`quicksilver {command}` needs {module}, which is not installed; install it with pip"


class Program(click.Group):
    """Finds commands in COMMANDS; turns our errors into one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command. Raises OneLineError when this installation has it not."""
        lazy = COMMANDS.get(cmd_name)
        if lazy is None:
            return None
        try:
            with loading():
                command = getattr(importlib.import_module(lazy.module), lazy.attribute)
        except ModuleNotFoundError as error:
            raise OneLineError(_missing(cmd_name, error.name or "")) from error
        assert isinstance(command, click.Command), f"{lazy.module}:{lazy.attribute} is no command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' lines without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run, with errors that a user can mend as one line."""
        try:
            return super().invoke(ctx)
        except QuicksilverError as error:
            raise OneLineError(str(error)) from error
        except click.ClickException as error:
            if isinstance(error, (click.UsageError, OneLineError)):
                raise
            raise OneLineError(error.message) from error


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name=DISTRIBUTION, prog_name="quicksilver")
def cli() -> None:
    """Two-level scheduling for stock Apache Hadoop YARN."""


def main() -> None:
    """Run the program."""
    cli(prog_name="quicksilver")
