"""What the readers of traces share: files as lines, mistakes with their place, and jobs in the order of arrival."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Final, TypeVar, cast

from quicksilver.common.errors import QuicksilverError

LONGEST: Final = 256 * 2**20
"""Characters of one job, at most."""
_GZIP: Final = b"\x1f\x8b"
_KEPT: Final = 10


class TraceError(QuicksilverError):
    """A trace is not what it should be."""


class Mistakes:
    """What is not read of a trace: the first broken job ends the reading, or such jobs are left out and counted.

    Tasks that did not end, and jobs without any other, are no mistake: they are always left out and counted.
    """

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.count = 0
        self.first: list[str] = []
        """The first ten, in words."""
        self.left_out: Counter[str] = Counter()
        """How often, by what it was, in the plural."""

    def met(self, error: TraceError) -> None:
        """Count a mistake. Raises it when mistakes are not left out."""
        if not self.skip:
            if "--skip" not in error.remedy:
                error.remedy = ", or ".join(filter(None, (error.remedy, "leave such jobs out with --skip")))
            raise error
        self.count += 1
        if len(self.first) < _KEPT:
            self.first.append(str(error))

    def words(self) -> list[str]:
        """Return what was left out and how often, in words."""
        broken = [f"{self.count} broken jobs left out"] if self.count else []
        return broken + [f"{count} {kind} left out" for kind, count in sorted(self.left_out.items())]


def met(mistakes: Mistakes | None, error: TraceError) -> None:
    """Count a mistake, or raise it."""
    if mistakes is None:
        raise error
    mistakes.met(error)


def leave_out(mistakes: Mistakes | None, kind: str, count: int = 1) -> None:
    """Count what is left out although it is no mistake. what: in the plural."""
    if mistakes is not None and count:
        mistakes.left_out[kind] += count


def unreadable(place: str, error: object) -> TraceError:
    """Return what is said of a file that cannot be read."""
    return TraceError(f"cannot be read: {error}", place=place, remedy="give an intact trace")


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """Open a text, packed with gzip or not. Raises TraceError, whatever of the file cannot be read, and whenever."""
    try:
        with path.open("rb") as raw:
            packed = raw.peek(len(_GZIP)).startswith(_GZIP)
            octets = cast(IO[bytes], gzip.GzipFile(fileobj=raw) if packed else raw)
            yield TextIOWrapper(octets, encoding="utf-8-sig")
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        raise unreadable(str(path), error) from error


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, each with its number. Raises TraceError."""
    with opened(path) as file:
        number = 0
        while line := file.readline(LONGEST):
            number += 1
            if len(line) == LONGEST:
                place, remedy = f"{path}:{number}", "give a trace with one job a line"
                raise TraceError(f"a line of more than {LONGEST} characters", place=place, remedy=remedy)
            if not line.isspace():
                yield number, line.rstrip("\n")


T = TypeVar("T")


def parsed(path: Path, parse: Callable[[str, str], T], mistakes: Mistakes | None) -> Iterator[T]:
    """Yield what `parse` makes of each line; it gets the line and its place. Raises TraceError."""
    for number, text in lines(path):
        try:
            item = parse(text, f"{path}:{number}")
        except TraceError as error:
            met(mistakes, error)
            continue
        yield item


class Arrivals:
    """Arrivals of a trace whose lines are in order; from the first one on, where they are dates."""

    def __init__(self, *, from_first: bool) -> None:
        self._from_first = from_first
        self._first_s: float | None = None
        self._last_s = 0.0

    def next(self, at_s: float, place: str) -> float:
        """Return when the next job arrives. Raises TraceError when that is before the last one."""
        if self._first_s is None:
            self._first_s, self._last_s = (at_s if self._from_first else 0.0), at_s
        if at_s < self._last_s:
            problem = f"arrives at {at_s:g} s, the job before it at {self._last_s:g} s"
            raise TraceError(problem, place=place, remedy="sort the trace by arrival")
        self._last_s = at_s
        return at_s - self._first_s
