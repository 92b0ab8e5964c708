"""The demo's table and closing lines in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from quicksilver_lab.demo.figures import figures
from quicksilver_lab.demo.page import rows
from quicksilver_lab.demo.timeline import WayRun


def show(console: Console, plain: WayRun, through: WayRun, tasks: int) -> None:
    """Print both ways side by side, and what confirms them."""
    short = len(plain.jobs) - 1
    table = Table(title=f"{short} short jobs beside a long one that holds the cluster", title_justify="left")
    for heading in ("", "plain YARN", "quicksilver", "ratio", "goal"):
        table.add_column(heading, justify="left" if heading in ("", "goal") else "right")
    for row in rows(figures(plain), figures(through)):
        table.add_row(*map(str, row))
    console.print(table)
    console.print(f"results: all {tasks} tasks of each way did their whole work, equal in both ways")


def links(console: Console, page: Path, others: Sequence[Path]) -> None:
    """Print where the page is, as one link, and the other files."""
    console.print(f"[dim]figures: {', '.join(map(str, others))}[/dim]")
    console.print(f"picture of who had the slots: {page.absolute().as_uri()}", soft_wrap=True)
