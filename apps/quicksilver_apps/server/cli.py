"""`quicksilver app-server`: run the app server; its store's tables by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.loading import loading
from quicksilver.common.process.logs import LEVELS

if TYPE_CHECKING:
    from quicksilver_apps.server.store.database import Database


@click.group("app-server", cls=CommandGroup)
def app_server() -> None:
    """Applications by REST and web: users, quotas, history, templates."""


_CONFIG = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The settings; default: $QUICKSILVER_CONFIG, ./quicksilver.yaml, /etc/quicksilver/quicksilver.yaml.",
)


@app_server.command()
@_CONFIG
@click.option(
    "--conf-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Hadoop's site files; default: hadoop_conf_dir of the settings, $HADOOP_CONF_DIR, /etc/hadoop/conf.",
)
@click.option("--principal", help="On a secure cluster: as whom it logs in; default: the tickets of kinit.")
@click.option("--keytab", type=click.Path(dir_okay=False, path_type=Path), help="The file with that principal's key.")
@click.option("--log-json", is_flag=True, help="Log JSON lines instead of key=value.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def run(
    config: Path | None,
    conf_dir: Path | None,
    principal: str | None,
    keytab: Path | None,
    log_json: bool,
    log_level: str,
) -> None:
    """Run the app server until SIGTERM or Ctrl-C; logs go to stderr."""
    from quicksilver.common.http.security import Security
    from quicksilver.common.process.logs import configure_logs
    from quicksilver.common.process.tracing import tracer
    from quicksilver.common.settings.daemon_sections import configure_daemon
    from quicksilver.common.settings.settings_file import load_settings
    from quicksilver_apps.server.config import SECTION, AppServerSettings

    configure_logs(as_json=log_json, level=log_level)
    file = load_settings(config)
    settings = file.section(SECTION, AppServerSettings)
    security, sections = Security(file.security()), configure_daemon(file, "quicksilver-app-server")
    with loading():
        import uvloop

        from quicksilver_apps.server.server import AppServer
        from quicksilver_apps.server.server import run as serving
        from quicksilver_apps.server.yarn_backend import YarnBackend

    ca = security.settings.tls_ca
    backend = YarnBackend.of(conf_dir or file.hadoop_conf_dir, settings, principal, keytab, ca)

    async def main() -> None:
        await serving(AppServer(settings, backend, security, sections, str(file.path or "")))

    try:
        uvloop.run(main())
    finally:
        tracer().close()


@app_server.group("store", cls=CommandGroup)
def store() -> None:
    """The tables of the app server's store."""


@store.command("status")
@_CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(config: Path | None, as_json: bool) -> None:
    """Show the version of the tables, and the one that this program works with."""
    from quicksilver_apps.server.store.migrations import MIGRATIONS

    database = _database(config)
    with database.engine.begin() as connection:
        versions = MIGRATIONS.versions(connection)
    if as_json:
        click.echo(
            json.dumps({"store": database.name, "version": versions.current, "newest": versions.newest}, indent=2)
        )
    else:
        click.echo(
            f"{database.name}: tables of version {versions.current or 'none'}; this program's: {versions.newest}"
        )


@store.command("downgrade")
@click.argument("version")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_CONFIG
def downgrade(version: str, yes: bool, config: Path | None) -> None:
    """Go down to the tables of VERSION, for an earlier quicksilver. Stop the app server first."""
    from quicksilver_apps.server.store.migrations import MIGRATIONS

    database = _database(config)
    if not yes:
        click.confirm(f"Delete what version {version} does not keep from {database.name}?", abort=True)
    with database.engine.begin() as connection:
        before = MIGRATIONS.downgrade(connection, version)
    click.echo(f"{database.name}: its tables are of version {version} now, before {before.current}")


def _database(config: Path | None) -> Database:
    """Return the store of the settings, not opened. Raises QuicksilverError when its file is not there."""
    from quicksilver.common.settings.settings_file import load_settings
    from quicksilver_apps.server.config import SECTION, AppServerSettings
    from quicksilver_apps.server.store.database import Database

    database = Database(load_settings(config).section(SECTION, AppServerSettings).store)
    file = database.url.database if database.url.get_backend_name() == "sqlite" else None
    if file is not None and not Path(file).exists():
        remedy = "name another one in app_server.store_url; `quicksilver app-server run` makes it"
        raise QuicksilverError("there is no such file", place=file, remedy=remedy)
    return database
