"""Cells of tables: plain text for pipes, terminals and spreadsheets."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def printable(text: str) -> str:
    """Return the text with `?` for what a terminal would obey; names of applications are chosen by their users."""
    return "".join(char if char.isprintable() else " " if char in "\t\n\r" else "?" for char in text)


def aligned(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], header: bool = True) -> str:
    """Return a table whose lines are never wrapped, two spaces between columns, "" for no line at all.

    `right`: shape (columns,), whether a column is aligned to the right.
    """
    lines = [tuple(titles), *rows] if header else list(rows)
    cells = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    pads = [str.rjust if at_right else str.ljust for at_right in right]
    joined = (
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, line, widths, strict=True)) for line in cells
    )
    return "".join(f"{line.rstrip()}\n" for line in joined)


def separated(rows: Iterable[Sequence[object]], separator: str) -> str:
    """Return rows as CSV, or with tabs; None is an empty cell.

    With tabs a cell is one line without tabs. In CSV a text that a spreadsheet would take for a formula begins with an
    apostrophe.
    """
    if separator == "\t":
        return "".join("\t".join(printable(_text(cell)) for cell in row) + "\n" for row in rows)
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([_guarded(cell) for cell in row] for row in rows)
    return out.getvalue()


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)


def _guarded(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
