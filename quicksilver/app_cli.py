"""The group `quicksilver app`: applications that the proxy knows, and described ones that are run from here.

Its commands are imported when they are used.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Final

import click

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.process.loading import loading
from quicksilver.common.process.version import missing

_APPS: Final = "quicksilver_apps"
_CLIENT: Final = f"{_APPS}.client"
_DESCRIPTION: Final = f"{_APPS}.description.cli"
_PROXY: Final = "rm_proxy.cli.commands"
_PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "run": (f"{_CLIENT}.submit_commands", "run"),
    "submit": (f"{_CLIENT}.submit_commands", "submit"),
    "services": (f"{_CLIENT}.cli", "services"),
    "logs": (f"{_CLIENT}.logs.commands", "logs"),
    "scale": (f"{_CLIENT}.cli", "scale"),
    "wait": (f"{_CLIENT}.cli", "wait"),
    "kill": (f"{_CLIENT}.cli", "kill"),
    "clean": (f"{_CLIENT}.cli", "clean_command"),
    "check": (_DESCRIPTION, "check"),
    "render": (_DESCRIPTION, "render"),
    "schema": (_DESCRIPTION, "print_schema"),
    "import-zapp": (_DESCRIPTION, "import_zapp_command"),
}
"""Module and attribute of each command that asks no proxy."""
_BY_HABIT: Final = {
    "ls": "list",
    "ps": "list",
    "start": "run",
    "launch": "submit",
    "stop": "kill",
    "status": "show",
    "log": "logs",
    "validate": "check",
    "flex": "scale",
}


class Applications(CommandGroup):
    """The proxy's commands, then those in _PLACES."""

    others = _BY_HABIT

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, those that ask the proxy first; only those that are installed."""
        installed = importlib.util.find_spec(_APPS) is not None
        return [*_of_proxy().list_commands(ctx), *(_PLACES if installed else ())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for an unknown one. Raises ClickException when it is not installed."""
        if cmd_name not in _PLACES:
            return _of_proxy().get_command(ctx, cmd_name)
        module, attribute = _PLACES[cmd_name]
        try:
            with loading():
                command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise click.ClickException(missing(f"app {cmd_name}", error.name or "")) from error
        assert isinstance(command, click.Command), f"{module}:{attribute} is no command"
        return command


def _of_proxy() -> click.Group:
    """Return the commands about applications that ask the proxy."""
    with loading():
        group = importlib.import_module(_PROXY).app
    assert isinstance(group, click.Group), f"{_PROXY}:app is no group"
    return group


@click.group(cls=Applications)
def app() -> None:
    """Applications: those that the proxy knows, and described ones, run from here."""
