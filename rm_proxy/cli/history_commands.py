"""Commands that show stored data of the proxy: `quicksilver choice list`, `ledger show`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.settings.cli_security import rest_client
from rm_proxy.cli import columns, tables
from rm_proxy.cli.lists import ListCommand, listed
from rm_proxy.cli.requests import REMEDY, limited, pages, reading, show
from rm_proxy.cli.times import times, within, zone_min


@click.group(cls=CommandGroup)
def choice() -> None:
    """What policies refused, steered, shed, moved or promoted; and why."""


@choice.command("list")
@click.option("--slot", help="Only of this slot: quota, place, shed, steal, correct, police, promote ...")
@click.option("--app", help="Only of this application.")
@click.option("--node", help="Only of this node.")
@click.option("--container", help="Only of this container.")
@click.option("--alternative", help="Only of this alternative; '': only of the policies in force.")
@click.option("--recent", is_flag=True, help="The last ones, from the proxy's memory: also while the store is out.")
@within
@listed(columns.CHOICES, "no decisions", limit=100)
def list_choices(
    listing: ListCommand, url: str, since: str | None, until: str | None, zone: str, recent: bool, **filters: str | None
) -> None:
    """List refusals, steers, sheds, moves, promotions and others, the newest first, with their reasons.

    `decision list` has the allocated containers.
    """
    params: dict[str, Any] = {**times(since, until, zone)}
    params |= {key: value for key, value in filters.items() if value is not None}
    if recent:
        params["recent"] = True
    listing.show(lambda: pages(url, "/v1/choices", params, listing.limit))


@click.group(cls=CommandGroup)
def ledger() -> None:
    """What kills lost, what shrinking saved, how long containers queued."""


@ledger.command("show")
@click.option(
    "--by", type=click.Choice(["app", "queue", "user", "day"]), default="app", show_default=True, help="A row for each."
)
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all rows to this file.")
@within
@limited
@reading
def show_ledger(
    by: str,
    csv_file: Path | None,
    since: str | None,
    until: str | None,
    zone: str,
    limit: int,
    url: str,
    as_json: bool,
) -> None:
    """Sum up task-seconds by application, queue, user or day; a task-second is CPU time where it was measured."""
    params = {"by": by, "zone_min": zone_min(zone)} | times(since, until, zone)
    if csv_file is None:
        show(pages(url, "/v1/ledger", params, limit), as_json, lambda items: tables.ledger(items, by))
    elif as_json:
        raise click.UsageError("--csv and --json do not go together")
    else:
        _save(url, params, csv_file)


def _save(url: str, params: dict[str, Any], file: Path) -> None:
    """Write the CSV as it comes; the file is there when it is whole."""
    client = rest_client(url, timeout_s=300.0, remedy=REMEDY)
    try:
        _write(client.chunks("/v1/ledger.csv", params), file)
    except OSError as error:
        problem, remedy = f"cannot be written: {error.strerror}", "name a file that this user may write"
        raise QuicksilverError(problem, place=str(file), remedy=remedy) from error
    finally:
        client.close()


def _write(chunks: Iterator[bytes], file: Path) -> None:
    if file.exists() and not file.is_file():
        with file.open("wb") as out:  # a device or pipe: /dev/stdout
            out.writelines(chunks)
        return
    handle, part = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.writelines(chunks)
        mask = os.umask(0)
        os.umask(mask)
        Path(part).chmod(0o666 & ~mask)
        Path(part).replace(file)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
