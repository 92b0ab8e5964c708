"""What a study says in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quicksilver.simulator.figures import Figures
from quicksilver.simulator.findings import LIMIT, findings
from quicksilver.simulator.naming import ONLY_G
from quicksilver.simulator.report import page
from quicksilver.simulator.results import by_label, summary
from quicksilver.simulator.run import Row
from quicksilver.simulator.stock import base_first
from quicksilver.simulator.sweep import STOCK

SHIPPED = {"policies": {"preset": "default"}}


def row(label: str, seed: int, mean: float, p95: float, settings: Any = None, **counts: int) -> Row:
    metrics = {"mean_all": mean, "p50_all": mean / 2, "p95_all": p95, "jobs_all": 9.0}
    return Row(label, label.split()[0], settings or {}, {}, seed, Figures(metrics, {}, [], {}, counts, {}), 0.1)


def test_the_product_is_measured_by_the_best_stock_scheduler_of_each_figure() -> None:
    rows = [
        row("quicksilver only_g", 1, 10.0, 40.0, {"policies": dict(ONLY_G)}),
        row("yarn_fifo", 1, 12.0, 30.0),
        row("quicksilver preset=default", 1, 8.7, 33.0, SHIPPED),
    ]
    assert findings(rows) == [
        "quicksilver preset=default: its jobs took 0.870 of the time of the best of the stock schedulers that were run "
        "(quicksilver only_g) in the mean; p50 is 0.870 of quicksilver only_g's; p95 is no better "
        "(1.10 of yarn_fifo's).",
        "One seed: how much of this is chance is not known; --seeds 5 tells.",
    ]


def test_the_preset_stock_is_a_base_line_and_no_competitor() -> None:
    rows = [row("quicksilver preset=stock", 1, 9.0, 9.0, {"policies": {"preset": "stock"}}), row("eagle", 1, 8.0, 9.0)]
    assert findings(rows)[0].startswith(
        "eagle: its jobs took 0.889 of the time of the only stock scheduler that was run ("
    )


def test_only_where_all_stock_schedulers_ran_one_of_them_is_the_best() -> None:
    ours = row("quicksilver preset=default", 1, 8.0, 9.0, SHIPPED)
    stock = [row(name, 1, mean, 9.0) for name, mean in zip(STOCK, (60.0, 12.0, 20.0), strict=True)]
    for count, words in ((1, "only stock scheduler that was run"), (2, "best of the stock schedulers that were run"),
                         (3, "best stock scheduler")):  # fmt: skip
        sentence = findings([*stock[:count], ours])[0]
        assert f"of the time of the {words} ({'yarn_capacity' if count == 1 else 'yarn_fair'}) in the mean" in sentence


def test_figures_of_a_study_are_against_the_best_stock_scheduler() -> None:
    ours = row("quicksilver preset=default", 1, 8.0, 9.0, SHIPPED)
    rows = [row("quicksilver only_g", 1, 90.0, 9.0, {"policies": dict(ONLY_G)}), row("yarn_fair", 1, 16.0, 9.0), ours]
    found = summary({}, rows)
    assert found["base"] == "yarn_fair" and found["variants"][ours.label]["against"]["mean_all"] == 0.5
    assert list(base_first(by_label(rows))) == ["yarn_fair", "quicksilver only_g", "quicksilver preset=default"]
    against = next(section for section in page([], rows).sections if section.title.startswith("Against"))
    assert against.title == "Against yarn_fair"
    assert summary({}, rows[:2])["base"] == "quicksilver only_g", "nothing but stock: the first one"


def test_several_seeds_have_intervals_and_what_is_worse_is_said() -> None:
    means = ((10.0, 8.0), (11.0, 8.9), (9.0, 7.1))
    rows = [row("yarn_fifo", seed, stock, 10.0) for seed, (stock, _) in enumerate(means)]
    rows += [row("eagle", seed, own, 20.0 + seed / 10) for seed, (_, own) in enumerate(means)]
    rows += [row("hawk", seed, stock + (-1) ** seed, 10.0) for seed, (stock, _) in enumerate(means)]
    eagle, hawk, chance = findings(rows)
    assert eagle.startswith("eagle: its jobs took 0.799 (0.7") and "p95 is worse: 2.01 (" in eagle
    assert "in the mean, which is no better; p50 is no better (" in hawk and "p95 is no better (1.00 (" in hawk
    assert "95 % intervals over 3 seeds" in chance


def test_who_killed_is_named_with_the_work_that_was_lost() -> None:
    one = row("quicksilver", 1, 2.0, 3.0, kills=3)
    measured = replace(one, figures=replace(one.figures, extra={"lost_s": 40.0}))
    assert findings([measured]) == ["quicksilver: 3.00 containers were killed; 40.0 s of their work were lost."]
    assert findings([one]) == ["quicksilver: 3.00 containers were killed."]
    assert findings([row("quicksilver", 1, 2.0, 3.0, kills=0)]) == []


def test_jobs_that_did_not_end_are_never_left_out_in_silence() -> None:
    cut = findings([row("quicksilver preset=default", 1, 8.0, 9.0, SHIPPED, unfinished=3)])
    assert cut == [
        "quicksilver preset=default: 3 of 12 jobs had not ended when the run did, and are in no figure of jobs."
    ]
    tasks = row("recorded", 1, 8.0, 9.0)
    tasks.figures.extra["unfinished"] = 2.0  # type: ignore[index]
    assert findings([tasks]) == ["recorded: 2 tasks have no known end in the record and are in no figure."]


def test_one_system_by_itself_is_compared_with_nothing_and_of_many_the_first_have_a_sentence() -> None:
    assert findings([row("eagle", 1, 8.0, 9.0)]) == []
    many = findings([row(f"s{number}", 1, 8.0, 9.0) for number in range(LIMIT + 4)])
    assert len(many) == LIMIT + 2 and many[LIMIT] == "3 more systems are in the tables."
