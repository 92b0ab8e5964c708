"""`quicksilver top`: the cluster, its nodes, queues and applications, live in a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import click

from quicksilver.common.command_line.groups import Command
from quicksilver.common.errors import QuicksilverError
from rm_proxy.cli.requests import get, pages, reading
from rm_proxy.cli.top_view import TABLES, TopState, frame, pressed

_LAST_S: Final = 300.0
"""The delays in the head are of this time."""
_KEYS: Final = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down", b"\t": "tab"}
_VIEWS: Final = ("overview", *(table.items for table in TABLES))


@click.command(cls=Command)
@click.option("--every", "every_s", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True, metavar="SECONDS")
@click.option("--view", type=click.Choice(_VIEWS), default="overview", show_default=True, help="What to begin with.")
@click.option("--sort", "sort_text", metavar="[-]COLUMN", help="Order of the table that --view names.")
@click.option("--once", is_flag=True, help="Print one picture and end; so it is without a terminal.")
@reading
def top(every_s: float, view: str, sort_text: str | None, once: bool, url: str, as_json: bool) -> None:
    """Watch the cluster: use by guaranteed (G) and queueable (Q) containers, what waits, by application and node.

    Keys: o overview; a, n, u applications, nodes or queues alone; s sort; r reverse; j, k scroll; space pause; + and -
    interval; ? help; q quit.
    """
    state = _state(view, sort_text, every_s)
    if as_json:
        click.echo(json.dumps(look(url), indent=2))
    elif once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print_once(look(url), state)
    else:
        _live(url, state)


def look(url: str) -> dict[str, Any]:
    """Return a picture of the cluster: the answers of REST, and sums of them."""
    nodes, applications = pages(url, "/v1/nodes"), pages(url, "/v1/applications")
    sums = {name: _total(node[name] for node in nodes) for name in ("capacity", "used_g", "used_q")}
    counts = {name: sum(app[name] for app in applications) for name in ("live_g", "live_q", "wanted_g", "wanted_q")}
    at_nodes = {"waiting": "queue_length", "shrunk": "shrunk", "count_g": "count_g", "count_q": "count_q"}
    return {
        "at": datetime.now().astimezone().strftime("%H:%M:%S"),
        "last_s": _LAST_S,
        "health": get(url, "/v1/health"),
        "summary": get(url, "/v1/summary", {"last_s": _LAST_S}),
        "totals": {
            "applications": len(applications),
            **sums,
            **counts,
            **{name: sum(node[key] for node in nodes) for name, key in at_nodes.items()},
        },
        "nodes": nodes,
        "queues": pages(url, "/v1/queues"),
        "applications": applications,
    }


def _total(parts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    memory_mb, vcores = 0, 0.0
    for part in parts:
        memory_mb, vcores = memory_mb + part["memory_mb"], vcores + part["vcores"]
    return {"memory_mb": memory_mb, "vcores": vcores}


def _state(view: str, sort_text: str | None, every_s: float) -> TopState:
    """Return the state to begin with. Raises BadParameter for an order that the table does not have."""
    state = TopState(every_s=every_s)
    if view != "overview":
        state = replace(state, focus=_VIEWS.index(view) - 1, alone=True)
    if sort_text is None:
        return state
    table = TABLES[state.focus]
    known = [sort.removeprefix("-") for sort in table.sorts]
    name = sort_text.removeprefix("-")
    if name not in known:
        raise click.BadParameter(
            f"{table.title} cannot be ordered by '{name}'; known: {', '.join(known)}", param_hint="--sort"
        )
    number = known.index(name)
    turned = {table.items} if table.sorts[number] != sort_text else set()
    return replace(state, sorts={table.items: number}, reversed=frozenset(turned))


def _print_once(picture: Mapping[str, Any], state: TopState) -> None:
    """Print the whole picture: rows are neither left out nor wrapped."""
    from rich.console import Console

    rows = sum(len(picture[table.items]) for table in TABLES) * len(TABLES) + 100
    width = None if sys.stdout.isatty() else 400
    Console(highlight=False, markup=False, width=width).print(frame(picture, state, rows))


def _live(url: str, state: TopState) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, markup=False)
    picture, note = look(url), ""
    next_s = time.monotonic() + state.every_s
    with _keys_at_once(), Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while not state.over:
            live.update(frame(picture, state, console.size.height, note), refresh=True)
            for key in _pressed_within(max(0.0, next_s - time.monotonic())):
                state = pressed(state, key)
            if time.monotonic() >= next_s:
                if not state.paused:
                    try:
                        picture, note = look(url), ""
                    except QuicksilverError as error:
                        note = f"quicksilver: error: {error}"
                next_s = time.monotonic() + state.every_s


def _pressed_within(wait_s: float) -> list[str]:
    """Return the keys that were pressed, as soon as there is one; none after `wait_s`."""
    try:
        if not select.select([sys.stdin], [], [], wait_s)[0]:
            return []
        return keys(os.read(sys.stdin.fileno(), 64)) or ["q"]  # nothing to read: the terminal is gone
    except KeyboardInterrupt:
        return ["q"]


def keys(typed: bytes) -> list[str]:
    """Return the keys in the bytes that a terminal sent; unknown sequences are left out."""
    names = []
    while typed:
        code = next((code for code in _KEYS if typed.startswith(code)), None)
        if code is not None:
            names.append(_KEYS[code])
        elif typed.startswith(b"\x1b"):
            break
        else:
            code = typed[:1]
            names.append(code.decode("latin-1"))
        typed = typed[len(code) :]
    return names


@contextlib.contextmanager
def _keys_at_once() -> Iterator[None]:
    """Have the terminal send each key at once and unprinted; afterwards it is as before."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
