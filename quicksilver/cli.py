"""The program `quicksilver`: one group whose commands are imported when they are used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any, Final

import click
from click.shell_completion import CompletionItem

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.extras import EXTRAS
from quicksilver.common.process.loading import loading, without
from quicksilver.common.process.masking import masked
from quicksilver.common.process.version import DISTRIBUTION, missing


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is, the line that `--help` shows for it, and below which heading."""

    module: str
    attribute: str
    help: str
    later: str = ""
    """The module that its long-running command imports only when it runs."""
    section: str = ""


_SECTIONS: Final[dict[str, dict[str, Lazy]]] = {
    "Look at the cluster": {
        "top": Lazy("rm_proxy.cli.top", "top", "Live view: cluster, nodes, queues, applications."),
        "health": Lazy("rm_proxy.cli.commands", "health", "Whether the proxy works, and its problems."),
        "node": Lazy("rm_proxy.cli.commands", "node", "Nodes and their containers; drain a node."),
        "queue": Lazy("rm_proxy.cli.commands", "queue", "YARN's queues: use, and what is left for Qs."),
        "app": Lazy("quicksilver.app_cli", "app", "Applications, running and finished; run described ones."),
        "explain": Lazy(
            "rm_proxy.cli.commands", "explain", "The story of a container or application: why, where, when."
        ),
        "decision": Lazy("rm_proxy.cli.commands", "decision", "Delivered containers: G or Q, on which node, and why."),
        "choice": Lazy(
            "rm_proxy.cli.history_commands", "choice", "What policies refused, shed, moved, promoted; and why."
        ),
        "summary": Lazy("rm_proxy.cli.commands", "summary", "Containers by node and kind; delays."),
        "ledger": Lazy("rm_proxy.cli.history_commands", "ledger", "What kills lost, shrinking saved, queueing took."),
        "estimate": Lazy("rm_proxy.cli.estimates", "estimate", "How good the expected durations were."),
    },
    "Choose policies": {
        "policy": Lazy("quicksilver.policy.cli", "policy", "Check, try, write and reload the policies."),
        "simulate": Lazy(
            "quicksilver.simulator.cli", "simulate", "Run a trace's jobs in virtual time, under several systems."
        ),
        "tune": Lazy("quicksilver.simulator.cli", "tune_command", "Search settings for a goal by simulation."),
        "trace": Lazy("quicksilver.simulator.traces.cli", "trace", "Traces of jobs for the simulator."),
    },
    "Set up": {
        "init": Lazy("quicksilver.setup.init_cli", "init", "Write a first quicksilver.yaml for this host."),
        "doctor": Lazy("quicksilver.doctor.cli", "doctor", "What in this cluster would break quicksilver; the remedy."),
        "install": Lazy(
            "quicksilver.doctor.install_cli", "install_command", "Put quicksilver's properties into site files."
        ),
        "uninstall": Lazy("quicksilver.doctor.install_cli", "uninstall_command", "Take exactly these out again."),
        "certs": Lazy("quicksilver.setup.certs_cli", "certs", "Certificates and tokens for REST."),
        "store": Lazy("rm_proxy.cli.store", "store", "The store's tables: their version, steps up and down."),
    },
    "Daemons": {
        "proxy": Lazy(
            "rm_proxy.cli.bypass",
            "proxy",
            "The proxy in front of the ResourceManager; bypass.",
            "rm_proxy.service.process",
        ),
        "sidecar": Lazy("sidecar.cli", "sidecar", "The sidecar beside a NodeManager."),
        "tracker": Lazy("sidecar.tracker.cli", "tracker", "The relay from a NodeManager to the resource tracker."),
        "app-server": Lazy(
            "quicksilver_apps.server.cli",
            "app_server",
            "Applications by REST and web: users, quotas, history.",
            "quicksilver_apps.server.server",
        ),
        "supervise": Lazy(
            "quicksilver.process.supervise_cli", "supervise", "Run proxy or sidecar without systemd, restart it."
        ),
        "daemonlog": Lazy("quicksilver.process.daemonlog_cli", "daemonlog", "Levels of loggers of a running daemon."),
    },
    "Lab": {
        "demo": Lazy("quicksilver_lab.demo.cli", "demo", "Short jobs beside a long one, without and with quicksilver."),
        "cluster": Lazy("quicksilver_lab.cluster.cli", "cluster", "A real local Hadoop cluster."),
        "bench": Lazy("quicksilver_lab.bench.cli", "bench", "Measurements, as JSON."),
    },
    "Help": {
        "help": Lazy("quicksilver.manual.cli", "help_command", "Show a page of the documentation, without a network."),
        "man": Lazy("quicksilver.manual.cli", "man", "Print the manual page of all commands (roff)."),
        "completion": Lazy("quicksilver.manual.cli", "completion", "Print the completion for bash, zsh or fish."),
    },
}
COMMANDS: Final[dict[str, Lazy]] = {
    name: replace(lazy, section=section) for section, lazies in _SECTIONS.items() for name, lazy in lazies.items()
}
_BY_HABIT: Final = {
    "status": "health",
    "ps": "app list",
    "apps": "app list",
    "application": "app",
    "applications": "app list",
    "job": "app",
    "jobs": "app list",
    "nodes": "node list",
    "queues": "queue list",
    "container": "decision",
    "containers": "decision list",
    "why": "explain",
    "event": "choice",
    "events": "choice list",
    "kills": "choice list",
    "drain": "node drain",
    "bypass": "proxy bypass",
    "reload": "policy reload",
    "check": "policy check",
    "validate": "policy check",
    "config": "policy check",
    "settings": "help settings",
    "setup": "init",
    "start": "proxy run",
    "run": "proxy run",
    "check-config": "policy check",
    "version": "--version",
    "docs": "help",
}
"""What people type by habit, with the command that does it here."""


