"""Any result as tables: what no reader of its own is needed for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from quicksilver.report.cells import shown
from quicksilver.report.model import Block, Estimate, Page, Section, Table, Value

_APART: Final = ("raw", "machine", "commit", "argv", "settings", "benchmark", "policies")
_KINDS: Final = (
    ("value", "ci_low", "ci_high"),
    ("ratio", "ci_low", "ci_high"),
    ("effect", "ci_low", "ci_high"),
    ("median", "min", "max"),
)
_MACHINE: Final = (
    ("cpu", "{}"),
    ("cores", "{} cores"),
    ("memory_mb", "{:,} MB"),
    ("kernel", "kernel {}"),
    ("python", "Python {}"),
    ("load_at_start", "load {} at the start"),
)


def value_of(found: Any) -> Value:
    """Return a figure of a result as a cell: {"value", "ci_low", "ci_high"} and its like as an estimate, else text."""
    if not isinstance(found, Mapping):
        return found if found is None or isinstance(found, (str, int, float)) else ", ".join(map(str, found)) or "none"
    for middle, low, high in _KINDS:
        if {middle, low, high} <= found.keys() and found[middle] is not None:
            return Estimate(found[middle], min(found[low], found[middle]), max(found[high], found[middle]))
        if middle in found and low not in found:
            return value_of(found[middle])
    return ", ".join(f"{name} {shown(value_of(one))}" for name, one in found.items()) or "none"


def is_figure(found: Any) -> bool:
    """Return whether `value_of` has a cell for it, other than by writing out what is in it."""
    if isinstance(found, Mapping):
        return any(middle in found for middle, _, _ in _KINDS)
    return not is_rows(found)


def is_rows(found: Any) -> bool:
    """Return whether it is a list of mappings."""
    return isinstance(found, list) and bool(found) and all(isinstance(one, Mapping) for one in found)


def facts(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return machine, commit, command and settings of a result, as far as it has them."""
    machine, settings = result.get("machine", {}), result.get("settings", {})
    about = {
        "machine": ", ".join(form.format(machine[name]) for name, form in _MACHINE if machine.get(name) is not None),
        "commit": f"`{result['commit']}`" if result.get("commit") else "",
        "command": f"`{command(result['argv'])}`" if result.get("argv") else "",
        "settings": ", ".join(f"{name} {shown(value_of(one))}" for name, one in settings.items() if _short(one)),
    }
    return [(name, value) for name, value in about.items() if value]


def _short(found: Any) -> bool:
    """Return whether a setting is one word, or a list of such."""
    return all(isinstance(one, (str, int, float)) for one in (found if isinstance(found, list) else [found]))


def command(argv: Sequence[str]) -> str:
    """Return a command line without the checkout's place: ".../lab/quicksilver_lab/bench/relay.py" is "python -m
    quicksilver_lab.bench.relay".
    """
    program = PurePosixPath(argv[0])
    if program.suffix == ".py":
        parts = [*program.parent.parts, *([] if program.stem == "__main__" else [program.stem])]
        module = ".".join(parts[parts.index("quicksilver_lab") if "quicksilver_lab" in parts else -1 :])
        return " ".join(["python -m", module, *argv[1:]])
    return " ".join([program.name, *argv[1:]])


def rows_of(found: Sequence[Mapping[str, Any]], title: str = "") -> Table:
    """Return mappings as rows; what is not a figure of all of them is left out."""
    names = dict.fromkeys(name for one in found for name in one)
    columns = [name for name in names if all(is_figure(one.get(name)) for one in found)]
    return Table(columns, [[value_of(one.get(column)) for column in columns] for one in found], title)


def blocks(found: Mapping[str, Any], title: str = "") -> list[Block]:
    """Return tables of a mapping: its figures, then a table for each mapping in it; mappings alike are rows of one."""
    figures = [(name, value_of(one)) for name, one in found.items() if is_figure(one)]
    deeper = {name: one for name, one in found.items() if not is_figure(one) and one}
    result: list[Block] = [Table(["key", "value"], figures, title)] if figures else []
    mappings = [one for one in deeper.values() if isinstance(one, Mapping)]
    if len(mappings) == len(deeper) > 1 and all(is_figure(cell) for one in mappings for cell in one.values()):
        return [*result, rows_of([{"": name, **one} for name, one in deeper.items()], title)]
    for name, one in deeper.items():
        below = f"{title}.{name}" if title else name
        result += [rows_of(one, below)] if is_rows(one) else blocks(one, below)
    return result


def read(result: Mapping[str, Any]) -> Page:
    """Return a page of tables."""
    shown = {name: one for name, one in result.items() if name not in _APART}
    return Page(f"bench-{result.get('benchmark', '')}", facts(result), [Section("Figures", blocks(shown))])
