"""JSON in traces: objects one after the other, and what is said of fields that are not there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from quicksilver.simulator.traces.lines import LONGEST, Mistakes, TraceError, lines, met, opened

_LEXEME: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')


def objects(path: Path, mistakes: Mistakes | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file, each with its first line; they may span lines, and share one.

    Raises TraceError. Where mistakes are left out, the next object counts again.
    """
    with opened(path) as file:
        kept: list[str] = []
        depth, size, began, number = 0, 0, 1, 0
        while line := file.readline(LONGEST):
            number, at = number + 1, 0
            for lexeme in _LEXEME.finditer(line):
                if lexeme[0] == "{":
                    began = number if not depth else began
                    depth += 1
                elif lexeme[0] == "}":
                    depth -= 1
                    if depth < 0:
                        met(mistakes, _extra(path, number))
                        kept, size, depth, at = [], 0, 0, lexeme.end()
                    elif not depth:
                        found = _read(path, began, "".join(kept) + line[at : lexeme.end()], mistakes)
                        kept, size, at = [], 0, lexeme.end()
                        if found is not None:
                            yield began, found
            kept.append(line[at:])
            size += len(kept[-1])
            if size > LONGEST:
                what = f"a job of more than {LONGEST} characters"
                raise TraceError(what, place=f"{path}:{began}", remedy="leave it out")
        if "".join(kept).strip():
            what = "ends within a job"
            met(mistakes, TraceError(what, place=f"{path}:{began}", remedy="give the whole trace"))


def records(path: Path, mistakes: Mistakes | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file that has one a line, each with its line; or span lines, if the first one does.

    Raises TraceError.
    """
    _, first = next(lines(path), (1, "{}"))
    if first.lstrip().startswith("{") and not first.rstrip().endswith("}"):
        yield from objects(path, mistakes)
        return
    for line, text in lines(path):
        found = _read(path, line, text, mistakes)
        if found is not None:
            yield line, found


def _extra(path: Path, number: int) -> TraceError:
    return TraceError("a } too many", place=f"{path}:{number}", remedy="give the trace as it was written")


def _read(path: Path, line: int, text: str, mistakes: Mistakes | None) -> dict[str, Any] | None:
    try:
        return object_of(text, str(path), line)
    except TraceError as error:
        met(mistakes, error)
        return None


def object_of(text: str, path: str, line: int) -> dict[str, Any]:
    """Return the object that a text beginning in that line is. Raises TraceError."""
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        at = f"{path}:{line + error.lineno - 1}" if isinstance(error, json.JSONDecodeError) else f"{path}:{line}"
        what = error.msg if isinstance(error, json.JSONDecodeError) else "too deep"
        raise TraceError(f"no JSON: {what}", place=at, remedy="give the trace as it was written") from error
    if not isinstance(found, dict):
        raise TraceError("no JSON object", place=f"{path}:{line}", remedy="give one object per job")
    return found


@contextmanager
def faults_named(place: str, what: str) -> Iterator[None]:
    """Turn what fails for fields that are missing or of another kind into a TraceError: not `what`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise TraceError(f"not {what}: {error!r}", place=place, remedy=f"give {what}") from error
