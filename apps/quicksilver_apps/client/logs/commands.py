"""The command `quicksilver app logs`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from quicksilver.common.command_line.groups import Command
from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.logs.logs import FILES, MASTER, LogPlace, Logs, node_scheme, sources_of
from quicksilver_apps.client.master_api import MasterApi
from quicksilver_apps.client.master_places import MasterPlaces
from quicksilver_apps.client.options import app_argument, on_cluster
from quicksilver_apps.client.records import ClientRecords
from quicksilver_apps.client.rm import END_STATES, id_of
from quicksilver_apps.client.session import Session

_LAST_BYTES: Final = 1 << 20
_MOST_BYTES: Final = 64 << 20
_POLL_S: Final = 1.0


@click.command("logs", cls=Command)
@app_argument
@click.option("--service", metavar="S", help=f"Only of this service; {MASTER}: of the application master.")
@click.option("--instance", type=click.IntRange(0), metavar="N", help="Only of this instance.")
@click.option("--file", "files", multiple=True, metavar="NAME", help="Only these files [default: stdout, stderr].")
@click.option(
    "--bytes",
    "last_bytes",
    type=click.IntRange(1, _MOST_BYTES),
    default=_LAST_BYTES,
    show_default=True,
    help="The last bytes of each file.",
)
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until the application ends.")
@on_cluster
def logs(
    session: Session,
    application_id: str,
    service: str | None,
    instance: int | None,
    files: tuple[str, ...],
    last_bytes: int,
    follow: bool,
) -> None:
    """Print the logs of an application's instances.

    They come from their NodeManagers while it runs, and from the cluster's log server once it has ended.
    """
    reader = Logs(session)
    printer = _Printer(reader, files or FILES, last_bytes)
    try:
        report = _report(session, application_id)
        if report.yarn_application_state in END_STATES:
            _print_ended(session, reader, printer, application_id, service, instance)
            return
        while True:
            sources = _select(_running(session, reader, application_id, report, service), service, instance)
            printer.print_all(sources, aggregated=False)
            if not follow:
                break
            time.sleep(_POLL_S)
            report = _report(session, application_id)
            if report.yarn_application_state in END_STATES:
                break
    finally:
        reader.close()
    if not printer.known:
        raise ClientError("no instance that is meant runs yet", place=application_id, remedy="wait, or use --follow")


@dataclass
class _Printer:
    """Prints files from where it stopped before."""

    logs: Logs
    files: Sequence[str]
    last_bytes: int
    known: dict[tuple[str, str], int] = field(default_factory=dict)
    """Bytes of each container's file that are printed, or left out."""
    _shown: tuple[str, str] | None = None

    def print_all(self, sources: Sequence[LogPlace], aggregated: bool) -> int:
        """Print what is new in all files; return how many files there are."""
        read = self.logs.aggregated if aggregated else self.logs.of_node
        count = 0
        for source in sources:
            for file in self.files:
                key = source.container_id, file
                tail = read(source, file, 1 if key in self.known else self.last_bytes)
                if tail is None:
                    continue
                count += 1
                if key in self.known and tail.length > self.known[key]:
                    tail = read(source, file, min(_MOST_BYTES, tail.length - self.known[key])) or tail
                if tail.length > self.known.get(key, 0):
                    self._write(source, file, tail.data[-(tail.length - self.known.get(key, 0)) :])
                self.known[key] = tail.length
        return count

    def _write(self, source: LogPlace, file: str, data: bytes) -> None:
        if self._shown != (source.container_id, file):
            click.echo(f"==> {source.title} {file} ({source.container_id})")
            self._shown = source.container_id, file
        text = data.decode(errors="replace")
        click.echo(text, nl=not text.endswith("\n"))


def _print_ended(
    session: Session, reader: Logs, printer: _Printer, application_id: str, service: str | None, instance: int | None
) -> None:
    masters = reader.masters(application_id)
    record = ClientRecords().find(application_id)
    known = [_remembered(*each) for each in record.containers.items()] if record is not None else []
    names = {each.container_id: each for each in (*masters, *known)}
    if service is not None and service != MASTER and not known:
        raise ClientError(
            f"which containers were of service {service} is not known here",
            place=application_id,
            remedy="leave --service out; `quicksilver app run` and `wait` remember them",
        )
    listed = [
        names.get(each) or LogPlace("container", 0, each) for each in reader.aggregated_containers(application_id)
    ]
    sources = _select(listed, service, instance) if service or instance is not None else listed
    if not printer.print_all(sources, aggregated=True):
        remedy = "they are aggregated some seconds after the end, where yarn.log-aggregation-enable is true: try again"
        raise ClientError("it has ended, and no log of it is there", place=application_id, remedy=remedy)


def _remembered(container_id: str, title: str) -> LogPlace:
    service, _, index = title.rstrip("]").rpartition("[")
    return LogPlace(service, int(index), container_id)


def _select(sources: Sequence[LogPlace], service: str | None, instance: int | None) -> list[LogPlace]:
    return [
        each
        for each in sources
        if (each.service == service if service is not None else each.service != MASTER)
        and (instance is None or each.index == instance)
    ]


def _running(
    session: Session,
    reader: Logs,
    application_id: str,
    report: client_pb2.ApplicationReportProto,
    service: str | None,
) -> list[LogPlace]:
    if service == MASTER:
        return reader.masters(application_id)[-1:]
    answer = asyncio.run(_ask_master(session, application_id, report))
    if answer is None:
        return []
    application, addresses = answer
    names = [each["name"] for each in application["services"]]
    if service is not None and service not in names:
        known = ", ".join((*names, MASTER))
        raise ClientError(f"it has no service {service}", place=application_id, remedy=f"name one of {known}")
    return sources_of(application, addresses, node_scheme(session.site))


async def _ask_master(
    session: Session, application_id: str, report: client_pb2.ApplicationReportProto
) -> tuple[dict[str, Any], frozenset[str]] | None:
    """Return what the master says, and the addresses of nodes; None while no master listens."""
    async with await asyncio.to_thread(session.rm) as rm:
        url = await MasterPlaces().url_of(rm, report)
        if not url:
            return None
        async with MasterApi(url, application_id) as api:
            return await api.application(), await rm.node_addresses()


def _report(session: Session, application_id: str) -> client_pb2.ApplicationReportProto:
    async def ask() -> client_pb2.ApplicationReportProto:
        async with await asyncio.to_thread(session.rm) as rm:
            return await rm.report(id_of(application_id))

    return asyncio.run(ask())
