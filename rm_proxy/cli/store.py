"""`quicksilver store status|migrate|downgrade`: the tables of the store, by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from sqlalchemy import Connection, Engine, func, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.settings.settings_file import load_settings
from quicksilver.common.store.versions import NewerTablesError, NoSuchVersionError
from rm_proxy.config import ProxySettings
from rm_proxy.store.migrations import MIGRATIONS
from rm_proxy.store.store import Store
from rm_proxy.store.tables import Base
from rm_proxy.store.writer import StoreUnavailableError

Command = Callable[..., None]


@click.group(cls=CommandGroup)
def store() -> None:
    """The proxy's store of decisions."""


def _which(command: Command) -> Command:
    """Add the options that name the store: --store, or --config."""
    url = click.option("--store", "url", help="Its URL; default: proxy.store_url of the settings.")
    config = click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The settings; default: $QUICKSILVER_CONFIG, ./quicksilver.yaml, /etc/quicksilver/quicksilver.yaml.",
    )
    return url(config(command))


@store.command("status")
@_which
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(url: str | None, config: Path | None, as_json: bool) -> None:
    """Show the version of the tables, whether this program knows it, and how many rows they have.

    Exit code 1 when the version is not the one that this program works with.
    """
    opened = _open(url, config)
    status = _within(opened, _status)
    if as_json:
        click.echo(json.dumps({"store": opened.name, **status}, indent=2))
    else:
        click.echo(f"{opened.name}: {status['state']}")
        for table, rows in status["rows"].items():
            click.echo(f"  {table}: {rows} rows")
    if status["version"] != status["newest"]:
        raise click.exceptions.Exit(1)


@store.command("migrate")
@_which
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def migrate_up(url: str | None, config: Path | None, as_json: bool) -> None:
    """Create the tables, or bring them up to this program's version; the proxy does so when it starts."""
    opened = _open(url, config, must_exist=False)
    opened.open()
    facts = _within(opened, _status)
    click.echo(json.dumps({"store": opened.name, **facts}, indent=2) if as_json else f"{opened.name}: {facts['state']}")


@store.command("downgrade")
@click.argument("version")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_which
def migrate_down(version: str, yes: bool, url: str | None, config: Path | None) -> None:
    """Go down to the tables of VERSION (0005), for an earlier quicksilver. Stop the proxy first.

    What those tables do not have is deleted; everything else stays.
    """
    opened = _open(url, config)
    if not yes:
        click.confirm(f"Delete what version {version} does not keep from {opened.name}?", abort=True)
    before = _within(opened, lambda connection: MIGRATIONS.downgrade(connection, version))
    click.echo(f"{opened.name}: its tables are of version {version} now, before {before.current}")


def _open(url: str | None, config: Path | None, *, must_exist: bool = True) -> Store:
    if url is None:
        url = load_settings(config).section("proxy", ProxySettings).store
    opened = Store(url)
    file = opened.url.database if opened.url.get_backend_name() == "sqlite" else None
    if must_exist and file is not None and not Path(file).exists():
        remedy = "name another one with --store, or make it with `quicksilver store migrate`"
        raise QuicksilverError("there is no such file", place=file, remedy=remedy)
    return opened


def _within(opened: Store, do: Callable[[Connection], Any]) -> Any:
    """Return what `do` returns of one transaction. Raises QuicksilverError with the store's name."""
    engine: Engine = opened.engine
    try:
        with engine.begin() as connection:
            return do(connection)
    except (NewerTablesError, NoSuchVersionError) as error:
        raise QuicksilverError(error.message, place=opened.name, remedy=error.remedy) from error
    except SQLAlchemyError as error:
        raise StoreUnavailableError(str(opened.unavailable(error))) from error
    finally:
        opened.close()


def _status(connection: Connection) -> dict[str, Any]:
    versions = MIGRATIONS.versions(connection)
    if not versions.current:
        state = f"it has no tables yet; version {versions.newest} would be made"
    elif versions.is_newer:
        state = f"its tables are of version {versions.current}, newer than this program's {versions.newest}"
    elif versions.current != versions.newest:
        state = (
            f"its tables are of version {versions.current}; `quicksilver store migrate` makes {versions.newest} of it"
        )
    else:
        state = f"its tables are of version {versions.current}, as this program wants them"
    there = set(inspect(connection).get_table_names())
    tables = sorted(there & set(Base.metadata.tables))
    rows = {name: connection.scalar(select(func.count()).select_from(text(name))) for name in tables}
    return {"version": versions.current, "newest": versions.newest, "state": state, "rows": rows}
