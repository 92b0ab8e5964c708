"""Single jobs against the same jobs under a stock scheduler, on made-up results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quicksilver.report.model import Prose, ReportTable
from quicksilver_lab.bench.emulator.jobs import WARM
from quicksilver_lab.bench.emulator.model import JobRecord, RunResult
from quicksilver_lab.bench.harm import harm, sentence
from quicksilver_lab.bench.mixes.figures import counted
from quicksilver_lab.bench.page.pages import page_of
from quicksilver_lab.bench.page.verdict import harm_table, harmed


def run(competitor: str, took_s: dict[int, float | None], seed: int = 1) -> RunResult:
    """Return a run whose jobs, by number, took so long; None: did not end. A warm-up job is before them."""
    jobs = [
        JobRecord(number, "short", 10.0 + number, None, None if took is None else 10.0 + number + took)
        for number, took in took_s.items()
    ]
    return RunResult(competitor, "w", seed, 2, 4, 0.0, 9.0, [JobRecord(0, WARM, 0.0, None, 90.0), *jobs])


def in_figures(of: RunResult) -> list[JobRecord]:
    return counted(of, is_open=True)


STOCK = run("only_g_fair", {1: 10.0, 2: 10.0, 3: 100.0, 4: 10.0, 5: 4.0})


@pytest.mark.parametrize(
    ("took_s", "harmed"),
    (
        ({1: 13.0}, 1),
        ({1: 11.9}, 0),  # 1.19 times, 1.9 s
        ({3: 109.0}, 0),  # 1.09 times, 9 s
        ({1: 5.0, 3: 111.0, 5: 6.5}, 2),
        ({1: None, 2: 10.0}, 1),
    ),
)
def test_a_job_is_harmed_by_a_tenth_and_two_seconds(took_s: dict[int, float | None], harmed: int) -> None:
    assert harm([STOCK], [run("quicksilver", took_s)], in_figures)["harmed"] == harmed


def test_jobs_are_paired_by_seed_and_number() -> None:
    stock = [STOCK, run("only_g_fair", {1: 50.0, 2: None}, seed=2)]
    ours = [run("quicksilver", {5: 8.0, 4: 5.0, 9: 500.0}), run("quicksilver", {1: 60.0, 2: 70.0}, seed=2)]
    found = harm(stock, ours, in_figures)
    assert found == {
        "jobs": 3,
        "harmed": 2,
        "unfinished": 0,
        "ratio_p95": 1.92,
        "ratio_worst": 2.0,
        "worst": {"seed": 1, "job": 5, "class": "short", "stock_s": 4.0, "s": 8.0},
    }, "job 9 and job 2 of seed 2 have no pair"
    assert harm(stock, [run("quicksilver", {9: 1.0})], in_figures) == {}


def test_harm_in_words_and_as_a_table() -> None:
    figures = harm([STOCK], [run("quicksilver", {1: 13.0, 2: 9.0, 3: None})], in_figures)
    found = {"quicksilver": {"only_g_fair": figures}}
    words = (
        "`quicksilver` against `only_g_fair`: 2 of 3 jobs took more than 1.1 times as long and 2 s longer, of which 1 "
        "did not end; p95 of all ratios 1.28, the worst 1.30 (job 1, short: 10.0 s became 13.0 s)."
    )
    assert harmed(found) == [words]
    assert sentence("q", "f", harm([STOCK], [run("q", {1: None})], in_figures), " on x") == (
        "`q` against `f` on x: 1 of 1 jobs took more than 1.1 times as long and 2 s longer, of which 1 did not end."
    )
    (table,) = harm_table(found)
    assert isinstance(table, ReportTable) and table.rows[0][:7] == ["quicksilver", "only_g_fair", 3, 2, 1, 1.28, 1.3]
    assert harm_table({}) == []


def test_harm_is_on_the_page() -> None:
    figures = harm([STOCK], [run("quicksilver", {1: 13.0})], in_figures)
    names = {"competitors": {"only_g_fair": {"kills": 0}, "quicksilver": {"kills": 0}}}
    mix = names | {"about": "x", "open": True, "compared": {"quicksilver": {"harm": {"only_g_fair": figures}}}}
    found: dict[str, Any] = {"benchmark": "experiment", "mixes": {"x": mix}}
    page = page_of(json.loads(json.dumps(found)))
    first = page.sections[0].blocks[0]
    assert isinstance(first, Prose) and first.text.startswith("`quicksilver` against `only_g_fair` on x: 1 of 1 jobs")
    tables = [block.title for section in page.sections for block in section.blocks if isinstance(block, ReportTable)]
    assert "Single jobs against the same jobs on stock YARN" in tables
