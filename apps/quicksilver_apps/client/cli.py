"""Commands that ask and change applications: `quicksilver app services`, `scale`, `kill`, `wait`, `logs`, `clean`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import click

from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from quicksilver.common.command_line.groups import Command
from quicksilver.common.http.rest_errors import RefusedError
from quicksilver_apps.client.ends import clean, leave, say
from quicksilver_apps.client.errors import ClientError, NotRunningError
from quicksilver_apps.client.master_api import MasterApi
from quicksilver_apps.client.master_places import MasterPlaces, MisplacedMasterError
from quicksilver_apps.client.options import app_argument, json_option, on_cluster
from quicksilver_apps.client.records import ClientRecord, ClientRecords
from quicksilver_apps.client.rm import END_STATES, Rm, id_of
from quicksilver_apps.client.session import Session
from quicksilver_apps.client.submit_commands import watched
from quicksilver_apps.client.tables import print_services
from quicksilver_apps.client.watch import ApplicationWatch, end_of

_KILL_S: Final = 20.0
"""How long a master may take to end its application in order, before YARN kills it."""


@click.command("services", cls=Command)
@app_argument
@json_option
@on_cluster
def services(session: Session, application_id: str, as_json: bool) -> None:
    """Show the services of a described application and their instances: states, nodes, links. It asks the master."""
    answer = asyncio.run(_ask_master(session, application_id, "", lambda api: api.application()))
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        print_services(answer)


@click.command("scale", cls=Command)
@app_argument
@click.argument("service")
@click.argument("count", type=click.IntRange(0))
@json_option
@on_cluster
def scale(session: Session, application_id: str, service: str, count: int, as_json: bool) -> None:
    """Let SERVICE have COUNT elastic instances at most, beside its core; those beyond are ended."""
    record = ClientRecords().required(application_id)
    answer = asyncio.run(_ask_master(session, application_id, record.key, lambda api: api.scale(service, count)))
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo(f"{service}: {answer['wanted']} instances are wanted, {answer['running']} are running")


@click.command("kill", cls=Command)
@app_argument
@click.option("--reason", default="killed by its user", show_default=True, help="For its diagnostics.")
@on_cluster
def kill(session: Session, application_id: str, reason: str) -> None:
    """End an application: in order by its master, else by the ResourceManager; return once it has ended."""
    records = ClientRecords()
    record = records.find(application_id)
    how = asyncio.run(_kill(session, application_id, record, reason))
    if record is not None:
        clean(session, record, records, {})
    click.echo(f"{application_id} {how}")


async def _kill(session: Session, application_id: str, record: ClientRecord | None, reason: str) -> str:
    app_id = id_of(application_id)
    async with await asyncio.to_thread(session.rm) as rm:
        report = await rm.report(app_id)
        if report.yarn_application_state in END_STATES:
            return f"has ended already: it {end_of(report).status}"
        why = "it was not submitted from here" if record is None else ""
        if record is not None:
            why = await _stop(rm, report, record, reason)
        deadline = time.monotonic() + _KILL_S
        while not why:
            report = await rm.report(app_id)
            if report.yarn_application_state in END_STATES:
                return f"ended in order: {end_of(report).status}"
            if time.monotonic() > deadline:
                why = f"its master did not end it within {_KILL_S:g} s"
            await asyncio.sleep(0.1)
        if not await rm.kill(app_id, reason):
            remedy = "look at it with `yarn application -status`"
            raise ClientError(f"{application_id} is still not dead", place=str(rm.address), remedy=remedy)
        return f"was killed by the ResourceManager ({why})"


async def _stop(rm: Rm, report: client_pb2.ApplicationReportProto, record: ClientRecord, reason: str) -> str:
    """Ask a master to end its application; return why it does not, or ""."""
    try:
        url = await MasterPlaces().url_of(rm, report)
        if not url:
            return "its master was not running yet"
        async with MasterApi(url, record.application_id, record.key) as api:
            await api.stop("killed", reason)
    except (NotRunningError, MisplacedMasterError, RefusedError) as error:
        return f"its master did not: {error.message}"
    return ""


@click.command("wait", cls=Command)
@app_argument
@click.option("--ready", is_flag=True, help="Only until all services that have a core are ready.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), metavar="S", help="Wait no longer.")
@on_cluster
def wait(session: Session, application_id: str, ready: bool, timeout_s: float | None) -> None:
    """Print what happens in an application until it ends, or is ready; then remove its staged files.

    Exit code 0: it succeeded, or is ready, 1: it failed, 3: it was killed, 4: --timeout came first.
    """
    if ready:
        asyncio.run(_until_ready(session, application_id, timeout_s))
    else:
        leave(asyncio.run(watched(session, application_id, ClientRecords(), timeout_s)))


async def _until_ready(session: Session, application_id: str, timeout_s: float | None) -> None:
    async with await asyncio.to_thread(session.rm) as rm:
        try:
            async with asyncio.timeout(timeout_s):
                end = await ApplicationWatch(rm, application_id, say).until_ready()
        except TimeoutError:
            leave(None)
        if end is not None:
            leave(end)
    say(time.time(), "ready")


@click.command("clean", cls=Command)
@click.option("--forget", is_flag=True, help="Delete the records of ended applications, too; their logs stay.")
@on_cluster
def clean_command(session: Session, forget: bool) -> None:
    """Remove the staged files of applications that were submitted from here and have ended."""
    records = ClientRecords()
    ended = asyncio.run(_ended(session, records))
    for record in ended:
        clean(session, record, records, {})
        if forget:
            records.remove(record.application_id)
    click.echo(f"{sum(bool(each.staging) for each in ended)} staging folders removed")


async def _ended(session: Session, records: ClientRecords) -> list[ClientRecord]:
    matches = []
    async with await asyncio.to_thread(session.rm) as rm:
        for record in records.all():
            try:
                report = await rm.report(id_of(record.application_id))
            except ClientError as error:
                if "ApplicationNotFoundException" not in error.message:
                    raise
                matches.append(record)  # the ResourceManager has forgotten it: it ended long ago
                continue
            if report.yarn_application_state in END_STATES:
                matches.append(record)
    return matches


async def _ask_master(
    session: Session, application_id: str, key: str, do: Callable[[MasterApi], Awaitable[dict[str, Any]]]
) -> dict[str, Any]:
    """Return what a master answers. Raises NotRunningError when there is none, MisplacedMasterError, RefusedError."""
    async with await asyncio.to_thread(session.rm) as rm:
        report = await rm.report(id_of(application_id))
        url = await MasterPlaces().url_of(rm, report)
        if not url:
            over = report.yarn_application_state in END_STATES
            remedy = (
                f"its logs: `quicksilver app logs {application_id}`" if over else "wait: `quicksilver app wait --ready`"
            )
            state = client_pb2.YarnApplicationStateProto.Name(report.yarn_application_state)
            raise NotRunningError(f"it has no master to ask: its state is {state}", place=application_id, remedy=remedy)
        async with MasterApi(url, application_id, key) as api:
            return await do(api)
