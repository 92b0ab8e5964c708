"""Growth over sizes."""

from __future__ import annotations

from typing import Any

import pytest

from bench.page.__main__ import page_of
from bench.page.model import Lines, Table


def result(**more: Any) -> dict[str, Any]:
    points = [
        {
            "nodes": nodes,
            "masters": masters,
            "cpu_ms": nodes * masters**0.5,
            "p50_ms": {"median": 0.2, "min": 0.1, "max": 3},
        }
        for nodes in (64, 256, 1000)
        for masters in (10, 1000)
    ]
    return {"benchmark": "scale", "added_p50_ms": 0.2, "points": points, **more}


def test_each_figure_is_drawn_over_both_sizes_with_its_fit() -> None:
    page = page_of(result())
    table, fits = (block for block in page.sections[1].blocks if isinstance(block, Table))
    assert table.columns == ["nodes", "masters", "cpu_ms", "p50_ms"]
    assert len(table.rows) == 6
    assert {(row[0], row[1]): row[3] for row in fits.rows} == {
        ("`cpu_ms`", "nodes"): pytest.approx(1.0),
        ("`cpu_ms`", "application masters"): pytest.approx(0.5),
        ("`p50_ms`", "nodes"): pytest.approx(0.0),
        ("`p50_ms`", "application masters"): pytest.approx(0.0),
    }
    plots = page.plots()
    assert [plot.title for plot in plots] == [
        "cpu_ms by nodes",
        "cpu_ms by application masters",
        "p50_ms by nodes",
        "p50_ms by application masters",
    ]
    first = plots[0]
    assert isinstance(first, Lines)
    assert first.x.log and first.y.log
    measured, fitted = first.series[:2]
    assert (measured.name, fitted.name) == ("10 application masters",) * 2
    assert fitted.dashed and fitted.y[-1] == pytest.approx(measured.y[-1])
    assert page.sections[0].blocks[0] == Table(["key", "value"], [("added_p50_ms", 0.2)])


def test_a_figure_of_one_size_and_one_that_is_not_above_0_are_in_the_table_alone() -> None:
    points = [{"nodes": 64, "masters": 10, "a": 1.0, "b": 0.0}, {"nodes": 256, "masters": 20, "a": 2.0, "b": -1.0}]
    page = page_of(result(points=points))
    assert page.plots() == []
    assert [table.columns for table in page.sections[1].blocks if isinstance(table, Table)] == [
        ["nodes", "masters", "a", "b"]
    ]
    assert len(page_of(result(points=[])).sections) == 1


def test_a_point_without_its_size_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match="KeyError: 'masters': not as bench-scale writes it"):
        page_of(result(points=[{"nodes": 64, "a": 1.0}]))
