"""The tables of a page as Markdown, with machine and commands: what goes into docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterable

from quicksilver.report.cells import shown, sort_key
from quicksilver.report.model import Page, Prose, Table, Value


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _numbers(column: Iterable[Value]) -> bool:
    kinds = {sort_key(value) is not None for value in column if value is not None}
    return kinds == {True}


def table(found: Table) -> str:
    """Return one table; a column of numbers alone stands to the right."""
    columns = zip(*found.rows, strict=True) if found.rows else ([] for _ in found.columns)
    ruler = ["---:" if _numbers(column) else "---" for column in columns]
    lines = [_row(list(found.columns)), "|" + "|".join(ruler) + "|"]
    lines += [_row([shown(value) for value in row]) for row in found.rows]
    return "\n".join(([f"{found.title}:", ""] if found.title else []) + lines)


def markdown(page: Page) -> str:
    """Return title, facts, and each section's paragraphs and tables; no plots, and no section that has only plots."""
    parts = [f"### {page.title}", "; ".join(f"{name}: {value}" for name, value in page.facts) + "."]
    for section in page.sections:
        blocks = [block for block in section.blocks if isinstance(block, (Prose, Table))]
        if blocks:
            parts.append(f"**{section.title}**")
            parts += [table(block) if isinstance(block, Table) else block.text for block in blocks]
    return "\n\n".join(part for part in parts if part != ".") + "\n"
