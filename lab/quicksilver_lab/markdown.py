"""The tables of a page as Markdown, with machine and commands: what goes into lab/docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterable

from quicksilver.report.cells import shown, sort_key
from quicksilver.report.model import Code, Page, Plot, Prose, ReportTable, Value


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _numbers(column: Iterable[Value]) -> bool:
    kinds = {sort_key(value) is not None for value in column if value is not None}
    return kinds == {True}


def table(block: ReportTable) -> str:
    """Return one table; a column of numbers alone stands to the right."""
    columns = zip(*block.rows, strict=True) if block.rows else ([] for _ in block.columns)
    ruler = ["---:" if _numbers(column) else "---" for column in columns]
    lines = [_row(list(block.columns)), "|" + "|".join(ruler) + "|"]
    lines += [_row([shown(value) for value in row]) for row in block.rows]
    return "\n".join(([f"{block.title}:", ""] if block.title else []) + lines)


def code(block: Code) -> str:
    """Return a fenced block."""
    head = f"{block.title}:\n\n" if block.title else ""
    return f"{head}```{block.language}\n{block.text}\n```"


def _text(block: Prose | ReportTable | Code) -> str:
    if isinstance(block, ReportTable):
        return table(block)
    return code(block) if isinstance(block, Code) else block.text


def markdown(page: Page) -> str:
    """Return title, facts, and each section's paragraphs, tables and code, without plots or sections of plots."""
    parts = [f"### {page.title}", "; ".join(f"{name}: {value}" for name, value in page.facts) + "."]
    for section in page.sections:
        blocks = [_text(block) for block in section.blocks if not isinstance(block, Plot)]
        if blocks:
            parts += [f"**{section.title}**", *blocks]
    return "\n\n".join(part for part in parts if part != ".") + "\n"
