"""The documentation as a site: it builds strictly, loads nothing from the network, and is served below a path."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from quicksilver.common.docs_site import site_folder
from quicksilver.common.http.docs_mount import mount_docs
from tests.paths import DOCS, ROOT

_LOADED: Final = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=\"?([^\s\">]+)")
"""Of a page: what a browser loads by itself. `canonical` links and the like do not occur."""


def build(config: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(into)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    yield folder


def test_each_page_is_built(site: Path) -> None:
    built = {page.stem for page in site.glob("*.html")}
    assert {page.stem for page in DOCS.glob("*.md")} | {"hadoop-conf", "changelog"} <= built
    assert (site / "search" / "search_index.json").stat().st_size > 100_000
    assert "img/las.svg" in (site / "concepts.html").read_text()


def test_no_page_loads_anything_from_the_network(site: Path) -> None:
    loaded = {link for page in site.glob("*.html") for link in _LOADED.findall(page.read_text())}
    assert len(loaded) > 10
    assert [link for link in loaded if urlsplit(link).netloc] == []
    assert "class=mermaid" not in "".join(page.read_text() for page in site.glob("*.html"))


def test_state_diagrams_are_tables(site: Path) -> None:
    text = (site / "states.html").read_text()
    assert "stateDiagram" not in text and "the ResourceManager registered it</td>" in text


def test_a_broken_link_an_anchor_and_a_lonely_page_end_the_build(tmp_path: Path) -> None:
    for name in ("docs", "hadoop-conf", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    with (tmp_path / "docs" / "limits.md").open("a") as page:
        page.write("\n[gone](gone.md) [anchor](concepts.md#gone)\n")
    (tmp_path / "docs" / "lonely.md").write_text("# Lonely\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert all(text in done.stderr for text in ("gone.md", "concepts.md#gone", "lonely.md")), done.stderr


def test_the_site_is_served_below_a_path(site: Path) -> None:
    app = FastAPI()
    assert mount_docs(app, "/ui/docs", site_folder(site))
    client = TestClient(app)
    assert "quicksilver makes short tasks" in client.get("/ui/docs/").text
    assert client.get("/ui/docs/search/search_index.json").status_code == 200
    assert client.get("/ui/docs/img/las.svg").headers["content-type"].startswith("image/svg")
    assert client.get("/ui/docs/%2e%2e/%2e%2e/etc/passwd").status_code == 404


def test_without_a_site_the_answer_names_the_remedy(tmp_path: Path) -> None:
    app = FastAPI()
    assert site_folder(tmp_path) == "" and not mount_docs(app, "/ui/docs", "")
    answer = TestClient(app).get("/ui/docs/concepts.html")
    assert answer.status_code == 404 and "make docs" in answer.text


def test_the_package_takes_the_site_along() -> None:
    assert 'artifacts = ["/quicksilver/site"]' in (ROOT / "pyproject.toml").read_text()
    assert "/quicksilver/site/" in (ROOT / ".gitignore").read_text()
