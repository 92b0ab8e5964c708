"""What a study has done so far, as JSON lines: a header, then a line per run. A study that was killed goes on with it.

A line counts once it is whole: what a kill left of the last one is cut off. One process at a time has the file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from quicksilver.common.errors import QuicksilverError

_FORM: Final = 1


class CheckpointError(QuicksilverError):
    """A checkpoint that this study cannot go on with."""


class Checkpoint:
    """An open file of runs, by their keys."""

    def __init__(self, file: IO[bytes], rows: dict[str, dict[str, Any]]) -> None:
        """Go on with an open file."""
        self._file = file
        self.rows = rows
        """The runs that are in it."""

    def add(self, key: str, row: Mapping[str, Any]) -> None:
        """Keep a run; when this returns, it is on the disk. Raises OSError."""
        self.rows[key] = dict(row)
        _write(self._file, {"key": key, "run": row})


@contextmanager
def opened(path: Path, about: Mapping[str, Any]) -> Iterator[Checkpoint]:
    """Open a checkpoint, or begin one.

    about: what all runs of the file have in common (the trace, the cluster, the program). Raises CheckpointError when
    the file has another one, is none or is in use, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = "wait until it ends, or name another folder"
            raise CheckpointError("another study writes to it", place=str(path), remedy=remedy) from error
        yield _read(path, file, json.loads(json.dumps(about)))


def _write(file: IO[bytes], line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _read(path: Path, file: IO[bytes], about: Mapping[str, Any]) -> Checkpoint:
    file.seek(0)
    rows: dict[str, dict[str, Any]] = {}
    header, whole = None, 0
    for number, line in enumerate(file, start=1):
        if not line.endswith(b"\n"):
            break
        record = _parsed(path, number, line)
        if header is None:
            header = record
            _same(path, header, about)
        else:
            rows[record["key"]] = record["run"]
        whole += len(line)
    file.truncate(whole)
    if header is None:
        _write(file, {"quicksilver_runs": _FORM, **about})
    return Checkpoint(file, rows)


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise ValueError("no object")
        if number > 1 and not (isinstance(record.get("run"), dict) and isinstance(record.get("key"), str)):
            raise ValueError("no key with its run")
    except ValueError as error:
        remedy = "name another folder, or delete the file"
        raise CheckpointError(f"is no line of runs: {error}", place=f"{path}:{number}", remedy=remedy) from error
    return record


def _same(path: Path, header: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    expected = {"quicksilver_runs": _FORM, **about}
    others = [name for name in {**header, **expected} if header.get(name) != expected.get(name)]
    if others:
        differ = "; ".join(f"{name} was {header.get(name)}, is {expected.get(name)}" for name in others)
        remedy = "name another folder for this study, or delete the file"
        raise CheckpointError(f"holds runs of another study: {differ}", place=f"{path}:1", remedy=remedy)
