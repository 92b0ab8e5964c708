"""A study's runs as figures with confidence, and as files."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from quicksilver.common.errors import QuicksilverError
from quicksilver.report.model import ReportEstimate
from quicksilver.simulator.figures import Figures
from quicksilver.simulator.results import (
    better,
    by_label,
    compared,
    metric,
    needs,
    summary,
    write_csv,
    write_json,
    write_parquet,
)
from quicksilver.simulator.run import Row

ABOUT = {"trace": "abc"}


def row(label: str, seed: int, mean: float, **more: Any) -> Row:
    metrics = {"mean_all": mean, "p95_all": 2 * mean, "wait_all": 0.0, "utilisation": 0.5}
    result = Figures(metrics, {"all": [mean]}, [], {}, {"tasks": 4}, {"own": 0.5})
    return Row(label, label.split()[0], {"k": 1}, more, seed, result, 0.1)


ROWS = [row("a", 1, 10.0), row("b k=2", 1, 5.0, k=2), row("a", 2, 12.0), row("b k=2", 2, 6.1, k=2)]


def test_means_have_intervals_over_seeds() -> None:
    result = metric(by_label(ROWS)["a"], "mean_all")
    assert isinstance(result, ReportEstimate)
    assert (result.value, result.low) == (11.0, pytest.approx(11 - 12.706))
    assert metric(ROWS[:1], "mean_all") == 10.0
    assert metric(ROWS, "wait_all") == 0.0
    assert metric(ROWS, "p99_all") is None


def test_ratios_are_paired_by_seed_whatever_the_order() -> None:
    variants = by_label([*ROWS[:1], *ROWS[:0:-1]])
    result = compared(variants["a"], variants["b k=2"], "mean_all")
    assert isinstance(result, ReportEstimate)
    assert result.value == pytest.approx((0.5 * 6.1 / 12) ** 0.5, abs=1e-4)
    assert result.low < 0.5 < result.high
    assert compared(variants["a"][:1], variants["b k=2"], "mean_all") == 0.5
    assert compared(variants["a"], variants["b k=2"], "wait_all") is None


def test_what_is_better_depends_on_the_figure_and_on_doubt() -> None:
    assert better("mean_all", ReportEstimate(0.5, 0.4, 0.6)) is True
    assert better("utilisation", ReportEstimate(0.5, 0.4, 0.6)) is False
    assert better("mean_all", ReportEstimate(0.5, 0.4, 1.1)) is None
    assert better("mean_all", 0.5) is None


def test_the_summary_has_each_variant_against_the_first() -> None:
    result = summary(ABOUT, ROWS)
    assert result["trace"] == "abc"
    assert list(result["variants"]) == ["a", "b k=2"]
    assert result["variants"]["a"]["against"] == {}
    assert result["variants"]["b k=2"]["against"]["utilisation"] == {"value": 1.0, "ci_low": 1.0, "ci_high": 1.0}
    assert result["variants"]["b k=2"]["seeds"] == [1, 2]


def test_files_hold_all_runs(tmp_path: Path) -> None:
    write_json(tmp_path / "result.json", ABOUT, ROWS)
    result = json.loads((tmp_path / "result.json").read_text())
    assert [(run["label"], run["seed"]) for run in result["runs"]] == [("a", 1), ("b k=2", 1), ("a", 2), ("b k=2", 2)]
    assert result["runs"][1]["figures"]["metrics"]["mean_all"] == 5.0
    write_csv(tmp_path / "runs.csv", ABOUT, ROWS)
    with (tmp_path / "runs.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["mean_all"] for line in lines] == ["10.0", "5.0", "12.0", "6.1"]
    assert [line["set_k"] for line in lines] == ["", "2", "", "2"]
    assert (lines[0]["count_tasks"], lines[0]["extra_own"], lines[0]["settings"]) == ("4", "0.5", '{"k": 1}')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json", "runs.csv"]


def test_parquet_holds_the_same(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_parquet(tmp_path / "runs.parquet", ABOUT, [*ROWS, row("c", 1, 3.0, k="x")])
    result = parquet.read_table(tmp_path / "runs.parquet")
    assert result.column("mean_all").to_pylist() == [10.0, 5.0, 12.0, 6.1, 3.0]
    assert result.column("set_k").to_pylist() == [None, "2", None, "2", "x"]
    assert result.column("count_tasks").to_pylist() == [4] * 5
    assert json.loads(result.schema.metadata[b"quicksilver"]) == ABOUT


def test_without_pyarrow_it_is_said_before_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    needs(["csv", "json", "html"], tmp_path)
    with pytest.raises(
        QuicksilverError, match=r"no Parquet without pyarrow; run pip install 'yarn-quicksilver\[parquet\]'"
    ):
        needs(["csv", "parquet"], tmp_path)
