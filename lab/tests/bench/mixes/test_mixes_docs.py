"""lab/docs/benchmarks.md has the mixes, the keys of the result and the goals."""

from __future__ import annotations

import re

from quicksilver_lab.bench.experiment.plan import load
from quicksilver_lab.bench.experiment.step import BOUNDS
from quicksilver_lab.bench.mixes import goals
from quicksilver_lab.bench.mixes.figures import METRICS
from quicksilver_lab.bench.mixes.mixes import BY_NAME
from tests.paths import LAB_DOCS

SECTION = (LAB_DOCS / "benchmarks.md").read_text().partition("## bench-mixes")[2].partition("\n## ")[0]


def test_each_mix_figure_and_bound_is_explained() -> None:
    names = (*BY_NAME, *METRICS, *BOUNDS[1:], *load("mixes").beside)
    assert [name for name in names if f"`{name}`" not in SECTION] == []


def test_each_goal_stands_there_with_its_number() -> None:
    numbers = {float(number) for number in re.findall(r"\b\d\.\d+\b", SECTION.partition("Goals: ")[2])}
    assert {*goals.KAIROS.values(), goals.WORST_CLASS} <= numbers
    assert {limit for own in goals.RATIOS.values() for limit in own.values()} <= numbers
    assert {
        goals.GAIN,
        goals.NOT_WORSE,
        goals.WORK_LOST,
        goals.CEILING_SHARE,
        goals.MICROSOFT,
        goals.TO_TUNED,
    } <= numbers
