"""The pages of docs/ and lab/docs/ by topic, as they are installed with the packages or lie in a checkout."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from policies.errors import close_to
from quicksilver.common.errors import QuicksilverError

_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^(#+) +(.+?)\s*$")
_LAB = "quicksilver_lab"


class NoSuchTopicError(QuicksilverError):
    """No page, or no heading of a page, has this name."""


@dataclass(frozen=True, slots=True)
class ManualPage:
    """A page: its topic as `quicksilver help` takes it, its title, its Markdown."""

    topic: str
    title: str
    text: str


def docs_root() -> Path:
    """Return docs/, which is inside the package `quicksilver` when installed and beside it in a checkout."""
    package = Path(__file__).parents[1]
    for root in (package / "docs", package.parent / "docs"):
        if root.is_dir():
            return root
    raise QuicksilverError("docs/ is missing", place=str(package), remedy="install yarn-quicksilver again")


def lab_docs_root() -> Path | None:
    """Return lab/docs/, which is inside the package quicksilver_lab when installed; None without this package."""
    spec = importlib.util.find_spec(_LAB)
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    return next((root for root in (package / "docs", package.parent / "docs") if root.is_dir()), None)


def topics() -> dict[str, Path]:
    """Return the pages by topic: the path below docs/ without `.md`, or `lab/` and the path below lab/docs/."""
    roots = {"": docs_root(), "lab/": lab_docs_root()}
    return {
        prefix + path.relative_to(root).with_suffix("").as_posix(): path
        for prefix, root in roots.items()
        if root is not None
        for path in sorted(root.rglob("*.md"))
    }


def find_page(name: str) -> ManualPage:
    """Return a page, or the part below one of its headings: `security`, `docs/security.md`, `operations#store`.

    A page in a folder, as those of lab/docs/ are, is found by its last name too. Raises NoSuchTopicError.
    """
    topic, _, anchor = name.partition("#")
    topic = topic.replace("lab/docs/", "lab/").removeprefix("docs/").removesuffix(".md").lower()
    known = topics()
    path = known.get(topic) or next((p for full, p in known.items() if full.rpartition("/")[2] == topic), None)
    if path is None:
        hint = close_to(topic, list(known))
        raise NoSuchTopicError(hint, place=f"there is no page '{name}'")
    text = path.read_text("utf-8")
    page = ManualPage(topic, title_of(text), text)
    return part_of(page, anchor) if anchor else page


def title_of(text: str) -> str:
    """Return the first heading, "" without one."""
    return next((title for _, title, _ in _headings(text)), "")


def part_of(page: ManualPage, anchor: str) -> ManualPage:
    """Return what stands below a heading, up to the next one of its level. Raises NoSuchTopicError."""
    headings = list(_headings(page.text))
    lines = page.text.splitlines(keepends=True)
    for number, (level, title, line) in enumerate(headings):
        if slug(title) == anchor.lower():
            later = (at for depth, _, at in headings[number + 1 :] if depth <= level)
            return ManualPage(f"{page.topic}#{anchor}", title, "".join(lines[line : next(later, len(lines))]))
    hint = close_to(anchor, [slug(title) for _, title, _ in headings])
    raise NoSuchTopicError(hint, place=f"{page.topic} has no part '{anchor}'")


def slug(title: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).lower()).replace(" ", "-")


def _headings(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield level, title and line (from 0) of each heading, blocks of code left out."""
    fenced = False
    for number, line in enumerate(text.splitlines()):
        if _FENCE.match(line):
            fenced = not fenced
        match = None if fenced else _HEADING.match(line)
        if match is not None:
            yield len(match[1]), match[2], number
