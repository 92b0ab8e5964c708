"""The frame of `quicksilver top` and its keys, without any IO: a picture of the cluster and a state to a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from rm_proxy.cli.columns import APPLICATIONS, NODES, QUEUES
from rm_proxy.cli.lists import Column, Item, OneLineTable, in_order
from rm_proxy.cli.words import amount, precise

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the screen; the first sort is the default."""

    items: str
    """Its key in a picture."""
    title: str
    columns: Sequence[Column]
    sorts: Sequence[str]
    left_out: Sequence[str] = ()
    """Columns that a narrow terminal does without, the first one first."""
    cut: str = ""
    """The column that is cut before any is left out."""


def _some(columns: Sequence[Column], names: str) -> tuple[Column, ...]:
    return tuple(next(column for column in columns if column.name == name) for name in names.split())


TABLES: Final = (
    Table(
        "applications",
        "applications",
        _some(APPLICATIONS, "id name type user queue mode live_g live_q wanted_g wanted_q elapsed_s"),
        ("-wanted_q", "-live_q", "-live_g", "-elapsed_s", "user", "queue", "id"),
        ("mode", "elapsed_s", "type", "user", "live_g", "wanted_g", "queue", "name"),
        "name",
    ),
    Table(
        "nodes",
        "nodes",
        _some(NODES, "id usable capacity used_g used_q container_count shrunk queue_length queued_s remark"),
        ("-queued_s", "-queue_length", "-used_q", "-used_g", "-shrunk", "usable", "id"),
        ("capacity", "container_count", "queued_s", "usable", "shrunk", "remark", "used_g"),
        "remark",
    ),
    Table(
        "queues",
        "queues",
        _some(QUEUES, "name queueable max_capacity used_g used_q left_q"),
        ("-used_q", "-used_g", "left_q", "name"),
        ("queueable", "left_q", "max_capacity"),
    ),
)
KEYS: Final = (
    ("o", "overview"),
    ("a, n, u", "applications, nodes or queues alone"),
    ("tab", "the next table"),
    ("s, S", "sort by the next column, the one before"),
    ("r", "reverse the order"),
    ("j, k, down, up", "scroll"),
    ("g", "to the first row"),
    ("space", "pause"),
    ("+, -", "look more often, less often"),
    ("?, h", "this list"),
    ("q", "quit"),
)
_FEWEST_ROWS: Final = 3
_HEAD_ROWS: Final = 6
_MOST_QUEUES: Final = 6
_INTERVALS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class TopState:
    """What the viewer chose."""

    focus: int = 0
    """Number of the table in TABLES that keys concern."""
    alone: bool = False
    """Whether the table has the whole screen."""
    sorts: Mapping[str, int] = field(default_factory=dict)
    """By table: the number of the sort."""
    reversed: frozenset[str] = frozenset()
    offset: int = 0
    paused: bool = False
    help: bool = False
    every_s: float = 2.0
    over: bool = False


def pressed(state: TopState, key: str) -> TopState:
    """Return the state after a key: a character, or `up`, `down`, `tab`. An unknown one changes nothing."""
    table = TABLES[state.focus]
    steps = {"s": 1, "S": -1}
    if key in ("q", "\x03"):
        return replace(state, over=True)
    if key in ("?", "h"):
        return replace(state, help=not state.help)
    if key in ("a", "n", "u"):
        return replace(state, focus="anu".index(key), alone=True, offset=0, help=False)
    if key == "o":
        return replace(state, alone=False, offset=0, help=False)
    if key == "tab":
        return replace(state, focus=(state.focus + 1) % len(TABLES), offset=0)
    if key in steps:
        index = (state.sorts.get(table.items, 0) + steps[key]) % len(table.sorts)
        return replace(state, sorts={**state.sorts, table.items: index}, offset=0)
    if key == "r":
        return replace(state, reversed=state.reversed ^ {table.items})
    if key in ("j", "down", "k", "up", "g"):
        offset = 0 if key == "g" else state.offset + (1 if key in ("j", "down") else -1)
        return replace(state, offset=max(0, offset))
    if key == " ":
        return replace(state, paused=not state.paused)
    if key in ("+", "-"):
        return replace(state, every_s=_interval(state.every_s, faster=key == "+"))
    return state


def _interval(now_s: float, *, faster: bool) -> float:
    candidates = [each for each in _INTERVALS_S if (each < now_s if faster else each > now_s)]
    return (candidates[-1] if faster else candidates[0]) if candidates else now_s


def sorted_by(state: TopState, table: Table) -> str:
    """Return the column of a table's order, with `-` for the highest first."""
    text = table.sorts[state.sorts.get(table.items, 0)]
    if table.items in state.reversed:
        return text.removeprefix("-") if text.startswith("-") else f"-{text}"
    return text


def rows(picture: Mapping[str, Any], state: TopState, table: Table) -> Sequence[Item]:
    """Return a table's items in its order."""
    text = sorted_by(state, table)
    column = next(column for column in table.columns if column.name == text.removeprefix("-"))
    return in_order(picture[table.items], column, text.startswith("-"))


