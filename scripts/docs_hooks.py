"""Hooks of mkdocs: pages from outside docs/, state diagrams as tables, pages that may be missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = {"hadoop-conf.md": ROOT / "hadoop-conf" / "README.md", "changelog.md": ROOT / "CHANGELOG.md"}
"""Pages of the site that lie outside docs/."""
_OUTSIDE: Final = {"../hadoop-conf/README.md": "hadoop-conf.md", "../CHANGELOG.md": "changelog.md"}
_MERMAID: Final = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP: Final = re.compile(r"^\s*(\S+) --> (\S+?)(?:: (.*))?$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave those pages out of the navigation that may be missing and are."""
    optional = {name for name in config.extra["optional_pages"] if not (Path(config.docs_dir) / name).exists()}
    config.nav = [
        {title: [page for page in pages if page not in optional] for title, pages in part.items()}
        for part in config.nav or ()
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/, and the site files of hadoop-conf/ for links to them."""
    for name, path in PAGES.items():
        files.append(File.generated(config, name, content=path.read_text()))
    for path in sorted((ROOT / "hadoop-conf").rglob("*")):
        if path.suffix in (".xml", ".service"):
            place = Path("site-files") / path.relative_to(ROOT / "hadoop-conf")
            files.append(File.generated(config, place.as_posix(), content=path.read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files outside docs/ to their places in the site, and show state diagrams as tables."""
    if page.file.src_uri == "hadoop-conf.md":
        markdown = markdown.replace("](../docs/", "](")
    if page.file.src_uri == "changelog.md":
        markdown = markdown.replace("](docs/", "](")
    for link, place in _OUTSIDE.items():
        markdown = markdown.replace(f"]({link}", f"]({place}")
    return _MERMAID.sub(_table, markdown.replace("](../hadoop-conf/", "](site-files/"))


def _table(found: re.Match[str]) -> str:
    names = {"[*]": "*begin or end*"}
    steps: list[Any] = _STEP.findall(found[1])
    rows = [f"| {names.get(a, a)} | {names.get(b, b)} | {event} |" for a, b, event in steps]
    return "\n".join(["| from | to | when |", "|---|---|---|", *rows])
