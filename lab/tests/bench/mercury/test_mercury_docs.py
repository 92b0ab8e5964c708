"""lab/docs/benchmarks.md has what is compared, offered and aimed at."""

from __future__ import annotations

import re

from quicksilver_lab.bench.experiment.plan import load
from quicksilver_lab.bench.mercury.competitors import ALL
from quicksilver_lab.bench.mercury.figures import METRICS
from quicksilver_lab.papers.workloads.mercury import WORKLOADS
from tests.paths import LAB_DOCS

GOALS = load("mercury").goals
PAGE = (LAB_DOCS / "benchmarks.md").read_text()
SECTION = PAGE.partition("## bench-mercury")[2].partition("\n## ")[0]


def test_each_competitor_is_a_row() -> None:
    assert [one.name for one in ALL if f"\n| `{one.name}` |" not in SECTION] == []


def test_each_workload_is_described() -> None:
    emulated = PAGE.partition("## The emulated cluster")[2].partition("\n## ")[0]
    assert [name for name in WORKLOADS if f"`{name}`" not in emulated] == []


def test_each_goal_and_figure_is_explained() -> None:
    assert [goal.key for goal in GOALS if f"`{goal.key}`" not in SECTION] == []
    assert [name for name in METRICS if f"`{name}`" not in SECTION] == []
    rows = SECTION.splitlines()
    for goal in GOALS:
        if not goal.at_most:
            row = next(row for row in rows if f"`{goal.key}`" in row)
            assert goal.target in [float(number) for number in re.findall(r"\b\d\.\d+\b", row)]