def load() -> None:
    """Import all that the command needs which this process was started for; its modules run nothing."""
    lazy = COMMANDS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if lazy is None:
        return
    with loading(), _without_character_sets():
        for module in (lazy.module, lazy.later):
            if module:
                importlib.import_module(module)


@contextmanager
def _without_character_sets() -> Iterator[None]:
    """Import `requests` without its detection of character sets, which takes 2.4 MB: answers are JSON, and bytes."""
    with without("charset_normalizer"), without("chardet"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Unable to find acceptable character detection")
        yield


def is_installed(command: str) -> bool:
    """Return whether this installation has the command: some are in another distribution."""
    try:
        return importlib.util.find_spec(COMMANDS[command].module) is not None
    except ModuleNotFoundError:
        return False


class OneLineError(click.ClickException):
    """Prints one line for each mistake, without a traceback; exit code 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print to stderr, or to `file`."""
        for line in self.message.splitlines():
            click.echo(f"quicksilver: error: {masked(line)}", file=file, err=file is None)


class Program(CommandGroup):
    """Finds commands in COMMANDS; turns our errors into one line."""

    others = _BY_HABIT

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
            raise OneLineError(missing(cmd_name, error.name or "")) from error
        assert isinstance(command, click.Command), f"{lazy.module}:{lazy.attribute} is no command"
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return completions of commands without importing them, and of options."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=COMMANDS[name].help) for name in COMMANDS if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' lines without importing them."""
        width = max(map(len, COMMANDS))
        for section, lazies in _SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), lazy.help) for name, lazy in lazies.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run, with errors that a user can mend as one line."""
        try:
            return super().invoke(ctx)
        except QuicksilverError as error:
            raise OneLineError(str(error)) from error
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            raise OneLineError(missing(ctx.invoked_subcommand or "", error.name)) from error
        except click.ClickException as error:
            if isinstance(error, (click.UsageError, OneLineError)):
                raise
            raise OneLineError(error.message) from error


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name=DISTRIBUTION, prog_name="quicksilver")
def cli() -> None:
    """Two-level scheduling for stock Apache Hadoop YARN.

    G: a guaranteed container, which the ResourceManager grants. Q: a queueable one, which quicksilver grants at once.
    """


def main() -> None:
    """Run the program."""
    cli(prog_name="quicksilver")
