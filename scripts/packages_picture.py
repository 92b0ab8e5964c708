"""lab/docs/img/packages.svg: packages as boxes, imports as lines downwards, made of the code.

A box is a folder below a top-level package; the modules beside such folders are the box with the package's name, and
all folders of policies' slots are one. A line is an import that no way through other boxes implies (transitive
reduction). Boxes that import each other are one.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import Final

import grimp
import networkx as nx

ROOT: Final = Path(__file__).parents[1]
PICTURE: Final = ROOT / "lab" / "docs" / "img" / "packages.svg"
TOPS: Final = {
    "hadoop_rpc": "#8d6e63",
    "policies": "#7cb342",
    "rm_proxy": "#00897b",
    "sidecar": "#3949ab",
    "quicksilver": "#f9a825",
    "quicksilver_apps": "#8e24aa",
    "quicksilver_lab": "#e53935",
}
"""Top-level packages, with the colours of their boxes."""
_NO_SLOTS: Final = ("policies.config", "policies.decisions", "policies.common")
_WIDTH, _LINE, _GAP, _ROW = 156, 14, 12, 80


def _height(name: str) -> int:
    return 10 + _LINE * len(name.split(" + "))


def box_of(module: str, has_modules: bool) -> str:
    """Return the box of a module, or of a folder with modules: the folder below the top-level package."""
    parts = module.split(".")
    if len(parts) < (2 if has_modules else 3) or parts[0] == "hadoop_rpc":
        return parts[0]
    folder = ".".join(parts[:2])
    return "policies.SLOT" if parts[0] == "policies" and folder not in _NO_SLOTS else folder


def top_of(name: str) -> str:
    """Return the top-level package of a box."""
    return name.split(" ")[0].split(".")[0]


def boxes() -> nx.DiGraph:
    """Return the graph of boxes: what imports what, without loops."""
    code = grimp.build_graph(*TOPS, include_external_packages=False)
    graph = nx.DiGraph()
    box = {module: box_of(module, bool(code.find_children(module))) for module in code.modules}
    for importer in code.modules:
        for imported in code.find_modules_directly_imported_by(importer):
            if box[importer] != box[imported]:
                graph.add_edge(box[importer], box[imported])
    whole = nx.condensation(graph)
    names = {node: " + ".join(sorted(data["members"])) for node, data in whole.nodes(data=True)}
    return nx.relabel_nodes(nx.transitive_reduction(whole), names)


def rows_of(graph: nx.DiGraph) -> list[list[str]]:
    """Return the boxes in rows, so that each imports from rows below it alone; neighbours are near each other."""
    depth: dict[str, int] = {}
    for name in reversed(list(nx.lexicographical_topological_sort(graph))):
        depth[name] = 1 + max((depth[below] for below in graph.successors(name)), default=-1)
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in sorted(depth):
        rows[depth[name]].append(name)
    place: dict[str, float] = {}
    for row in rows:
        middle = {
            name: sum(place[below] for below in graph.successors(name)) / max(1, graph.out_degree(name)) for name in row
        }
        row.sort(key=lambda name: (top_of(name), round(middle[name], 6), name))
        place.update({name: number - len(row) / 2 for number, name in enumerate(row)})
    return rows


def picture() -> str:
    """Return the picture as SVG; equal code gives an equal text."""
    graph = boxes()
    rows = rows_of(graph)
    width = max(len(row) for row in rows) * (_WIDTH + _GAP) + _GAP
    height = len(rows) * _ROW + _GAP
    left_top: dict[str, tuple[float, float]] = {}
    for depth, row in enumerate(rows):
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
        for number, name in enumerate(row):
            left_top[name] = (left + number * (_WIDTH + _GAP), height - (depth + 1) * _ROW + _ROW / 2 - _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="11" text-anchor="middle">',
        "<title>Packages, and what they import</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for one, other in sorted(graph.edges):
        (x, y), (to_x, to_y) = left_top[one], left_top[other]
        x, y, to_x = x + _WIDTH / 2, y + _height(one), to_x + _WIDTH / 2
        bend = (to_y - y) / 2
        lines.append(
            f'<path d="M{x:g} {y:g}C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}" fill="none" '
            f'stroke="{TOPS[top_of(one)]}" stroke-opacity="0.5"/>'
        )
    for name, (x, y) in sorted(left_top.items()):
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_height(name)}" rx="4" fill="#ffffff" '
            f'stroke="{TOPS[top_of(name)]}" stroke-width="1.5"/>'
        )
        lines += [
            f'<text x="{x + _WIDTH / 2:g}" y="{y + 16 + number * _LINE:g}" fill="#212121">{escape(member)}</text>'
            for number, member in enumerate(name.split(" + "))
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture())
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")
