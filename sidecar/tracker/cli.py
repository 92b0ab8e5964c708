"""`quicksilver tracker`: run this node's relay between NodeManager and resource tracker."""

from __future__ import annotations

import socket
from pathlib import Path

import click
import uvloop

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from quicksilver.common.process.listening import bound_socket
from quicksilver.common.process.logs import configure_logs, get_logger
from quicksilver.common.settings.cli_options import log_options, settings_options
from quicksilver.common.settings.settings_file import SettingsFile, load_settings
from sidecar.tracker.config import TrackerPlace, TrackerSettings
from sidecar.tracker.seen_keys import SeenKeys
from sidecar.tracker.supervisor import Keeper
from sidecar.tracker.worker import TrackerWorker

log = get_logger(__name__)


@click.group(cls=CommandGroup)
def tracker() -> None:
    """The relay between a NodeManager and the ResourceManager's resource tracker: N there, N + extra here."""


@tracker.command()
@settings_options
@log_options
def run(config: Path | None, conf_dir: Path | None, log_level: str, log_json: bool) -> None:
    """Run the relay of this node until SIGTERM."""
    configure_logs(as_json=log_json, level=log_level)
    file = load_settings(config)
    settings = file.section("tracker", TrackerSettings)
    conf = load_hadoop_conf(conf_dir or file.hadoop_conf_dir)
    place = settings.place(conf)
    keys = _keys(settings, conf, file) if settings.report_keys else None
    sockets = _bind(place)
    for ends in place.ends:
        log.info(
            "tracker relay up",
            **({"rm_id": ends.rm_id} if ends.rm_id else {}),
            listen=str(ends.listen),
            upstream=str(ends.upstream),
            hidden=str(place.extra),
            mark_guaranteed=settings.mark_guaranteed,
        )

    def work(keeper: socket.socket) -> None:
        uvloop.run(_serve(settings, place, keys, sockets, keeper))

    Keeper(sockets, work, settings.stall_s).run()
    log.info("tracker relay stopped")


def _keys(settings: TrackerSettings, conf: HadoopConf, file: SettingsFile) -> SeenKeys:
    from sidecar.tracker.key_sender import make_key_sender  # a client of REST, which others do without

    return make_key_sender(settings, conf, file.security())


async def _serve(
    settings: TrackerSettings,
    place: TrackerPlace,
    keys: SeenKeys | None,
    sockets: list[socket.socket],
    keeper: socket.socket,
) -> None:
    await TrackerWorker(settings, place, keys).run(sockets, keeper)


def _bind(place: TrackerPlace) -> list[socket.socket]:
    bound: list[socket.socket] = []
    try:
        for ends in place.ends:
            bound.append(bound_socket(*ends.listen))
    except QuicksilverError:
        for sock in bound:
            sock.close()
        raise
    return bound
