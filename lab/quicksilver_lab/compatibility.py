"""What ran with which Hadoop: results that tests write, and the table of docs/compatibility.md that is made of them.

`QUICKSILVER_COMPATIBILITY=lab/figures/compatibility` in the environment of a test run has the tests write their
results, one file for each version and framework. `python -m quicksilver_lab.compatibility docs/compatibility.md` writes
the table anew; a test compares them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from quicksilver.manual.made_parts import with_part

FOLDER: Final = Path(__file__).parents[1] / "figures" / "compatibility"
"""The results in a checkout."""
VARIABLE: Final = "QUICKSILVER_COMPATIBILITY"
LONGEST_CAUSE: Final = 200


class Disturbance(StrEnum):
    """What happens while the framework's job runs."""

    NONE = "none"
    PROXY = "proxy restart"
    SIDECAR = "sidecar restart"
    RM = "rm restart"
    NM = "nm restart"
    MASTER = "master killed"
    NODE = "node lost"
    WORK = "guaranteed work"


Mode = Literal["G", "Q", "LAS", "KILL"]


class Cell(BaseModel):
    """The outcome of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    """Hadoop's, such as "3.4.2"; of a mixed cluster "RM 3.4.2, NMs 3.3.6"."""
    framework: str
    """Such as "MapReduce"."""
    mode: Mode
    """Its containers: guaranteed, queueable, and queueable ones that give way by shrinking or are killed for it."""
    event: Disturbance = Disturbance.NONE
    outcome: Literal["passed", "failed"] = "passed"
    cause: str = Field("", max_length=LONGEST_CAUSE)
    """Why it failed; of a run that passed what is to be known about it."""
    commit: str = ""
    date: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes a later run take the place of an earlier one."""
        return (self.version, self.framework, self.mode, self.event)


_COLUMNS: Final = {
    Disturbance.NONE: "undisturbed",
    Disturbance.PROXY: "proxy restarts",
    Disturbance.SIDECAR: "sidecar restarts",
    Disturbance.RM: "ResourceManager restarts",
    Disturbance.NM: "NodeManager restarts",
    Disturbance.MASTER: "master killed",
    Disturbance.NODE: "node lost",
    Disturbance.WORK: "guaranteed work beside",
}
_CELLS: Final = TypeAdapter(list[Cell])


def load(folder: Path = FOLDER) -> list[Cell]:
    """Return the results below a folder, by version, framework, mode and event."""
    cells = (cell for path in folder.glob("*.json") for cell in _CELLS.validate_json(path.read_bytes()))
    return sorted(cells, key=_order)


def save(cell: Cell, folder: Path) -> None:
    """Write one result into its file in `folder`, in place of an earlier one of the same version, mode and event."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (re.sub(r"[^a-z0-9.]+", "-", f"{cell.version}-{cell.framework}".lower()) + ".json")
    earlier = _CELLS.validate_json(path.read_bytes()) if path.is_file() else []
    cells = sorted([*(result for result in earlier if result.key != cell.key), cell], key=_order)
    path.write_bytes(_CELLS.dump_json(cells, indent=1) + b"\n")


@contextmanager
def recorded(version: str, framework: str, mode: Mode, event: Disturbance = Disturbance.NONE) -> Iterator[None]:
    """Record how the with block ends, where the environment names a folder for results; its exception goes on."""
    try:
        yield
    except Exception as error:
        cause = (str(error).strip().splitlines() or [type(error).__name__])[0][:LONGEST_CAUSE]
        record(Cell(version=version, framework=framework, mode=mode, event=event, outcome="failed", cause=cause))
        raise
    record(Cell(version=version, framework=framework, mode=mode, event=event))


def record(cell: Cell) -> None:
    """Write a result with commit and date, where the environment names a folder for results."""
    folder = os.environ.get(VARIABLE)
    if folder:
        save(cell.model_copy(update={"commit": _commit(), "date": _today().isoformat()}), Path(folder))


def _today() -> date:
    return datetime.now(UTC).date()


def _commit() -> str:
    argv = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(argv, cwd=FOLDER.parent, capture_output=True, text=True, check=True).stdout.strip()


def _order(cell: Cell) -> tuple[str, str, str, int]:
    return (cell.version, cell.framework, cell.mode, list(Disturbance).index(cell.event))


def rows(cells: Iterable[Cell]) -> Iterator[str]:
    """Yield the table: a row for each version, framework and mode, a column for each event."""
    table: dict[tuple[str, str, str], dict[Disturbance, Cell]] = {}
    for cell in sorted(cells, key=_order):
        table.setdefault((cell.version, cell.framework, cell.mode), {})[cell.event] = cell
    heads = ["Hadoop", "framework", "mode", *_COLUMNS.values(), "last run"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for (version, framework, mode), by_event in table.items():
        shown = " | ".join(_shown(by_event.get(event)) for event in Disturbance)
        last = max(by_event.values(), key=lambda cell: cell.date)
        yield f"| {version} | {framework} | {mode} | {shown} | {last.commit}, {last.date} |"


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    cause = cell.cause.replace("|", "\\|")
    return f"**{cell.outcome}**" + (f": {cause}" if cause else "")


COMMAND: Final = "python -m quicksilver_lab.compatibility docs/compatibility.md"
_BEGIN: Final = f"<!-- compatibility: made by `{COMMAND}` -->\n"
_END: Final = "<!-- end of compatibility -->\n"


def with_table(page: str, cells: Iterable[Cell]) -> str:
    """Return a page with its table as it is now. Raises ValueError when it has no place for it."""
    return with_part(page, _BEGIN, "".join(f"{row}\n" for row in rows(cells)), _END)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        file.write_text(with_table(file.read_text(), load()))
