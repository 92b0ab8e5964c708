"""The audit log: who changed what, when, from where, and with which result.

A line has the form of the ResourceManager's audit log (RMAuditLogger): KEY=value with tabs between, or JSON. Lines go
to the ordinary log, and to a file of their own where `audit.file` names one.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import time
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from policies.settings_model import SettingsModel
from quicksilver.common.errors import SettingsError
from quicksilver.common.process.masking import masked

LOGGER: Final = "quicksilver.audit"
SECTION: Final = "audit"
SUCCESS: Final = "SUCCESS"
FAILURE: Final = "FAILURE"
MAX_VALUE: Final = 1000
"""Characters of one value; longer ones are cut."""
_MB: Final = 2**20
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_FILE_LOGGER: Final = f"{LOGGER}.file"
_format: Literal["text", "json"] = "text"
log = logging.getLogger(LOGGER)


class AuditSettings(SettingsModel):
    """The audit log of proxy and sidecars."""

    file: Path | None = None
    """File for lines of the audit log (mode 0640); default: they are in the daemon's own log alone (own)."""
    format: Literal["text", "json"] = "text"
    """Form of the lines in the file: text (KEY=value with tabs between, as the ResourceManager's) or json (own)."""
    max_mb: int = Field(64, ge=1, le=4096)
    """Size at which the file is renamed to FILE.1 and a new one begins (own)."""
    files: int = Field(10, ge=1, le=1000)
    """Number of renamed files that are kept (own)."""


def configure_audit(settings: AuditSettings) -> None:
    """Open the file, if there is one. Raises SettingsError when it cannot be written."""
    global _format
    logger = logging.getLogger(_FILE_LOGGER)
    for old in logger.handlers[:]:
        logger.removeHandler(old)
        old.close()
    logger.propagate = False
    _format = settings.format
    if settings.file is None:
        return
    try:
        handler = _AuditFile(
            settings.file, maxBytes=settings.max_mb * _MB, backupCount=settings.files, encoding="utf-8"
        )
    except OSError as error:
        remedy = "name a file that this process may write"
        place = f"{SECTION}.file: {settings.file}"
        raise SettingsError(f"cannot be written: {error.strerror}", place=place, remedy=remedy) from error
    text = "%(message)s" if settings.format == "json" else "%(asctime)s INFO " + LOGGER + ": %(message)s"
    handler.setFormatter(logging.Formatter(text))
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)


def write_audit(
    operation: str,
    *,
    user: str,
    ok: bool = True,
    ip: str = "",
    target: str = "",
    details: Mapping[str, object] | None = None,
) -> None:
    """Write one line. user: as precisely as it is known; details: further keys. Keys without a value are left out."""
    base = {"user": user, "ip": ip, "operation": operation, "target": target, "result": SUCCESS if ok else FAILURE}
    every = {**base, **(details or {})}
    fields = {key: _clean(value) for key, value in every.items() if value not in ("", None)}
    log.log(logging.INFO if ok else logging.WARNING, "audit", extra=fields)
    logger = logging.getLogger(_FILE_LOGGER)
    if logger.handlers:
        logger.info("%s", "\t".join(_pairs(fields)) if _format == "text" else _Json(fields))


class _AuditFile(logging.handlers.RotatingFileHandler):
    """A file whose failures are in the daemon's log, once until it can be written again."""

    _failed = _broken = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        before, self._broken = self._failed, False
        super().emit(record)
        self._failed = self._broken
        if before and not self._failed:
            log.info("the audit log is written again: %s", self.baseFilename)

    def handleError(self, record: logging.LogRecord) -> None:
        """Report a line that could not be written."""
        self._broken = True
        if not self._failed:
            log.error(
                "the audit log cannot be written, its lines are in this log: %s", self.baseFilename, exc_info=True
            )

    def close(self) -> None:
        """Close the file; a failure is in the daemon's log."""
        try:
            super().close()
        except OSError as error:
            log.error("the end of the audit log may be missing: %s: %s", self.baseFilename, error.strerror)

    def _open(self) -> TextIOWrapper:
        return os.fdopen(os.open(self.baseFilename, _APPEND, 0o640), "a", encoding="utf-8")


class _Json:
    """A line as JSON with its time, made when it is written."""

    def __init__(self, fields: dict[str, str]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        now_s = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s)) + f".{int(now_s * 1000) % 1000:03}Z"
        return json.dumps({"timestamp": stamp} | self._fields)


def _pairs(fields: dict[str, str]) -> Iterator[str]:
    return (f"{key.upper()}={value}" for key, value in fields.items())


def _clean(value: object) -> str:
    """Return a value without what would end a field or a line."""
    return masked("".join(c if c.isprintable() else " " for c in str(value)))[:MAX_VALUE]
