"""The page of a study, and as a browser has it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver.report.model import Bars, Code, Lines, Page, Prose, ReportTable
from quicksilver.simulator.figures import GRID, Figures
from quicksilver.simulator.report import page
from quicksilver.simulator.run import Row
from tests.paths import DATA
from tests.quicksilver.report.browser import MISSING, Browser, browser


def row(label: str, seed: int, scale: float, **varied: float) -> Row:
    grid = [scale * (1 + q) for q in GRID]
    names = ("mean", "p50", "p95", "p99", "wait", "jobs")
    metrics = {f"{kind}_{klass}": scale + seed / 100 for kind in names for klass in ("all", "long", "short")}
    metrics |= {"utilisation": 0.5, "throughput": 2.0, "makespan": 100.0}
    behind = {"short queued behind long": 7} if label.startswith("eagle") else {}
    curves = {"all": grid, "long": grid, "short": grid}
    found = Figures(metrics, curves, [(0.0, 0.5), (50.0, 1.0), (100.0, 0.0)], behind, {"tasks": 4}, {})
    return Row(label, label.split()[0], {"k": 1}, varied, seed, found, 0.1)


ROWS = [
    row(label, seed, scale, **varied)
    for seed in (1, 2)
    for label, scale, varied in (("hawk", 2.0, {}), ("eagle k=1", 1.0, {"k": 1.0}), ("eagle k=3", 1.5, {"k": 3.0}))
]


def tables(found: Page) -> dict[str, ReportTable]:
    return {
        block.title: block for section in found.sections for block in section.blocks if isinstance(block, ReportTable)
    }


def test_a_page_has_its_sections_and_every_system_in_them() -> None:
    found = page([("trace", "t")], ROWS)
    assert [section.title for section in found.sections] == [
        "In short",
        "Figures",
        "Against hawk",
        "Over k",
        "Job completion",
        "Utilisation",
        "Who waited behind whom",
        "Counts",
        "Settings",
    ]
    assert [one[0] for one in tables(found)["short jobs"].rows] == ["hawk", "eagle k=1", "eagle k=3"]
    assert tables(found)["verdicts"].rows[0][:3] == ["eagle k=1", "better", "better"]
    plots = {plot.title: plot for plot in found.plots()}
    over = plots["p95 of job completion, short jobs"]
    assert isinstance(over, Lines)
    assert [(list(one.x), one.name) for one in over.series] == [([1.0, 3.0], "eagle")]
    cdf = plots["long jobs"]
    assert isinstance(cdf, Lines)
    assert cdf.x.log
    assert next((one.name, one.y[0], one.y[-1], one.x[50]) for one in cdf.series) == ("hawk", 0.0, 1.0, 102.0)
    assert isinstance(plots["tasks that waited"], Bars)


def test_who_does_not_count_is_named_not_taken_for_zero() -> None:
    (section,) = [one for one in page([], ROWS).sections if one.title == "Who waited behind whom"]
    assert "Not counted by hawk." in str(section.blocks[0])
    assert [one[0] for one in tables(page([], ROWS))["tasks"].rows] == ["eagle k=1", "eagle k=3"]


def test_queues_kills_and_what_to_write_have_sections() -> None:
    figures = {
        name: {"jobs": 3.0, "mean": mean, "p50": 1.0, "p95": 2.0, "wait": 0.5}
        for name, mean in (("a", 4.0), ("b", 2.0))
    }
    rows = []
    for label, lost in (("quicksilver only_g", 0), ("quicksilver preset=default", 2)):
        one = row(label, 1, 1.0)
        section = {"preset": "default"} if lost else {"route": [{"policy": "only_g"}]}
        own = replace(one.figures, queues=figures, counts={"tasks": 4, "kills": lost}, extra={"lost_s": 7.5 * lost})
        rows.append(replace(one, figures=own, settings={"policies": section}))
    rows.append(row("eagle", 1, 1.0))
    found = page([], rows)
    by_title = {section.title: section for section in found.sections}
    queues = by_title["By queue"].blocks[1]
    assert isinstance(queues, ReportTable)
    assert [cells[:4] for cells in queues.rows[:2]] == [
        ["a", "quicksilver only_g", 3.0, 4.0],
        ["a", "quicksilver preset=default", 3.0, 4.0],
    ]
    assert queues.rows[2][2:] == [None] * 5  # eagle has no figures of queues here
    told, kills = by_title["Kills and lost work"].blocks
    assert isinstance(told, Prose) and told.text.endswith("not counted by eagle.")
    assert isinstance(kills, ReportTable)
    assert kills.rows == [["quicksilver only_g", 0, 0.0, 0.0], ["quicksilver preset=default", 2, 500.0, 15.0]]
    written = by_title["What to write into quicksilver.yaml"].blocks
    assert written[-1] == Code("policies:\n  preset: default", "To run `quicksilver preset=default`")


def test_counts_and_settings_stand_in_tables_and_never_as_python_writes_them() -> None:
    one, other = row("quicksilver", 1, 1.0), row("yarn_fair", 1, 1.0)
    settings = {"policies": {"preset": "default", "queues": ["a"]}, "end_beats": True, "reuse_s": None}
    counts = {"tasks": 4, "granted Q": 3, "decided shed": 2}
    rows = [replace(one, settings=settings, figures=replace(one.figures, counts=counts)), other]
    by_title = {section.title: section for section in page([], rows).sections}
    (counted,) = by_title["Counts"].blocks
    assert isinstance(counted, ReportTable) and list(counted.columns) == [
        "count",
        "yarn_fair",
        "quicksilver",
        "what it is",
    ]
    assert [cells[:3] for cells in counted.rows] == [
        ["`tasks`", 4, 4],
        ["`granted Q`", None, 3],
        ["`decided shed`", None, 2],
    ]
    assert all(cells[3] for cells in counted.rows)
    table, code = by_title["Settings"].blocks
    assert isinstance(table, ReportTable)
    assert list(table.rows) == [["`k`", 1, None], ["`end_beats`", None, True], ["`reuse_s`", None, "not set"]]
    assert code == Code("policies:\n  preset: default\n  queues:\n  - a", "Of `quicksilver`")


def test_one_system_has_nothing_to_be_compared_with() -> None:
    found = page([], ROWS[:1])
    assert [section.title for section in found.sections if section.title.startswith(("Against", "Over", "Who"))] == []


def test_many_systems_are_drawn_as_far_as_lines_can_be_told_apart() -> None:
    many = page([], [row(f"s{number}", 1, 1.0) for number in range(20)])
    assert {len(plot.series) for plot in many.plots() if isinstance(plot, Lines)} == {16}
    assert len(tables(many)["short jobs"].rows) == 20


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Path]]:
    folder = tmp_path_factory.mktemp("page")
    with browser(folder) as found:
        yield found, folder


SWIM = DATA / "swim/fb2009-24x1h-0.tsv"


@pytest.mark.browser
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_three_systems_on_a_table_of_facebooks_jobs_in_a_browser(
    opened: tuple[Browser, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, folder = opened
    monkeypatch.setattr(sys, "argv", ["quicksilver", "simulate", SWIM.name])
    out = folder / "out"
    options = ["--compare", "yarn_fifo", "eagle", "kairos_slots", "--load=0.9", "--first=1000", "--processes=1"]
    done = CliRunner().invoke(cli, ["simulate", str(SWIM), *options, f"--out={out}", "--formats=html"])
    assert done.exit_code == 0, done.output
    found.open(out / "report.html")
    assert found.run("return document.title") == f"Simulation of {SWIM.name}"
    titles = found.run("return [...document.querySelectorAll('h2')].map(one => one.textContent)")
    assert titles[:5] == ["In short", "Figures", "Against yarn_fifo", "Job completion", "Utilisation"]
    assert "Who waited behind whom" in titles
    rows = found.run("return [...document.querySelector('table').tBodies[0].rows].map(row => row.cells[0].textContent)")
    assert rows == ["yarn_fifo", "eagle", "kairos_slots"]
    drawn = found.run("return [...document.querySelectorAll('.lines, .rows')].map(one => one.clientHeight > 30)")
    assert len(drawn) == 6 and all(drawn)
    assert found.console() == []
    asked = [url for url in found.requests() if not url.startswith(("data:", "chrome:"))]
    assert [url.rpartition("/")[2] for url in asked] == ["report.html"]
