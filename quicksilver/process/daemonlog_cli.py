"""`quicksilver daemonlog`: levels of loggers of running daemons, as `hadoop daemonlog`, with tokens and TLS."""

from __future__ import annotations

import click

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.process.logs import LEVELS
from quicksilver.common.settings.cli_security import rest_client
from rm_proxy.cli.requests import reading, show

_REMEDY = "name the REST address of a running proxy or sidecar with --url"


@click.group(cls=CommandGroup)
def daemonlog() -> None:
    """Levels of loggers of a running proxy, or of a sidecar (--url)."""


@daemonlog.command("get")
@click.argument("logger")
@reading
def get_level(logger: str, url: str, as_json: bool) -> None:
    """Show the level of LOGGER, such as rm_proxy.service, or root."""
    _ask(url, {"log": logger}, as_json)


@daemonlog.command("set")
@click.argument("logger")
@click.argument("level", type=click.Choice([*LEVELS, "reset"]))
@reading
def set_level(logger: str, level: str, url: str, as_json: bool) -> None:
    """Change the level of LOGGER until the daemon restarts; `reset` takes its own level away."""
    _ask(url, {"log": logger, "level": level}, as_json)


def _ask(url: str, params: dict[str, str], as_json: bool) -> None:
    client = rest_client(url, timeout_s=10.0, remedy=_REMEDY)
    try:
        answer = client.get("/logLevel", params)
    finally:
        client.close()
    show(answer, as_json, lambda shown: click.echo(f"{shown['log']}: {shown['level']}"))