def frame(picture: Mapping[str, Any], state: TopState, height: int, note: str = "") -> RenderableType:
    """Return the screen of `height` rows; `note` is an error of the last look, "" for none."""
    from rich.console import Group
    from rich.text import Text

    if state.help:
        return Group(*(Text(f"  {key:<16}{effect}") for key, effect in KEYS))
    head = [*_head(picture, state), *([Text(note, style="bold red")] if note else [])]
    room = height - len(head) - 1
    if state.alone:
        return Group(*head, *_shown(picture, state, TABLES[state.focus], room - 2))
    parts: list[RenderableType] = []
    for table, share in zip(TABLES, _shares(picture, room), strict=True):
        parts += _shown(picture, state, table, share)
    return Group(*head, *parts)


def _shares(picture: Mapping[str, Any], height: int) -> list[int]:
    """Return how many rows each table of the overview has, all with two rows of titles beside them."""
    room = max(_FEWEST_ROWS * len(TABLES), height - 2 * len(TABLES))
    queues = min(_MOST_QUEUES, len(picture["queues"]), max(1, room // 4))
    rest = room - queues
    applications = min(len(picture["applications"]), max(rest // 2, rest - len(picture["nodes"])))
    return [max(1, applications), max(1, rest - max(1, applications)), max(1, queues)]


def _shown(picture: Mapping[str, Any], state: TopState, table: Table, most: int) -> list[RenderableType]:
    """Return a table's title and its rows, `most` of them."""
    from rich.text import Text

    items = rows(picture, state, table)
    focused = TABLES[state.focus] is table
    offset = min(state.offset, max(0, len(items) - most)) if focused else 0
    part = items[offset : offset + max(1, most)]
    beyond = f", {offset + 1} to {offset + len(part)}" if len(part) < len(items) else ""
    title = f"{table.title}: {len(items)}{beyond}, by {sorted_by(state, table)}"
    shown: list[RenderableType] = [Text(title, style="bold reverse" if focused else "bold")]
    return [*shown, OneLineTable(table.columns, part, table.left_out, table.cut)] if part else shown


def _head(picture: Mapping[str, Any], state: TopState) -> list[Text]:
    from rich.text import Text

    health, totals = picture["health"], picture["totals"]
    ok = health["status"] == "ok"
    first = Text.assemble(
        "quicksilver ",
        (health["status"], "bold green" if ok else "bold red"),
        f"  mode {health['mode']}  settings {health['settings_version']}  {picture['at']}",
        f"  every {state.every_s:g} s",
        ("  PAUSED" if state.paused else "", "bold yellow"),
        "  ? for keys",
    )
    size, used_g, used_q = totals["capacity"], totals["used_g"], totals["used_q"]
    lines = [
        first,
        Text(
            f"nodes {health['nodes_usable']} of {health['nodes']} usable, {amount(size)}; "
            f"applications {totals['applications']}; containers that run: G {totals['count_g']}, Q {totals['count_q']} "
            f"({totals['shrunk']} shrunk); queued at nodes {totals['waiting']}"
        ),
        Text.assemble("memory ", *_bar(used_g["memory_mb"], used_q["memory_mb"], size["memory_mb"], " MB")),
        Text.assemble("cores  ", *_bar(used_g["vcores"], used_q["vcores"], size["vcores"], "")),
        Text(
            f"pending G {totals['wanted_g']}, Q {totals['wanted_q']}; "
            f"allocation delay in the last {picture['last_s']:g} s: "
            f"{_delay('G', picture['summary']['allocation_g'])}; {_delay('Q', picture['summary']['allocation_q'])}"
        ),
    ]
    lines += [Text(f"problem: {problem}", style="red") for problem in health["problems"][:2]]
    if health["notices"]:
        more = len(health["notices"]) - 1
        lines.append(Text(f"notice: {health['notices'][0]}{f' (and {more} more)' if more else ''}", style="yellow"))
    return lines


def _delay(kind: str, delays: Mapping[str, Any]) -> str:
    """Return the delay of a kind in words; containers that still wait count with their waits so far."""
    if not delays["count"]:
        return f"{kind} none"
    text = f"{kind} p50 {precise(delays['p50_s'])} s, p95 {precise(delays['p95_s'])} s"
    return f"{text} ({delays['waiting']} still wait)" if delays["waiting"] else text


def _bar(used_g: float, used_q: float, size: float, unit: str, width: int = 40) -> list[str | tuple[str, str]]:
    """Return a bar of what guaranteed (#) and queueable containers (=) use, with its figures."""
    scale = width / size if size else 0.0
    part_g = min(width, round(used_g * scale))
    part_q = min(width - part_g, round(used_q * scale))
    free = "." * (width - part_g - part_q)
    figures = f"  G {used_g:g}, Q {used_q:g} of {size:g}{unit}"
    return ["[", ("#" * part_g, "blue"), ("=" * part_q, "green"), (free, "dim"), "]", figures]
