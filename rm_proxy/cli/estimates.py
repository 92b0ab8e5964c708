"""`quicksilver estimate show`: how good expected durations were."""

from __future__ import annotations

import time
from typing import Any

import click

from quicksilver.common.command_line.groups import CommandGroup
from rm_proxy.cli import tables
from rm_proxy.cli.requests import get, reading, show


@click.group(cls=CommandGroup)
def estimate() -> None:
    """Expected durations of tasks."""


@estimate.command("show")
@click.option("--app", "app_id", help="Only of this application.")
@click.option(
    "--last",
    "last_s",
    type=click.FloatRange(0, min_open=True),
    default=3600.0,
    help="Only this time before now, in seconds.",
)
@click.option("--bucket", "bucket_s", type=click.FloatRange(1), default=60.0, help="Seconds in a row of the table.")
@reading
def show_estimates(app_id: str | None, last_s: float, bucket_s: float, url: str, as_json: bool) -> None:
    """Show by time how far tasks' expected durations were from how long they ran."""
    params: dict[str, Any] = {"since_s": max(0.0, time.time() - last_s), "bucket_s": bucket_s}
    if app_id:
        params["app_id"] = app_id
    show(get(url, "/v1/estimates", params), as_json, tables.estimates)
