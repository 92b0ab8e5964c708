"""The page as a browser has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.tests.bench.page.test_experiment_page import mercury_result
from quicksilver.report.html import html
from quicksilver.report.model import Axis, Bars, Lines, Page, Prose, ReportEstimate, ReportSection, ReportTable, Series
from quicksilver_lab.bench.page.pages import beside
from tests.quicksilver.report.browser import MISSING, Browser, browser

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

_ROWS = "return [...document.querySelectorAll('.table tbody tr')].map(row => row.cells[0].textContent)"
_BRIGHTNESS = """
const luma = colour => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number); return (2 * r + 5 * g + b) / 8; };
const style = element => getComputedStyle(element);
const label = document.querySelector(".rows b");
const line = document.querySelector(".bar i");
const body = style(document.body);
return [body.backgroundColor, body.color, style(label).color, style(line).backgroundColor].map(luma);
"""


def page() -> Page:
    table = ReportTable(["who", "tasks/s"], [["b", 100.5], ["none", None], ["c", ReportEstimate(9, 8, 11)], ["a", 20]])
    lines = Lines("rate", Axis("s"), Axis("tasks/s"), [Series(name, [0, 1], [1, 2]) for name in ("one", "two")])
    bars = Bars("kills", Axis("kills"), ["one", "two"], [("all", [1.0, ReportEstimate(2, 1, 3)])])
    return Page("Mercury & co", [("machine", "2 cores")], [ReportSection("first", [Prose("text"), table, lines, bars])])


@pytest.fixture(scope="module", params=[False, True], ids=["light", "dark"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, bool]]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.html").write_text(html(page()))
    with browser(folder, dark=request.param) as found:
        found.open(folder / "page.html")
        yield found, request.param


def test_a_page_stands_by_itself_in_light_and_dark(opened: tuple[Browser, bool]) -> None:
    found, dark = opened
    assert found.run("return document.title") == "Mercury & co"
    assert found.run("return document.querySelectorAll('.lines canvas, .rows.bars').length") == 2
    legend = "return [...document.querySelectorAll('.u-legend .u-label')].map(one => one.textContent)"
    assert found.run(legend) == ["s", "one", "two"]
    assert all(found.run("return [...document.querySelectorAll('.lines, .rows')].map(s => s.clientHeight > 60)"))
    asked = [url for url in found.requests() if not url.startswith(("data:", "chrome:"))]
    assert [url.rpartition("/")[2] for url in asked] == ["page.html"]
    assert found.console() == []
    back, ink, label, line = found.run(_BRIGHTNESS)
    assert (back < 60 < 180 < min(ink, label)) if dark else (back > 200 > 80 > max(ink, label))
    assert abs(line - back) > 60


def test_the_pointer_and_the_arrow_keys_show_values(opened: tuple[Browser, bool]) -> None:
    found, _ = opened
    values = "return [...document.querySelectorAll('.u-legend .u-value')].map(one => one.textContent)"
    found.run("const p = document.querySelector('.lines').plot; p.setCursor({left: p.valToPos(0.98, 'x'), top: 20})")
    found.run("return new Promise(done => requestAnimationFrame(done))")
    assert found.run(values) == ["1", "2", "2"]
    key = "document.querySelector('.lines').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}))"
    found.run(key), found.run("return new Promise(done => requestAnimationFrame(done))")
    assert found.run(values) == ["0", "1", "1"]
    titles = "return [...document.querySelectorAll('.bar')].map(one => one.title)"
    assert found.run(titles) == ["one: 1.00", "two: 2 (1 to 3)"]


def test_lines_are_drawn(opened: tuple[Browser, bool]) -> None:
    found, _ = opened
    inked = """
    const canvas = document.querySelector(".lines canvas"), ink = canvas.getContext("2d");
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--c1").trim();
    const wanted = [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
    const pixels = ink.getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    const near = (value, pixel) => Math.abs(pixel - value) < 30;
    for (let at = 0; at < pixels.length; at += 4)
      count += wanted.every((value, k) => near(value, pixels[at + k])) && pixels[at + 3] > 200;
    return count;
    """
    assert found.run(inked) > 200


def test_what_a_page_would_ask_others_for_is_refused_and_seen_here(opened: tuple[Browser, bool]) -> None:
    found, _ = opened
    found.run("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/picture.png'}))")
    assert [message for message in found.console() if "Content Security Policy" in message]


def test_a_click_sorts_by_number_and_what_is_missing_stays_last(opened: tuple[Browser, bool]) -> None:
    found, _ = opened
    assert found.run(_ROWS) == ["b", "none", "c", "a"]
    found.click("th:nth-child(2) button")
    assert found.run(_ROWS) == ["c", "a", "b", "none"]
    found.click("th:nth-child(2) button")
    assert found.run(_ROWS) == ["b", "a", "c", "none"]
    assert found.run("return document.querySelector('th:nth-child(2)').ariaSort") == "descending"
    found.click("th:nth-child(1) button")
    assert found.run(_ROWS) == ["a", "b", "c", "none"]
    assert found.run("return document.querySelector('th:nth-child(2)').ariaSort") is None


def test_a_result_of_bench_mercury_has_its_plots(opened: tuple[Browser, bool], tmp_path: Path) -> None:
    found, _ = opened
    found.console(), found.requests()
    file = tmp_path / "mercury-1.json"
    file.write_text(json.dumps(mercury_result()))
    found.open(beside(file))
    assert found.run("return document.title") == "bench-mercury"
    assert found.run("return document.querySelectorAll('.lines canvas, .rows.bars').length") == 14
    assert found.run("return document.querySelectorAll('.table table').length") == 20
    assert found.console() == []
    assert [url for url in found.requests() if not url.startswith(("data:", "file:"))] == []


def test_a_page_uses_a_wide_screen_and_fits_a_narrow_one(tmp_path: Path) -> None:
    name = "FB-2010_samples_24_times_1hr_withInputPaths_0.tsv"
    tables = [ReportTable(["who", "s"], [["a", 1.0]], title) for title in ("one", "two")]
    lines = Lines("rate", Axis("s"), Axis("1/s"), [Series("a", [0, 1], [1, 2])])
    section = ReportSection(f"Of {name}", [Prose(f"Read from `{name}`."), *tables, lines])
    (tmp_path / "page.html").write_text(html(Page(f"Simulation of {name}", [("trace", name)], [section])))
    with browser(tmp_path) as found:
        found.resize(1440, 900)
        found.open(tmp_path / "page.html")
        top, other = found.run("return [...document.querySelectorAll('.table')].map(one => one.offsetTop)")
        assert top == other, "tables stand side by side"
        assert found.run("return document.querySelector('.lines canvas').clientWidth") > 1300
        assert found.run("return document.querySelector('.u-legend').textContent").find("\u2013") < 0
        found.resize(390)
        found.open(tmp_path / "page.html")
        assert found.run("return document.documentElement.scrollWidth") <= 390
