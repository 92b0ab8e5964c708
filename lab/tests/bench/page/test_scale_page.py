"""Growth over sizes."""

from __future__ import annotations

from typing import Any

import pytest

from quicksilver.report.model import Lines, ReportTable
from quicksilver_lab.bench.page.pages import page_of


def result(**more: Any) -> dict[str, Any]:
    points = [
        {
            "nodes": nodes,
            "masters": masters,
            "added_p50_ms": nodes / 1000,
            "cpu_ms_per_1000_heartbeats": {"median": 60.0, "min": 50, "max": 70},
            "latency": {"direct": {"p50_ms": 1}},
        }
        for nodes in (64, 256)
        for masters in (10, 1000)
    ]
    growth = {
        "round_ms_by_nodes": {
            "exponent": 1.0,
            "line": {"base": 0.0, "each": 0.5},
            "points": {"64": 32.0, "256": 128.0},
        },
        "rss_mb_by_masters": {"exponent": None, "line": None, "points": {"10": 90.0}},
    }
    by_nodes = [{"nodes": 64, "idle_cores": 0.1, "cores": {"rm": 0.2}}, {"nodes": 256, "idle_cores": 0.4}]
    return {"benchmark": "scale", "added_p50_ms": 0.2, "points": points, "growth": growth, "by_nodes": by_nodes, **more}


def test_what_heartbeats_cost_is_drawn_over_masters_by_nodes() -> None:
    section = page_of(result()).sections[1]
    table, *plots = section.blocks
    assert isinstance(table, ReportTable)
    assert table.columns == ["nodes", "masters", "added_p50_ms", "cpu_ms_per_1000_heartbeats"]
    assert [plot.title for plot in plots if isinstance(plot, Lines)] == [
        "Added latency, p50, ms",
        "CPU for 1,000 heartbeats, ms",
    ]
    first = plots[0]
    assert isinstance(first, Lines)
    assert [(one.name, one.x, one.y) for one in first.series] == [
        ("64 nodes", [10, 1000], [0.064, 0.064]),
        ("256 nodes", [10, 1000], [0.256, 0.256]),
    ]


def test_growth_is_a_table_of_fits_and_a_logarithmic_plot_with_the_law_dashed() -> None:
    table, *plots = page_of(result()).sections[2].blocks
    assert isinstance(table, ReportTable)
    assert table.rows == [
        ["`round_ms_by_nodes`", 1.0, 0.0, 0.5, "64, 256"],
        ["`rss_mb_by_masters`", None, None, None, "10"],
    ]
    (plot,) = plots
    assert isinstance(plot, Lines)
    assert plot.title == "round_ms by nodes"
    assert plot.x.log
    assert plot.y.log
    measured, law = plot.series
    assert law.dashed
    assert list(law.y) == [pytest.approx(value) for value in measured.y]


def test_the_rest_is_tables() -> None:
    first = page_of(result()).sections[0]
    assert first.blocks == [
        ReportTable(["key", "value"], [("added_p50_ms", 0.2)]),
        ReportTable(["nodes", "idle_cores"], [[64, 0.1], [256, 0.4]], "by_nodes"),
    ]
    assert len(page_of({"benchmark": "scale", "added_p50_ms": 0.2}).sections) == 1


def test_a_point_without_its_size_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match="KeyError: 'masters': not as bench-scale writes it"):
        page_of(result(points=[{"nodes": 64, "added_p50_ms": 1.0}]))
