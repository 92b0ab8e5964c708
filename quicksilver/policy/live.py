"""`quicksilver policy reload|history|compare`: the settings of running daemons."""

from __future__ import annotations

import getpass
import json
from typing import Any

import click

from quicksilver.common.command_line.groups import Command
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_errors import RefusedError
from quicksilver.common.messages import ReloadRequest
from quicksilver.common.settings.cli_security import rest_client
from quicksilver.common.settings.reload_api import REFUSED
from rm_proxy.cli import tables
from rm_proxy.cli.requests import REMEDY, limited, pages, reading

_TIMEOUT_S = 60.0


class RefusedFileError(QuicksilverError):
    """The settings file has mistakes; a line for each."""

    def __str__(self) -> str:
        return self.message


@click.command("reload", cls=Command)
@click.option("--nodes", is_flag=True, help="Have the sidecars of all nodes read their files too.")
@click.option("--file", default="", help="Another file in the directory of the one in use, as the daemon sees it.")
@reading
def reload_settings(nodes: bool, file: str, url: str, as_json: bool) -> None:
    """Make the running proxy reload quicksilver.yaml; --url may name a sidecar's REST instead.

    A file with a mistake changes nothing; all mistakes are printed, and the exit code is 1. So it is when a sidecar did
    not follow.
    """
    client = rest_client(url, timeout_s=_TIMEOUT_S, remedy=REMEDY)
    body = ReloadRequest(who=_user(), command=True, file=file, nodes=nodes)
    try:
        answer = client.post("/v1/policies/reload", body)
    except RefusedError as error:
        if error.code == REFUSED:
            raise RefusedFileError(f"{error.message}\nnothing changed") from error
        raise
    finally:
        client.close()
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        _print(answer)
    if not all(node["ok"] for node in answer["nodes"]):
        raise click.exceptions.Exit(1)


@click.command("history", cls=Command)
@limited
@reading
def history(limit: int, url: str, as_json: bool) -> None:
    """Show who changed which setting when, from which value to which; the newest first."""
    entries = pages(url, "/v1/policies/changes", None, limit)
    if as_json:
        click.echo(json.dumps(entries, indent=2))
    else:
        tables.changes(entries)


@click.command("compare", cls=Command)
@reading
def compare(url: str, as_json: bool) -> None:
    """Show what the alternatives of policies.shadow would have decided otherwise, of real traffic."""
    client = rest_client(url, timeout_s=_TIMEOUT_S, remedy=REMEDY)
    try:
        answer = client.get("/v1/policies/compare")
    finally:
        client.close()
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        tables.comparisons(answer)


def _print(answer: dict[str, Any]) -> None:
    click.echo(f"{answer['file'] or 'no file: the defaults'}: version {answer['version']} (was {answer['before']})")
    for change in answer["changes"]:
        click.echo(f"  {change['path']}: {change['before'] or 'not set'} -> {change['after'] or 'not set'}")
    for refusal in answer["kept"]:
        click.echo(f"  kept: {refusal}")
    for note in answer["notes"]:
        click.echo(f"  note: {note}")
    for line in answer["warnings"]:
        click.echo(f"warning: {line}", err=True)
    for node in answer["nodes"]:
        text = (
            f"version {node['version']}, {len(node['changes'])} changes" if node["ok"] else f"FAILED: {node['error']}"
        )
        click.echo(f"{node['node_id']}: {text}")
        for refusal in node["kept"]:
            click.echo(f"  kept: {refusal}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
