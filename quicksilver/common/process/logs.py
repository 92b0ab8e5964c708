"""Logs of all our processes: structlog lines to stderr, key=value or JSON.

Keys that recur: `application` (its id), `attempt`, `container` (container id), `node` (node id), `peer` (address).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TextIO

from quicksilver.common.process.loading import without
from quicksilver.common.process.masking import masked

with without("rich"):  # structlog colours tracebacks with it, which we do not print
    import structlog
    from structlog.typing import EventDict, Processor

LEVELS: Final = ("debug", "info", "warning", "error")
_FIRST_KEYS: Final = ["timestamp", "level", "logger", "event", "application", "attempt", "container", "node", "peer"]


def configure_logs(*, as_json: bool = False, level: str = "info", stream: TextIO | None = None) -> None:
    """Send every log line, ours and the libraries', to `stream` (stderr when None) in one form.

    Raises ValueError when `level` is none of LEVELS.
    """
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no log level; take one of {', '.join(LEVELS)}")
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    _leave_out_callers()
    _configure_structlog(before)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=_rendering(as_json)))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for noisy in ("urllib3", "alembic", "apscheduler", "uvicorn.access", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(logging.WARNING if level != "debug" else logging.DEBUG)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module; `log.bind(application=...)` gives one with keys."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def debug_check(name: str) -> Callable[[], bool]:
    """Return a function that returns whether a module writes lines of level debug; it is cheaper than such a line."""
    return partial(logging.getLogger(name).isEnabledFor, logging.DEBUG)


def _leave_out_callers() -> None:
    """Have no line look for its file, function, thread and process: no form shows them ("Optimization" of Python)."""
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def _configure_structlog(before: list[Processor]) -> None:
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *before,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _rendering(as_json: bool) -> list[Processor]:
    if as_json:
        last: Processor = structlog.processors.JSONRenderer(default=str)
    else:
        last = structlog.processors.LogfmtRenderer(key_order=_FIRST_KEYS, drop_missing=True, bool_as_flag=False)
    return [structlog.stdlib.ProcessorFormatter.remove_processors_meta, _plain_keys, last, _without_secrets]


def _without_secrets(_logger: object, _method: str, line: Any) -> str:
    """Mask in the whole line, tracebacks too, what is known as secret."""
    return masked(line)


def _plain_keys(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Drop what only libraries add, and make keys that key=value lines can carry."""
    event.pop("color_message", None)
    return {key.replace(" ", "_"): value for key, value in event.items()}
