"""A page as one HTML file that asks nobody for anything: style, script and plots are in it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Final

from quicksilver.report.cells import shown, sort_key
from quicksilver.report.model import Block, Page, Plot, Prose, Section, Table, Value, names_of
from quicksilver.report.svg import COLOURS, colours_of, dash_of, draw

_BORDERS: Final = ("solid", "dashed", "dotted")
_LIGHT: Final = ("#0068a8", "#c8500a", "#00835f", "#b0518b", "#7a6200", "#3a97d0", "#6f42c1", "#5c5c5c")
_DARK: Final = ("#5ab4f0", "#f58b4c", "#35c79b", "#e592c3", "#d9bd4b", "#9bd4f7", "#b79af0", "#b5b5b5")


def _variables(colours: tuple[str, ...], more: str) -> str:
    return "".join(f"--c{at}:{colour};" for at, colour in enumerate(colours)) + more


_STYLE: Final = (
    ":root{color-scheme:light dark;"
    + _variables(_LIGHT, "--page:#fff;--ink:#1c1c1e;--soft:#56565c;--grid:#d5d5da;--row:#f4f4f6}")
    + "@media(prefers-color-scheme:dark){:root{"
    + _variables(_DARK, "--page:#17181a;--ink:#ececee;--soft:#a9a9b0;--grid:#44464b;--row:#202226}}")
    + """
body{background:var(--page);color:var(--ink);font:15px/1.45 system-ui,sans-serif;padding:1rem}
body{max-width:1440px;margin:0 auto}
h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.2rem;border-bottom:1px solid var(--grid);margin:2rem 0 .6rem}
p{max-width:60rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}
dl{color:var(--soft);font-size:.85rem}
dd{margin:0;overflow-wrap:anywhere}code{font-size:.92em}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,34rem),1fr));gap:1rem}
figure{margin:0}figcaption{font-weight:600}figure svg{width:100%;height:auto;max-width:46rem}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem .9rem;margin:.2rem 0;padding:0;font-size:.82rem}
.legend i{display:inline-block;width:1.4em;border-top:3px solid;margin-right:.35em;vertical-align:middle}
.table{overflow-x:auto;margin:.6rem 0}table{border-collapse:collapse;font-size:.88rem}
caption{text-align:left;font-weight:600}td,th{padding:.2rem .6rem;text-align:left;white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}tbody tr:nth-child(even){background:var(--row)}
th button{all:unset;cursor:pointer;font-weight:600}th button:focus-visible{outline:2px solid currentColor}
th[aria-sort=ascending] button::after{content:" \\25b2"}th[aria-sort=descending] button::after{content:" \\25bc"}
"""
)

_SCRIPT: Final = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.parentElement, at = head.cellIndex, body = head.closest("table").tBodies[0];
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const gone = row => row.cells[at].hasAttribute("data-none");
  const compare = (one, other) => {
    const a = one.cells[at], b = other.cells[at];
    if (a.dataset.v !== undefined && b.dataset.v !== undefined) return a.dataset.v - b.dataset.v;
    return a.textContent.localeCompare(b.textContent, undefined, {numeric: true});
  };
  const rows = [...body.rows].sort((a, b) => gone(a) - gone(b) || (down ? compare(b, a) : compare(a, b)));
  body.append(...rows);
});
"""


def _policy() -> str:
    """Return the content security policy: no request at all, and no script but the page's own."""
    script = b64encode(sha256(_SCRIPT.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; img-src data:"


def _text(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _cell(value: Value) -> str:
    key = sort_key(value)
    if key is not None:
        return f'<td class="n" data-v="{key!r}">{escape(shown(value))}</td>'
    return f"<td{' data-none' if value is None else ''}>{_text(shown(value))}</td>"


def _head(column: str, values: Sequence[Value]) -> str:
    kind = ' class="n"' if any(sort_key(value) is not None for value in values) else ""
    return f'<th{kind} scope="col"><button>{_text(column)}</button></th>'


def _table(table: Table) -> str:
    caption = f"<caption>{_text(table.title)}</caption>" if table.title else ""
    heads = "".join(_head(column, [row[at] for row in table.rows]) for at, column in enumerate(table.columns))
    rows = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in table.rows)
    return f'<div class="table"><table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _swatch(index: int) -> str:
    return f'<i style="color:var(--c{index % COLOURS});border-top-style:{_BORDERS[dash_of(index)]}"></i>'


def _figure(plot: Plot, colours: Mapping[str, int], prefix: str) -> str:
    names = names_of(plot)
    entries = "".join(f"<li>{_swatch(colours[name])}{escape(name)}</li>" for name in names)
    legend = f'<ul class="legend">{entries}</ul>' if entries else ""
    picture = draw(plot, colours, prefix).replace("<svg", f'<svg role="img" aria-label="{escape(plot.title)}"', 1)
    return f"<figure><figcaption>{escape(plot.title)}</figcaption>{legend}{picture}</figure>"


def _section(section: Section, number: int, colours: Mapping[str, int]) -> str:
    """Return a section; plots that follow each other stand side by side where there is room."""
    parts: list[str] = [f"<h2>{escape(section.title)}</h2>"]
    figures: list[str] = []

    def lay_out() -> None:
        if figures:
            parts.append(f'<div class="plots">{"".join(figures)}</div>')
            figures.clear()

    for at, block in enumerate(section.blocks):
        if isinstance(block, (Prose, Table)):
            lay_out()
            parts.append(_plain(block))
        else:
            figures.append(_figure(block, colours, f"s{number}b{at}"))
    lay_out()
    return f"<section>{''.join(parts)}</section>\n"


def _plain(block: Block) -> str:
    if isinstance(block, Table):
        return _table(block)
    assert isinstance(block, Prose)
    return f"<p>{_text(block.text)}</p>"


def html(page: Page) -> str:
    """Return the page."""
    colours = colours_of(page.plots())
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{_text(value)}</dd>" for name, value in page.facts)
    sections = "".join(_section(section, at, colours) for at, section in enumerate(page.sections))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(page.title)}</title><link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{escape(page.title)}</h1><dl>{facts}</dl>\n{sections}<script>{_SCRIPT}</script></body></html>\n"
    )
