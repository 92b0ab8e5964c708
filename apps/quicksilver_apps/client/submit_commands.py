"""Commands that submit applications: `quicksilver app run`, `quicksilver app submit`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from quicksilver.common.command_line.groups import Command
from quicksilver_apps.client.ends import clean, leave, say
from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.options import Function, json_option, on_cluster
from quicksilver_apps.client.records import ClientRecords
from quicksilver_apps.client.session import Session
from quicksilver_apps.client.submission import Described, Options, SubmissionResult, Submitter
from quicksilver_apps.client.watch import ApplicationWatch, End
from quicksilver_apps.description.model import Application
from quicksilver_apps.description.reader import load
from quicksilver_apps.description.templates import command_line_values

_LARGEST_COUNT: Final = 100_000
_FILE_NAME: Final = "application.yaml"


def _described(command: Function) -> Function:
    """Add the options that change what a file describes, and those of its submission."""
    for option in reversed(
        (
            click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="A value of a parameter."),
            click.option("--queue", metavar="QUEUE", help="YARN queue, in place of the described one."),
            click.option("--name", metavar="NAME", help="Name, in place of the described one."),
            click.option("--priority", type=click.IntRange(0, 1000), help="YARN application priority."),
            click.option("--python", default="python3", show_default=True, help="Python 3.11 or later on the nodes."),
            click.option("--view-acl", default="", metavar="'USERS GROUPS'", help="Who else may see it, as in Hadoop."),
            click.option(
                "--modify-acl", default="", metavar="'USERS GROUPS'", help="Who else may end it, as in Hadoop."
            ),
        )
    ):
        command = option(command)
    return command


@click.command("run", cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@_described
@click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), metavar="S", help="Wait no longer.")
@on_cluster
def run(session: Session, file: Path, timeout_s: float | None, **params: Any) -> None:
    """Submit the application of FILE (or FILE/application.yaml), print what happens, wait for its end.

    Exit code 0: it succeeded, 1: it failed or was refused, 3: it was killed, 4: --timeout came first, and it goes on.
    """
    described, options = _read([file], params)[0], _options(params)
    records = ClientRecords()
    end = asyncio.run(_run(session, described, options, records, timeout_s))
    leave(end)


async def _run(
    session: Session, described: Described, options: Options, records: ClientRecords, timeout_s: float | None
) -> End | None:
    record = await Submitter(session, options, records).submit(described)
    say(time.time(), f"{record.application_id} ({described.application.name}) is submitted")
    return await watched(session, record.application_id, records, timeout_s)


async def watched(session: Session, application_id: str, records: ClientRecords, timeout_s: float | None) -> End | None:
    """Print an application's events until it ends; return how, or None when `timeout_s` was over before.

    Its files are removed then, and what is known of its containers is kept for their logs.
    """
    async with await asyncio.to_thread(session.rm) as rm:
        watch = ApplicationWatch(rm, application_id, say)
        try:
            async with asyncio.timeout(timeout_s):
                end = await watch.until_end()
        except TimeoutError:
            click.echo(
                f"{application_id} goes on; wait with `quicksilver app wait {application_id}`, "
                f"or end it with `quicksilver app kill {application_id}`",
                err=True,
            )
            return None
    record = records.find(application_id)
    if record is not None:
        await asyncio.to_thread(clean, session, record, records, watch.containers)
    return end


@click.command("submit", cls=Command)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@_described
@click.option("--count", type=click.IntRange(1, _LARGEST_COUNT), default=1, show_default=True, help="That often each.")
@json_option
@on_cluster
def submit(session: Session, files: tuple[Path, ...], count: int, as_json: bool, **params: Any) -> None:
    """Submit the applications of each FILE and print the id of each one once the scheduler has accepted it.

    Of several, each has a line of its own as it comes; a refusal goes to stderr with its reason, and the exit code is 1
    then. With --json each line is an object.
    """
    described = [each for each in _read(files, params) for _ in range(count)]
    results: list[SubmissionResult] = []

    def on_result(result: SubmissionResult) -> None:
        results.append(result)
        _print(result, as_json, len(described) > 1)

    began_s = time.monotonic()
    asyncio.run(Submitter(session, _options(params)).submit_all(described, on_result))
    refused = sum(not each.accepted for each in results)
    if len(described) > 1 and not as_json:
        took_s = time.monotonic() - began_s
        click.echo(f"{len(results) - refused} accepted, {refused} refused in {took_s:.1f} s", err=True)
    if refused:
        raise click.exceptions.Exit(1)


def _print(result: SubmissionResult, as_json: bool, several: bool) -> None:
    if as_json:
        click.echo(
            json.dumps(
                {
                    "file": result.described.source,
                    "accepted": result.accepted,
                    "application_id": result.application_id,
                    "queue": result.queue,
                    "reason": result.refusal,
                    "elapsed_s": round(result.elapsed_s, 3),
                }
            )
        )
    elif result.accepted:
        click.echo(result.application_id)
    else:
        source = f"{result.described.source}: " if several else ""
        click.echo(f"quicksilver: error: {source}refused: {result.refusal}", err=True)


def _read(files: Sequence[Path], params: Mapping[str, Any]) -> list[Described]:
    """Return the applications of files, or of folders with application.yaml. Raises DescriptionError."""
    values = command_line_values(params["values"])
    changes = {name: params[name] for name in ("queue", "name", "priority") if params[name] is not None}
    applications = []
    for file in files:
        path = file / _FILE_NAME if file.is_dir() else file
        application = load(path).fill(values)
        applications.append(Described(_changed(application, changes), path.absolute().parent, str(file)))
    return applications


def _changed(application: Application, changes: Mapping[str, Any]) -> Application:
    if not changes:
        return application
    from pydantic import ValidationError

    try:
        return Application.model_validate(application.model_dump(by_alias=True) | dict(changes))
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{first['msg']}: {first['input']!r}"
        raise ClientError(problem, place=f"--{first['loc'][0]}", remedy="correct the option") from error


def _options(params: Mapping[str, Any]) -> Options:
    return Options(**{name: params[name] for name in ("python", "view_acl", "modify_acl")})
