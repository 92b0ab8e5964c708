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
        parts: list[str] = []
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
                        parts, size, depth, at = [], 0, 0, lexeme.end()
                    elif not depth:
                        record = _read(path, began, "".join(parts) + line[at : lexeme.end()], mistakes)
                        parts, size, at = [], 0, lexeme.end()
                        if record is not None:
                            yield began, record
            parts.append(line[at:])
            size += len(parts[-1])
            if size > LONGEST:
                problem = f"a job of more than {LONGEST} characters"
                raise TraceError(problem, place=f"{path}:{began}", remedy="leave it out")
        if "".join(parts).strip():
            problem = "ends within a job"
            met(mistakes, TraceError(problem, place=f"{path}:{began}", remedy="give the whole trace"))


def records(path: Path, mistakes: Mistakes | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of a file that has one a line, each with its line; or span lines, if the first one does.

    Raises TraceError.
    """
    _, first = next(lines(path), (1, "{}"))
    if first.lstrip().startswith("{") and not first.rstrip().endswith("}"):
        yield from objects(path, mistakes)
        return
    for line, text in lines(path):
        record = _read(path, line, text, mistakes)
        if record is not None:
            yield line, record


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
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        at = f"{path}:{line + error.lineno - 1}" if isinstance(error, json.JSONDecodeError) else f"{path}:{line}"
        problem = error.msg if isinstance(error, json.JSONDecodeError) else "too deep"
        raise TraceError(f"no JSON: {problem}", place=at, remedy="give the trace as it was written") from error
    if not isinstance(data, dict):
        raise TraceError("no JSON object", place=f"{path}:{line}", remedy="give one object per job")
    return data


@contextmanager
def faults_named(place: str, form: str) -> Iterator[None]:
    """Turn what fails for fields that are missing or of another kind into a TraceError: not `form`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise TraceError(f"not {form}: {error!r}", place=place, remedy=f"give {form}") from error
