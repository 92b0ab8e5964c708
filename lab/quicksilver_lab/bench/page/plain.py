"""Any result as tables: what no reader of its own is needed for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from quicksilver.report.cells import shown
from quicksilver.report.model import Block, Page, ReportEstimate, ReportSection, ReportTable, Value

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


def value_of(value: Any) -> Value:
    """Return a figure of a result as a cell: {"value", "ci_low", "ci_high"} and its like as an estimate, else text."""
    if not isinstance(value, Mapping):
        return value if value is None or isinstance(value, (str, int, float)) else ", ".join(map(str, value)) or "none"
    for middle, low, high in _KINDS:
        if {middle, low, high} <= value.keys() and value[middle] is not None:
            return ReportEstimate(value[middle], min(value[low], value[middle]), max(value[high], value[middle]))
        if middle in value and low not in value:
            return value_of(value[middle])
    return ", ".join(f"{name} {shown(value_of(part))}" for name, part in value.items()) or "none"


def is_figure(value: Any) -> bool:
    """Return whether `value_of` has a cell for it, other than by writing out what is in it."""
    if isinstance(value, Mapping):
        return any(middle in value for middle, _, _ in _KINDS)
    return not is_rows(value)


def is_rows(value: Any) -> bool:
    """Return whether it is a list of mappings."""
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def facts(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return machine, commit, command and settings of a result, as far as it has them."""
    machine, settings = result.get("machine", {}), result.get("settings", {})
    about = {
        "machine": ", ".join(form.format(machine[name]) for name, form in _MACHINE if machine.get(name) is not None),
        "commit": f"`{result['commit']}`" if result.get("commit") else "",
        "command": f"`{command(result['argv'])}`" if result.get("argv") else "",
        "settings": ", ".join(
            f"{name} {shown(value_of(setting))}" for name, setting in settings.items() if _short(setting)
        ),
    }
    return [(name, value) for name, value in about.items() if value]


def _short(setting: Any) -> bool:
    """Return whether a setting is one word, or a list of such."""
    return all(isinstance(part, (str, int, float)) for part in (setting if isinstance(setting, list) else [setting]))


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


def rows_of(mappings: Sequence[Mapping[str, Any]], title: str = "") -> ReportTable:
    """Return mappings as rows; what is not a figure of all of them is left out."""
    names = dict.fromkeys(name for row in mappings for name in row)
    columns = [name for name in names if all(is_figure(row.get(name)) for row in mappings)]
    return ReportTable(columns, [[value_of(row.get(column)) for column in columns] for row in mappings], title)


def blocks(mapping: Mapping[str, Any], title: str = "") -> list[Block]:
    """Return tables of a mapping: its figures, then a table for each mapping in it; mappings alike are rows of one."""
    figures = [(name, value_of(value)) for name, value in mapping.items() if is_figure(value)]
    deeper = {name: value for name, value in mapping.items() if not is_figure(value) and value}
    result: list[Block] = [ReportTable(["key", "value"], figures, title)] if figures else []
    mappings = [value for value in deeper.values() if isinstance(value, Mapping)]
    if len(mappings) == len(deeper) > 1 and all(is_figure(cell) for row in mappings for cell in row.values()):
        return [*result, rows_of([{"": name, **row} for name, row in deeper.items()], title)]
    for name, value in deeper.items():
        below = f"{title}.{name}" if title else name
        result += [rows_of(value, below)] if is_rows(value) else blocks(value, below)
    return result


def read(result: Mapping[str, Any]) -> Page:
    """Return a page of tables."""
    shown = {name: value for name, value in result.items() if name not in _APART}
    return Page(f"bench-{result.get('benchmark', '')}", facts(result), [ReportSection("Figures", blocks(shown))])
