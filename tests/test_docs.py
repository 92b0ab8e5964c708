"""The pages of docs/ and lab/docs/: their links lead somewhere, and the paths that they name are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from quicksilver.cli import COMMANDS
from tests.paths import DOCS, LAB_DOCS, ROOT

PAGES: Final = sorted(
    [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *LAB_DOCS.glob("*.md"), ROOT / "hadoop-conf" / "README.md"]
)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_PATH: Final = re.compile(
    r"`((?:policies|hadoop_rpc|rm_proxy|sidecar|quicksilver|apps|lab|tests|scripts|hadoop-conf)/[\w./-]*)`"
)


def prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return _FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Return where the relative links of a page lead to, as they are written."""
    return [link for link in _LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", text).lower()).replace(" ", "-") for text in headings}


def broken(page: Path) -> list[str]:
    """Return the relative links of `page` that lead nowhere."""
    wrong = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and (target.suffix != ".md" or anchor not in anchors(target))):
            wrong.append(link)
    return wrong


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` (c)\n[1](gone.md) [2](page.md#a-b-c) [3](#a-b) [4](https://x.org/gone)\n```\n[5](gone)\n```\n"
    )
    assert broken(page) == ["gone.md", "#a-b"]


def test_a_page_of_docs_links_to_no_page_of_the_lab() -> None:
    assert [(named(page), link) for page in DOCS.glob("*.md") for link in links(page) if "lab/" in link] == []


def navigation(config: Path) -> list[str]:
    """Return the pages in the navigation of a site, those included that may be missing."""
    nav = re.search(r"^nav:\n(.*)", config.read_text(), re.MULTILINE | re.DOTALL)
    assert nav is not None
    return re.findall(r"^ +- (\S+\.md)$", nav[1], re.MULTILINE)


def test_the_navigation_has_each_page_once() -> None:
    generated = ["changelog.md", "hadoop-conf.md"]  # scripts/site.py
    optional = re.search(r"optional_pages: \[(.*)\]", (ROOT / "mkdocs.yml").read_text())
    assert optional is not None
    missing = [name for name in optional[1].split(", ") if not (DOCS / name).exists()]
    assert sorted(navigation(ROOT / "mkdocs.yml")) == sorted(
        [*(page.name for page in DOCS.glob("*.md")), *generated, *missing]
    )
    assert sorted(navigation(ROOT / "lab" / "mkdocs.yml")) == sorted(page.name for page in LAB_DOCS.glob("*.md"))


def test_the_readme_leads_to_the_pages_that_a_new_user_needs() -> None:
    linked = {link.partition("#")[0] for link in links(ROOT / "README.md")}
    wanted = [
        "index",
        "tutorial",
        "concepts",
        "operations",
        "cookbook",
        "tasks",
        "troubleshooting",
        "uninstall",
        "limits",
    ]
    assert [page for page in wanted if f"docs/{page}.md" not in linked] == []


def test_each_page_says_first_what_it_is_good_for() -> None:
    pages = [page for page in (*DOCS.glob("*.md"), *LAB_DOCS.glob("*.md")) if page.name != "settings.md"]  # generated
    late = [named(page) for page in pages if "Good for:" not in " ".join(prose(page).splitlines()[:4])]
    assert late == []


def test_each_path_that_a_page_names_is_in_the_tree() -> None:
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]  # it tells of what was
    gone = {(named(page), path) for page in pages for path in _PATH.findall(prose(page)) if not (ROOT / path).exists()}
    assert sorted(gone) == []


def test_each_module_that_a_page_names_is_in_the_tree() -> None:
    tops = ("policies", "hadoop_rpc", "rm_proxy", "sidecar", "quicksilver", "apps", "lab", "scripts", "tests")
    modules = {path.as_posix() for top in tops for path in (ROOT / top).rglob("*.py")}
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    written = {(named(page), name) for page in pages for name in re.findall(r"`(\w[\w/]*\.py)`", prose(page))}
    assert written and sorted(w for w in written if not any(module.endswith(f"/{w[1]}") for module in modules)) == []


def test_each_command_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(page.read_text() for page in PAGES)
    assert set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.MULTILINE)) - targets == set()
    assert set(re.findall(r"`quicksilver ([a-z]+)", text)) - COMMANDS.keys() == set()


MOST_WORDS_BY_HAND: Final = 60_000
GENERATED: Final = frozenset(("settings.md",))
_MADE: Final = re.compile(r"^<!-- (\w+)(?:: made [^>]*)? -->\n.*?^<!-- (?:/|end of )\1 -->$", re.MULTILINE | re.DOTALL)
"""A part of a page that the code makes, and that a test holds equal to it."""


def words_by_hand(text: str) -> int:
    """Return the words of a page, as `wc -w` counts them, without the parts that the code makes."""
    return len(_MADE.sub("", text).split())


def test_the_admins_site_is_short_enough_to_be_read() -> None:
    pages = {page.name: words_by_hand(page.read_text()) for page in DOCS.glob("*.md") if page.name not in GENERATED}
    assert sum(pages.values()) <= MOST_WORDS_BY_HAND, sorted(pages.items(), key=lambda page: -page[1])[:10]


def test_parts_that_the_code_makes_are_not_counted() -> None:
    begin, end = "<!-- bounds: made by `python -m x` -->", "<!-- end of bounds -->"
    assert words_by_hand(f"one\n{begin}\n| a | b |\n{end}\ntwo\n<!-- states -->\nx y z\n<!-- /states -->\n") == 2
    assert words_by_hand("one <!-- test: mistakes --> two\n") == 6


def test_each_setting_is_written_once() -> None:
    tables = re.compile(r"^\| setting\b.*\| (?:default|meaning)\b", re.MULTILINE)
    assert [page.name for page in DOCS.glob("*.md") if tables.search(page.read_text())] == ["settings.md"]


GLOSSARY: Final = DOCS / "glossary.md"


def rows(heading: str, page: Path = GLOSSARY) -> list[tuple[str, ...]]:
    """Return the cells of a page's table below `heading`, without its head."""
    part = page.read_text().partition(heading)[2].partition("\n## ")[0]
    return [
        tuple(cell.strip() for cell in line.strip("|").split("|")) for line in re.findall(r"^\|.*\|$", part, re.M)[2:]
    ]


def words(cell: str) -> list[str]:
    """Return the words that a row defines; what stands in brackets tells two of the same name apart."""
    return re.sub(r" \(.*?\)", "", cell).split(", ")


def test_each_word_of_the_glossary_is_used_in_another_page() -> None:
    text = " ".join(prose(page) for page in PAGES if page not in (GLOSSARY, ROOT / "CHANGELOG.md"))
    defined = [word for cell, *_ in rows("# Glossary") for word in words(cell)]
    assert len(defined) > 60
    assert [word for word in defined if not re.search(rf"\b{re.escape(word)}", text, re.I)] == []


def test_each_word_has_one_line_and_a_meaning() -> None:
    table = rows("# Glossary")
    assert len({cell for cell, *_ in table}) == len(table) and all(meaning for _, meaning, _ in table)


def test_no_module_has_a_name_that_is_not_used_any_more() -> None:
    gone = {
        word.replace(" ", "_")
        for then, _ in rows("## Not used any more", LAB_DOCS / "internals.md")
        if "(" not in then
        for word in words(then)
    }
    modules = {
        path.stem: path for top in ("rm_proxy", "sidecar", "quicksilver/common") for path in (ROOT / top).rglob("*.py")
    }
    assert sorted(gone & modules.keys()) == []
