"""A page as one HTML file that needs nothing else: style, script and plots are inside.

The markup is in `assets/page.html.j2`, beside the style sheet and the script that sorts tables.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from quicksilver.report.cells import shown, sort_key
from quicksilver.report.model import Block, Page, Plot, Prose, Section, Table, names_of
from quicksilver.report.svg import COLOURS, colours_of, dash_of, draw

_ASSETS: Final = "assets"
_BORDERS: Final = ("solid", "dashed", "dotted")


@dataclass(frozen=True, slots=True)
class _Figure:
    title: str
    legend: list[tuple[str, int]]
    """Names with the numbers of their colours."""
    picture: Markup


def _code(text: str) -> Markup:
    """Return text as markup; what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _asset(name: str) -> Markup:
    return Markup((files(__package__) / _ASSETS / name).read_text(encoding="utf-8"))


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader(str(__package__), _ASSETS), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {"code": _code, "dash": dash_of, "shown": shown, "sort_key": sort_key}
    environment.tests |= {"plots": lambda block: isinstance(block, list), "table": lambda b: isinstance(b, Table)}
    return environment.get_template("page.html.j2")


def _figure(plot: Plot, colours: Mapping[str, int], prefix: str) -> _Figure:
    label = f'<svg role="img" aria-label="{escape(plot.title)}"'
    picture = draw(plot, colours, prefix).replace("<svg", label, 1)
    return _Figure(plot.title, [(name, colours[name]) for name in names_of(plot)], Markup(picture))


def _blocks(section: Section, number: int, colours: Mapping[str, int]) -> list[Prose | Table | list[_Figure]]:
    """Return a section's blocks; plots that follow each other are one list, side by side where there is room."""

    def is_plot(numbered: tuple[int, Block]) -> bool:
        return isinstance(numbered[1], Plot)

    found: list[Prose | Table | list[_Figure]] = []
    for _, group in groupby(enumerate(section.blocks), is_plot):
        figures: list[_Figure] = []
        for at, block in group:
            if isinstance(block, (Prose, Table)):
                found.append(block)
            else:
                figures.append(_figure(block, colours, f"s{number}b{at}"))
        found += [figures] if figures else []
    return found


def html(page: Page) -> str:
    """Return the page."""
    colours = colours_of(page.plots())
    script = _asset("sort.js")
    return _template().render(
        page=page,
        sections=[(section.title, _blocks(section, at, colours)) for at, section in enumerate(page.sections)],
        style=_asset("style.css"),
        script=script,
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        colours=COLOURS,
        borders=_BORDERS,
    )
