"""What commands do at an application's end: its files are removed, its exit code is that of the command."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import click

from quicksilver_apps.client.records import ClientRecord, ClientRecords
from quicksilver_apps.client.session import Session
from quicksilver_apps.client.watch import End

EXIT_CODES: Final = {"succeeded": 0, "failed": 1, "killed": 3}
TIMEOUT_CODE: Final = 4
_LINES: Final = 30
"""Of an application's diagnostics that are printed."""


def say(at_s: float, text: str) -> None:
    """Print a line of what happened; `at_s` is Unix time."""
    click.echo(f"{time.strftime('%H:%M:%S', time.localtime(at_s))}  {text}")


def leave(end: End | None) -> None:
    """Print how an application ended, and end the command with the exit code of that; None: it goes on."""
    if end is None:
        raise click.exceptions.Exit(TIMEOUT_CODE)
    first, *more = end.diagnostics.splitlines()[:_LINES] or [""]
    say(time.time(), f"{end.status} after {end.elapsed_s:.1f} s{f': {first}' if first else ''}")
    for line in more:
        click.echo(f"          {line}")
    raise click.exceptions.Exit(EXIT_CODES[end.status])


def clean(session: Session, record: ClientRecord, records: ClientRecords, containers: Mapping[str, str]) -> None:
    """Remove the staged files of an application that has ended; remember whose its containers were.

    Raises ClientError.
    """
    if record.staging:
        staging = session.staging()
        try:
            staging.remove(record.staging)
        finally:
            staging.close()
    records.save(record.model_copy(update={"staging": "", "containers": {**record.containers, **containers}}))
