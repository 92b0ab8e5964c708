"""Levels of loggers, shown and changed as Hadoop's LogLevel servlet does, so that `hadoop daemonlog` works."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from policies.errors import close_to
from quicksilver.common.http.rest_errors import ApiError

MARKER: Final = "<!-- OUTPUT -->"
"""Begins each line that `hadoop daemonlog` prints."""
_OURS: Final = ("hadoop_rpc", "policies", "quicksilver", "rm_proxy", "sidecar")
ROOT: Final = "root"
OWN_LEVEL: Final = "reset"
"""Takes a logger's own level away: that of the logger above it holds again."""
LEVELS: Final = {
    "all": logging.DEBUG,
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "critical": logging.CRITICAL,
    OWN_LEVEL: logging.NOTSET,
}
"""By their names in Python and in Java, in small letters."""
_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Log level</title></head><body>
<h1>Log level</h1>
<form>Logger: <input size="50" name="log"> <input type="submit" value="Get log level"></form>
<form>Logger: <input size="50" name="log"> Level: <input name="level">
<input type="submit" value="Set log level"></form>
{results}</body></html>
"""


@dataclass(frozen=True, slots=True)
class ShownLevel:
    """A logger's level, after a change of it where `submitted` is one."""

    log: str
    level: str
    """Its effective level."""
    own: str
    """The level that was set for it, "" without one."""
    submitted: str = ""


def known() -> list[str]:
    """Return the names of all loggers; a module of ours has one of its name, even if it has not logged yet."""
    modules = (name for name in tuple(sys.modules) if name.partition(".")[0] in _OURS)
    return [ROOT, *sorted({*logging.root.manager.loggerDict, *modules})]


def apply(log: str, level: str = "") -> ShownLevel:
    """Change the level of a logger, if one is given, and return what it is now.

    Raises ApiError: 404 for an unknown logger, 400 for an unknown level.
    """
    names = known()
    if log not in names:
        raise ApiError(404, "unknown-logger", f"there is no logger {log[:200]}; {close_to(log[:200], names)[:500]}")
    logger = logging.getLogger(None if log == ROOT else log)
    if level:
        number = LEVELS.get(level.lower())
        if number is None or (number == logging.NOTSET and log == ROOT):
            raise ApiError(400, "bad-level", f"there is no level {level[:50]!r}; take one of {', '.join(LEVELS)}")
        logger.setLevel(number)
    own = logging.getLevelName(logger.level) if logger.level else ""
    return ShownLevel(log, logging.getLevelName(logger.getEffectiveLevel()), own, level.upper())


def as_json(shown: ShownLevel | None, **more: Any) -> bytes:
    """Return a logger as JSON; None: only `more`."""
    own = {} if shown is None else {"log": shown.log, "level": shown.level, "own": shown.own}
    return json.dumps(own | more, indent=1).encode()


def as_html(shown: ShownLevel | None) -> str:
    """Return the page with forms, and below them the lines that `hadoop daemonlog` prints."""
    if shown is None:
        return _PAGE.format(results="<p>Loggers:</p>\n" + "".join(f"{escape(name)}<br>\n" for name in known()))
    lines = [f"Submitted Class Name: <b>{escape(shown.log)}</b>"]
    if shown.submitted:
        lines.append(f"Submitted Level: <b>{escape(shown.submitted)}</b>")
        lines.append(f"Setting Level to {escape(shown.submitted)} ...")
    lines.append(f"Effective Level: <b>{escape(shown.level)}</b>")
    return _PAGE.format(results="<p>Results:</p>\n" + "".join(f"{MARKER}{line}<br>\n" for line in lines))
