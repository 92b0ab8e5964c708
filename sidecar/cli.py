"""`quicksilver sidecar`: run the sidecar of this node."""

from __future__ import annotations

from pathlib import Path

import click
import uvloop

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.hadoop.conf import load_hadoop_conf
from quicksilver.common.http.security import Security
from quicksilver.common.process.logs import configure_logs
from quicksilver.common.process.tracing import tracer
from quicksilver.common.settings.cli_options import log_options, settings_options
from quicksilver.common.settings.daemon_sections import configure_daemon
from quicksilver.common.settings.settings_file import load_settings
from sidecar.config import SidecarSettings
from sidecar.service.resizing.resizer_startup import choose_resizer, clean_up
from sidecar.service.server import Sidecar


@click.group(cls=CommandGroup)
def sidecar() -> None:
    """The sidecar beside each NodeManager: queues queueable containers, makes room for guaranteed ones."""


@sidecar.command()
@settings_options
@log_options
def run(config: Path | None, conf_dir: Path | None, log_level: str, log_json: bool) -> None:
    """Run the sidecar of this node until SIGTERM."""
    configure_logs(as_json=log_json, level=log_level)
    file = load_settings(config)
    settings = file.section("sidecar", SidecarSettings)
    policies = file.policies()
    conf = load_hadoop_conf(conf_dir or file.hadoop_conf_dir)
    security, sections = Security(file.security()), configure_daemon(file, "quicksilver-sidecar")
    place = settings.place(conf, security.settings.scheme)
    choice = choose_resizer(settings, place, policies, conf)

    async def main() -> None:
        web = f"{conf.web_scheme}://{place.web_upstream}"
        await Sidecar(settings, place, policies, web, choice, file.path, security, sections).run()

    try:
        uvloop.run(main())
    finally:
        tracer().close()


@sidecar.command()
@settings_options
def restore(config: Path | None, conf_dir: Path | None) -> None:
    """Give all containers of this node their full limits back while no sidecar runs; safe to repeat."""
    configure_logs(as_json=False, level="warning")
    file = load_settings(config)
    settings = file.section("sidecar", SidecarSettings)
    conf = load_hadoop_conf(conf_dir or file.hadoop_conf_dir)
    given_back = clean_up(settings, settings.place(conf, file.security().scheme), conf)
    click.echo(f"{len(given_back)} containers have their full limits back")
