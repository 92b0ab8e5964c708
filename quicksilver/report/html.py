"""A page as one HTML file that needs nothing else: style, scripts and the plots' data are inside.

The markup is in `assets/page.html.j2`, beside the style sheet, the scripts that sort tables and draw lines, and uPlot.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from quicksilver.report.cells import shown, sort_key
from quicksilver.report.charts import COLOURS, Chart, chart, colours_of, dash_of
from quicksilver.report.model import Block, Code, Lines, Page, Plot, Prose, ReportSection, ReportTable

_ASSETS: Final = "assets"
_BORDERS: Final = ("solid", "dashed", "dotted")
_SORTS: Final = ("sort.js",)
_DRAWS: Final = ("uPlot.iife.min.js", "lines.js")
_UPLOT: Final = files("quicksilver.common.http") / "uplot"


def _code(text: str) -> Markup:
    """Return text as markup; what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def _asset(name: str) -> Markup:
    folder = _UPLOT if name.startswith("uPlot") else files(__package__) / _ASSETS
    return Markup((folder / name).read_text(encoding="utf-8").strip())


def _hash(script: str) -> str:
    return b64encode(sha256(script.encode()).digest()).decode()


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader(str(__package__), _ASSETS), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {"code": _code, "dash": dash_of, "shown": shown, "sort_key": sort_key}
    environment.tests |= {
        "plots": lambda block: isinstance(block, list),
        "table": lambda block: isinstance(block, ReportTable),
        "listing": lambda block: isinstance(block, Code),
    }
    return environment.get_template("page.html.j2")


def _blocks(section: ReportSection, colours: Mapping[str, int]) -> list[Prose | ReportTable | Code | list[Chart]]:
    """Return a section's blocks; plots that follow each other are one list, side by side where there is room."""
    blocks: list[Prose | ReportTable | Code | list[Chart]] = []

    def is_plot(block: Block) -> bool:
        return isinstance(block, Plot)

    for _, group in groupby(section.blocks, is_plot):
        charts: list[Chart] = []
        for block in group:
            if isinstance(block, (Prose, ReportTable, Code)):
                blocks.append(block)
            else:
                charts.append(chart(block, colours))
        blocks += [charts] if charts else []
    return blocks


def html(page: Page) -> str:
    """Return the page."""
    plots = page.plots()
    colours = colours_of(plots)
    draws = _DRAWS if any(isinstance(plot, Lines) for plot in plots) else ()
    scripts = [_asset(name) for name in (*_SORTS, *draws)]
    return _template().render(
        page=page,
        sections=[(section.title, _blocks(section, colours)) for section in page.sections],
        styles=[_asset(name) for name in ("uPlot.min.css", "style.css")],
        scripts=scripts,
        allowed=" ".join(f"'sha256-{_hash(script)}'" for script in scripts),
        colours=COLOURS,
        borders=_BORDERS,
    )
