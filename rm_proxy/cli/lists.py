"""Lists for people and for pipes: columns, sorting, forms of output, and watching."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from policies.errors import close_to
from quicksilver.common.command_line.cells import aligned, printable, separated
from quicksilver.common.command_line.groups import SectionOption
from quicksilver.common.errors import QuicksilverError
from rm_proxy.cli.requests import Function, connected

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

Item = Mapping[str, Any]
Form = Literal["table", "tsv", "csv", "json"]
FORMS: Final[tuple[Form, ...]] = ("table", "tsv", "csv", "json")
OUTPUT: Final = "Output"
WATCH_S: Final = 2.0


_SHORTEST_CUT: Final = 16
"""Characters that a column which may be cut has at least."""
_GAP: Final = 2
"""Characters of the first column that tables of one line an item never cut."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list; `value` gives what is sorted by and written to files, `text` what a table shows."""

    name: str
    title: str
    value: Callable[[Item], Any]
    text: Callable[[Item], str] | None = None
    right: bool = False
    extra: bool = False
    """Whether it is shown only when `--columns` names it."""

    def cell(self, item: Item) -> str:
        """Return what a table shows."""
        value = self.text(item) if self.text is not None else self.value(item)
        return "-" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class ListCommand:
    """How one list is printed."""

    columns: Sequence[Column]
    """Those to print."""
    whole: bool
    """Whether JSON has the items as REST has them, not the columns alone."""
    sort: Column | None
    descending: bool
    limit: int | None
    form: Form
    header: bool
    watch_s: float | None
    nothing: str

    def show(self, fetch: Callable[[], Sequence[Item]]) -> None:
        """Print the items of `fetch`: once, or again and again until Ctrl-C."""
        if self.watch_s is None:
            self._print(self.selection(fetch()))
        elif sys.stdout.isatty() and self.form == "table":
            self._watch_screen(fetch, self.watch_s)
        else:
            self._watch_lines(fetch, self.watch_s)

    def selection(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items in order, `limit` at most; those without a value to sort by come last."""
        items = items if self.sort is None else in_order(items, self.sort, self.descending)
        return items if self.limit is None else items[: self.limit]

    def text(self, items: Sequence[Item], *, one_line: bool = False) -> str:
        """Return the items as lines of text, for a pipe or a file."""
        columns, header = self.columns, self.header
        if self.form == "json":
            rows = [item if self.whole else {c.name: c.value(item) for c in columns} for item in items]
            return f"{json.dumps(rows, indent=None if one_line else 2)}\n"
        if self.form != "table":
            head = [[column.name for column in columns]] if header else []
            cells = [[_plain(column.value(item)) for column in columns] for item in items]
            return separated([*head, *cells], "\t" if self.form == "tsv" else ",")
        if not items:
            return f"{self.nothing}\n" if header else ""
        cells_of = [[column.cell(item) for column in columns] for item in items]
        return aligned([c.title for c in columns], cells_of, [c.right for c in columns], header)

    def table(self, items: Sequence[Item]) -> RenderableType:
        """Return the items as a table for a terminal."""
        return rich_table(self.columns, items, self.header) if items else self.nothing

    def _print(self, items: Sequence[Item]) -> None:
        if self.form == "table" and sys.stdout.isatty():
            from rich.console import Console

            Console(highlight=False, markup=False).print(self.table(items))
        else:
            click.echo(self.text(items), nl=False)

    def _watch_lines(self, fetch: Callable[[], Sequence[Item]], every_s: float) -> None:
        """Print a block for each look, with its time where that is no data format."""
        while True:
            try:
                text = self.text(self.selection(fetch()), one_line=True)
                click.echo(text if self.form != "table" else f"{_clock()}\n{text}", nl=False)
            except QuicksilverError as error:
                click.echo(f"quicksilver: error: {error}", err=True)
            sys.stdout.flush()
            time.sleep(every_s)

    def _watch_screen(self, fetch: Callable[[], Sequence[Item]], every_s: float) -> None:
        from rich.console import Console, Group
        from rich.live import Live

        console = Console(highlight=False, markup=False)
        with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                try:
                    body = self.table(self.selection(fetch()))
                except QuicksilverError as error:
                    body = f"quicksilver: error: {error}"
                live.update(Group(f"every {every_s:g} s, {_clock()}; Ctrl-C ends", body), refresh=True)
                time.sleep(every_s)


def in_order(items: Sequence[Item], column: Column, descending: bool) -> list[Item]:
    """Return the items by a column; those without a value come last."""
    valued = [(column.value(item), item) for item in items]
    there = [pair for pair in valued if pair[0] not in (None, "")]
    there.sort(key=lambda pair: _sortable(pair[0]), reverse=descending)
    return [item for _, item in there] + [item for value, item in valued if value in (None, "")]


def print_items(columns: Sequence[Column], items: Sequence[Item]) -> None:
    """Print items as a table, with the columns that are shown when nobody names any."""
    shown = _columns(columns, None)
    ListCommand(shown, False, None, False, None, "table", True, None, "nothing").show(lambda: items)


def rich_table(columns: Sequence[Column], items: Sequence[Item], header: bool = True) -> RenderableType:
    """Return items as a table of rich that wraps cells."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=header)
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    _add_rows(table, columns, items)
    return table


def _add_rows(table: Table, columns: Sequence[Column], items: Sequence[Item]) -> None:
    from rich.text import Text

    for item in items:
        table.add_row(*(Text(printable(column.cell(item))) for column in columns))


@dataclass(frozen=True, slots=True)
class OneLineTable:
    """A table of rich whose rows have one line each: columns are left out, one by one, until the others fit."""

    columns: Sequence[Column]
    items: Sequence[Item]
    left_out: Sequence[str]
    """Names of the columns that may be left out, the first one first."""
    cut: str = ""
    """Name of the column that may be cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it in the width there is."""
        from rich.table import Table

        widths = self._widths(options.max_width)
        columns = [column for column in self.columns if column.name in widths]
        table = Table(box=None, padding=(0, _GAP, 0, 0))
        for column in columns:
            justify: Literal["right", "left"] = "right" if column.right else "left"
            table.add_column(
                column.title, justify=justify, overflow="ellipsis", no_wrap=True, width=widths[column.name]
            )
        _add_rows(table, columns, self.items)
        yield table

    def _widths(self, room: int) -> dict[str, int]:
        """Return the widths of the columns that fit, by name."""
        widths = {
            column.name: max(len(column.title), *(len(printable(column.cell(item))) for item in self.items))
            for column in self.columns
        }
        whole = widths.get(self.cut, 0)
        if self.cut:
            widths[self.cut] = min(whole, _SHORTEST_CUT)
        for name in self.left_out:
            if sum(widths.values()) + _GAP * len(widths) <= room:
                break
            widths.pop(name, None)
        if self.cut in widths:
            widths[self.cut] = min(whole, widths[self.cut] + room - sum(widths.values()) - _GAP * len(widths))
        return widths


def listed(columns: Sequence[Column], nothing: str, *, limit: int | None = None) -> Callable[[Function], Function]:
    """Add the options of a list and of the connection; the command gets them as `listing` and `url`.

    `nothing` is printed for an empty list; `limit` is the default of --limit.
    """

    def decorate(command: Function) -> Function:
        @wraps(command)
        def run(
            columns_text: str | None,
            sort_text: str | None,
            limit_rows: int | None,
            form: Form,
            as_json: bool,
            no_header: bool,
            watch_s: float | None,
            **options: Any,
        ) -> None:
            if as_json and form != "table":
                raise click.UsageError("--json and --format do not go together")
            shown = _columns(columns, columns_text)
            column, descending = _sort(columns, sort_text)
            whole = as_json and columns_text is None
            form = "json" if as_json else form
            listing = ListCommand(shown, whole, column, descending, limit_rows, form, not no_header, watch_s, nothing)
            command(listing=listing, **options)

        return _options(columns, limit)(connected(run))

    return decorate


def _options(columns: Sequence[Column], limit: int | None) -> Callable[[Function], Function]:
    names = ", ".join(column.name for column in columns)

    def add(command: Function) -> Function:
        def option(*names: str, **settings: Any) -> None:
            nonlocal command
            command = click.option(*names, cls=SectionOption, section=OUTPUT, **settings)(command)

        option(
            "--watch",
            "watch_s",
            is_flag=False,
            flag_value=WATCH_S,
            default=None,
            type=click.FloatRange(0.2, 86400),
            metavar="[SECONDS]",
            help=f"Print again every so many seconds ({WATCH_S:g}), until Ctrl-C.",
        )
        option("--no-header", is_flag=True, help="Leave the titles out.")
        option("--json", "as_json", is_flag=True, help="Print JSON: the items as REST has them.")
        option("--format", "form", type=click.Choice(FORMS), default="table", help="A table for people, or data.")
        option("--limit", "limit_rows", type=click.IntRange(1), default=limit, help="The most rows.", show_default=True)
        option("--sort", "sort_text", metavar="[-]COLUMN", help="Order by a column; `-` before it: the highest first.")
        option("--columns", "columns_text", metavar="A,B,...", help=f"Of: {names}; or `all`.")
        return command

    return add


def _columns(columns: Sequence[Column], text: str | None) -> Sequence[Column]:
    if text is None:
        return [column for column in columns if not column.extra]
    if text == "all":
        return columns
    return [_column(columns, name.strip(), "--columns") for name in text.split(",")]


def _sort(columns: Sequence[Column], text: str | None) -> tuple[Column | None, bool]:
    if text is None:
        return None, False
    return _column(columns, text.removeprefix("-"), "--sort"), text.startswith("-")


def _column(columns: Sequence[Column], name: str, option: str) -> Column:
    column = next((column for column in columns if column.name == name), None)
    if column is None:
        hint = close_to(name, [column.name for column in columns])
        raise click.BadParameter(f"no column '{name}'; {hint}", param_hint=option)
    return column


def _plain(value: object) -> object:
    """Return a value as a cell of a file has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    if isinstance(value, float):
        return round(value, 3)
    return value


def _sortable(value: Any) -> tuple[int, Any]:
    """Return a key by which values of one column can be compared: numbers before texts."""
    return (0, value) if isinstance(value, bool | int | float) else (1, str(value))


def _clock() -> str:
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
