"""What stands on top of a page: sentences, and what to write into quicksilver.yaml."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from policies.config.policy_set import Policies
from quicksilver.report.model import Code, Prose, ReportEstimate, ReportSection, Value
from quicksilver_lab.bench.mercury.competitors import BY_NAME, sections_of
from quicksilver_lab.bench.page.pages import page_of
from quicksilver_lab.bench.page.verdict import compared, in_short, losses, settings, words


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.82, "0.820 of the time (18 % faster)"),
        (1.25, "1.25 of the time (25 % slower)"),
        (1.004, "the same time"),
        (ReportEstimate(0.8, 0.7, 0.9), "0.800 (0.700 to 0.900) of the time (20 % faster)"),
        (ReportEstimate(0.95, 0.9, 1.01), "0.950 (0.900 to 1.01) of the time, which may be chance"),
        (None, ""),
    ],
)
def test_a_ratio_in_words(ratio: Value, text: str) -> None:
    assert words(ratio) == text


def test_latencies_are_compared_in_one_sentence() -> None:
    sentence = (
        "`q` against stock: the mean job took 0.500 of the time (50 % faster); all jobs together took the same time."
    )
    assert compared("q", "stock", {"latency_mean_s": {"ratio": 0.5}, "makespan_s": {"ratio": 1.0}}) == sentence
    assert compared("q", "stock", {"kills": 2}) == ""


def test_kills_and_lost_work_are_named() -> None:
    lost = {"kills": 3, "work_lost_s": {"value": 12.5}}
    assert losses({"a": {"kills": 0}, "b": lost}) == "Containers killed: `b` 3 (12.5 s of work lost)."
    assert losses({"a": {"kills": 0}}) == "Nothing was killed."
    assert losses({"a": {}}) == ""


def test_goals_are_counted_and_missed_ones_named() -> None:
    goals = {
        "a": {"value": 1.0, "goal": 2.0, "at_most": True, "met": True},
        "b": {"ratio": 1.2, "target": 1.5, "met": False},
        "c": {"value": None, "met": None},
    }
    found = in_short({"goals": goals})
    assert found == [
        ReportSection("In short", [Prose("1 of 2 goals are met."), Prose("Missed: `b` (1.20, goal 1.50).")])
    ]
    assert in_short({}) == []


def test_what_to_write_is_a_settings_file_that_loads() -> None:
    sections = sections_of(BY_NAME)
    assert "quicksilver" in sections and "only_g_tuned" not in sections
    for block in settings(sections):
        assert isinstance(block, Code)
        content = YAML(typ="safe").load(block.text)
        assert list(content) == ["policies"]
        Policies.load(content["policies"])


def test_a_page_of_mixes_begins_with_the_verdict_of_each_mix() -> None:
    metric = {"best_stock": "f", "ratio": 0.9, "value": 9.0, "stock": 10.0, "bound": 8.0}
    mix = {"about": "a mix", "competitors": {"q": {"kills": 0}}, "compared": {"q": {"latency_mean_s": metric}}}
    result = {"benchmark": "mixes", "mixes": {"google": mix}, "policies": {"q": {"preset": "default"}}}
    first = page_of(result).sections[0]
    assert first.title == "In short"
    assert first.blocks == [
        Prose("`q` against the best stock scheduler on google: the mean job took 0.900 of the time (10 % faster)."),
        Prose("On google: nothing was killed."),
        Code("policies:\n  preset: default", "To run `q`, write into quicksilver.yaml"),
    ]
