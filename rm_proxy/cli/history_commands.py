"""Commands that show stored data of the proxy: `quicksilver choice list`, `ledger show`."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import click

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.settings.cli_security import rest_client
from rm_proxy.cli import tables
from rm_proxy.cli.commands import REMEDY, limited, pages, reading, show

_ZONE: Final = re.compile(r"([+-])(\d\d):(\d\d)|UTC|Z")
_MOST_ZONE_MIN: Final = 18 * 60
_WHEN: Final = "2026-11-21, 2026-11-21T08:30, or Unix seconds"

Command = Callable[..., None]


def _within(command: Command) -> Command:
    """Add --since, --until and --zone."""
    since = click.option("--since", help=f"From then on: {_WHEN}.")
    until = click.option("--until", help=f"Before then: {_WHEN}.")
    zone = click.option("--zone", default="UTC", show_default=True, help="Time zone of days and times: +02:00.")
    return since(until(zone(command)))


@click.group()
def choice() -> None:
    """Decisions beside those of delivered containers."""


@choice.command("list")
@click.option("--slot", help="Only of this slot: quota, place, shed, steal, correct, police, promote ...")
@click.option("--app", help="Only of this application.")
@click.option("--node", help="Only of this node.")
@click.option("--container", help="Only of this container.")
@click.option("--alternative", help="Only of this alternative; '': only of the policies in force.")
@click.option("--recent", is_flag=True, help="The last ones, from the proxy's memory: also while the store is out.")
@_within
@limited
@reading
def list_choices(
    since: str | None, until: str | None, zone: str, limit: int, recent: bool, url: str, as_json: bool, **filters: Any
) -> None:
    """List refusals, steers, sheds, moves, promotions and others, the newest first, with their reasons."""
    params = _times(since, until, zone) | {key: value for key, value in filters.items() if value is not None}
    if recent:
        params["recent"] = True
    show(pages(url, "/v1/choices", params, limit), as_json, tables.choices)


@click.group()
def ledger() -> None:
    """What kills lost, what shrinking saved, how long containers queued."""


@ledger.command("show")
@click.option(
    "--by", type=click.Choice(["app", "queue", "user", "day"]), default="app", show_default=True, help="A row for each."
)
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all rows to this file.")
@_within
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
    params = {"by": by, "zone_min": _zone_min(zone)} | _times(since, until, zone)
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
        what, remedy = f"cannot be written: {error.strerror}", "name a file that this user may write"
        raise QuicksilverError(what, place=str(file), remedy=remedy) from error
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


def _times(since: str | None, until: str | None, zone: str) -> dict[str, Any]:
    """Return the parameters of the times that were given."""
    given = (("since", since), ("until", until))
    return {name: _unix_s(name, text, _zone_min(zone)) for name, text in given if text is not None}


def _unix_s(name: str, text: str, zone_min: int) -> float:
    try:
        seconds = float(text)
        if math.isfinite(seconds):
            return seconds
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time; write {_WHEN}", param_hint=f"--{name}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone(timedelta(minutes=zone_min)))
    return moment.timestamp()


def _zone_min(zone: str) -> int:
    """Return the minutes east of UTC."""
    match = _ZONE.fullmatch(zone)
    if match is None:
        raise click.BadParameter(f"{zone!r} is not an offset; write +02:00, or UTC", param_hint="--zone")
    if match[1] is None:
        return 0
    minutes = int(match[2]) * 60 + int(match[3])
    if int(match[3]) > 59 or minutes > _MOST_ZONE_MIN:
        raise click.BadParameter(f"{zone!r} is more than 18 hours, or has more than 59 minutes", param_hint="--zone")
    return -minutes if match[1] == "-" else minutes
