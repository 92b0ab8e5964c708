"""The documentation as two sites: both build strictly and load nothing from the network; one is served."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from quicksilver.common.http.browser_login import BrowserLogin
from quicksilver.common.http.rest_server import install_error_handlers
from quicksilver.common.web.docs_site import docs_routes
from quicksilver.common.web.pages import Pages
from rm_proxy.ui.site import SITE as DASHBOARD
from tests.paths import DOCS, LAB_DOCS, ROOT

pytestmark = pytest.mark.packages

_LOADED: Final = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=\"?([^\s\">]+)")
"""Of a page: what a browser loads by itself. `canonical` links and the like do not occur."""


def build(root: Path, into: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "site.py"), *options, str(into)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder


def test_each_page_is_built(site: Path) -> None:
    built = {page.stem for page in site.glob("*.html")}
    assert {page.stem for page in DOCS.glob("*.md")} | {"hadoop-conf", "changelog"} <= built
    assert (site / "search.json").stat().st_size > 100_000
    assert "img/las.svg" in (site / "concepts.html").read_text()


@pytest.fixture(scope="module")
def lab_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("lab-site")
    done = build(ROOT, folder, "--lab")
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder


def test_the_site_of_the_lab_has_its_own_pages_and_names_the_others_by_path(site: Path, lab_site: Path) -> None:
    built = {page.stem for page in lab_site.glob("*.html")} - {"404"}
    assert built == {page.stem for page in LAB_DOCS.glob("*.md")}
    assert not (site / "benchmarks.html").exists()
    text = (lab_site / "index.html").read_text()
    assert "<title>quicksilver lab" in text and "<code>docs/simulate.md</code>" in text
    assert "../docs/" not in "".join(page.read_text() for page in lab_site.glob("*.html"))


def test_no_page_loads_anything_from_the_network(site: Path, lab_site: Path) -> None:
    pages = [page.read_text() for folder in (site, lab_site) for page in folder.glob("*.html")]
    loaded = {link for page in pages for link in _LOADED.findall(page)}
    assert len(loaded) > 10
    assert [link for link in loaded if urlsplit(link).netloc] == []
    assert "class=mermaid" not in "".join(pages)


def test_state_diagrams_are_tables(lab_site: Path) -> None:
    text = (lab_site / "states.html").read_text()
    assert "stateDiagram" not in text and "the ResourceManager registered it</td>" in text


def test_a_broken_link_an_anchor_and_a_lonely_page_end_the_build(tmp_path: Path) -> None:
    for name in ("docs", "hadoop-conf", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    with (tmp_path / "docs" / "limits.md").open("a") as page:
        page.write("\n[gone](gone.md) [anchor](concepts.md#gone)\n")
    (tmp_path / "docs" / "lonely.md").write_text("# Lonely\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert all(text in done.stdout for text in ("(gone.md)", "(concepts.md#gone)", "lonely.md")), done.stdout
    assert not (tmp_path / "site").exists()


def test_the_site_is_served_below_a_path(site: Path) -> None:
    app = FastAPI()
    install_error_handlers(app)
    app.include_router(docs_routes(Pages(DASHBOARD, BrowserLogin(lambda: None, "")), site), prefix="/ui")
    client = TestClient(app)
    assert "quicksilver makes short tasks" in client.get("/ui/docs/").text
    assert client.get("/ui/docs/search.json").status_code == 200
    assert client.get("/ui/docs/img/las.svg").headers["content-type"].startswith("image/svg")
    assert client.get("/ui/docs/%2e%2e/%2e%2e/etc/passwd").status_code == 404
    assert client.get("/ui/docs/gone.html").json()["error"]["code"] == "not-found"


def test_the_package_takes_the_site_along() -> None:
    assert 'artifacts = ["/quicksilver/site"]' in (ROOT / "pyproject.toml").read_text()
    assert "/quicksilver/site/" in (ROOT / ".gitignore").read_text()


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each request."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.mark.browser
def test_a_browser_finds_a_page_and_asks_nobody_else(site: Path, tmp_path: Path) -> None:
    """A real Chromium opens a page with drawings, searches, and requests nothing but from this server."""
    with served(site) as base, chromium(tmp_path) as driver:
        driver.get(base + "concepts.html")
        wait = WebDriverWait(driver, 60)
        widths = "return [...document.querySelectorAll('.md-content img')].map(i => i.naturalWidth)"
        wait.until(lambda d: (found := d.execute_script(widths)) and min(found) > 0)
        driver.set_window_size(1300, 900)
        dialog = "[...document.body.children].find(e => e.shadowRoot)?.shadowRoot"
        wait.until(lambda d: d.execute_script(f"return {dialog} != null"))
        driver.find_element(By.CSS_SELECTOR, ".md-search__button").click()
        wait.until(lambda d: d.execute_script(f"return {dialog}.activeElement?.tagName == 'INPUT'"))
        ActionChains(driver).send_keys("speculative").perform()
        hits = f"return [...{dialog}.querySelectorAll('a')].map(a => a.href)"
        wait.until(lambda d: any("for-job-owners" in link for link in d.execute_script(hits)))
        names = driver.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        assert len(names) > 5 and [name for name in names if not name.startswith((base, "data:", "blob:"))] == []
