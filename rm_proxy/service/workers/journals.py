"""The journals of several workers: one for each; those of a proxy with another number of workers are divided anew."""

from __future__ import annotations

from pathlib import Path

from quicksilver.common.process.logs import get_logger
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.service.attempt_journal import JournalDivision

log = get_logger(__name__)


def journal_of(path: Path, spread: Spread) -> Path:
    """Return the journal of a worker; path: that of a proxy of one process."""
    return path.with_name(f"{path.stem}-{spread.own}-of-{spread.count}{path.suffix}") if spread.count > 1 else path


def divide_journals(path: Path, count: int) -> None:
    """Divide what another number of workers journaled; path: the journal of a proxy of one process.

    The files before are removed once all of this number are written: cut off before that, it begins anew. Raises
    QuicksilverError where another process uses one, OSError.
    """
    known = sorted({*path.parent.glob(f"{path.stem}-*-of-*{path.suffix}"), *path.parent.glob(path.name)})
    spreads = [Spread(number, count) for number in range(count)]
    now = [journal_of(path, spread) for spread in spreads]
    before = [file for file in known if file not in now]
    if not before:
        return
    division = JournalDivision(before)
    for spread, file in zip(spreads, now, strict=True):
        own = [record for name, record in division.records if spread.of_attempt(name) == spread.own]
        division.write(file, own)
    division.close()
    log.info("the journals are divided anew", workers=count, files_before=len(before), records=len(division.records))
