"""Times on the command line: --since, --until and --zone."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import click

from rm_proxy.cli.requests import Function

_ZONE: Final = re.compile(r"([+-])(\d\d):(\d\d)|UTC|Z")
_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_ZONE_MIN: Final = 18 * 60
_WHEN: Final = "2026-11-21, 2026-11-21T08:30, 30m, 2h or 7d ago, or Unix seconds"


def since_option(command: Function) -> Function:
    """Add --since and --zone."""
    since = click.option("--since", metavar="TIME", help=f"From then on: {_WHEN}.")
    zone = click.option("--zone", default="UTC", show_default=True, help="Time zone of days and times: +02:00.")
    return since(zone(command))


def within(command: Function) -> Function:
    """Add --since, --until and --zone."""
    until = click.option("--until", metavar="TIME", help="Before then, written as for --since.")
    return since_option(until(command))


def times(since: str | None, until: str | None, zone: str) -> dict[str, float]:
    """Return the parameters of the times that were given."""
    texts = (("since", since), ("until", until))
    return {name: unix_s(f"--{name}", text, zone_min(zone)) for name, text in texts if text is not None}


def times_of(arguments: Mapping[str, Any]) -> dict[str, float]:
    """Return the parameters of the times among a command's arguments."""
    return times(arguments.get("since"), arguments.get("until"), arguments["zone"])


def unix_s(option: str, text: str, zone_min: int) -> float:
    """Return a time in Unix seconds. Raises BadParameter of `option` for what is none."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(0.0, time.time() - float(ago[1]) * _UNITS_S[ago[2]])
    try:
        seconds = float(text)
        if math.isfinite(seconds):
            return seconds
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time; write {_WHEN}", param_hint=option) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone(timedelta(minutes=zone_min)))
    return moment.timestamp()


def zone_min(zone: str) -> int:
    """Return the minutes east of UTC. Raises BadParameter."""
    match = _ZONE.fullmatch(zone)
    if match is None:
        raise click.BadParameter(f"{zone!r} is not an offset; write +02:00, or UTC", param_hint="--zone")
    if match[1] is None:
        return 0
    minutes = int(match[2]) * 60 + int(match[3])
    if int(match[3]) > 59 or minutes > _MOST_ZONE_MIN:
        raise click.BadParameter(f"{zone!r} is more than 18 hours, or has more than 59 minutes", param_hint="--zone")
    return -minutes if match[1] == "-" else minutes
