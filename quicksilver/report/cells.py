"""Cells of tables as text, and their sort keys."""

from __future__ import annotations

from math import floor, isfinite, log10

from quicksilver.report.model import ReportEstimate, Value

MISSING = "–"


def number(value: float) -> str:
    """Return a number with three significant digits, all of them before the point: 1234.5 -> 1,234, 0.04567 -> 0.0457.

    Whole numbers and zero are written in full.
    """
    if isinstance(value, int) or not value:
        return f"{int(value):,}"
    if not isfinite(value):
        return str(value)
    digits = max(0, 2 - floor(log10(abs(value))))
    return f"{value:,.{digits}f}" if digits < 10 else f"{value:.2e}"


def shown(value: Value) -> str:
    """Return a cell's text: 1.42 (1.36 to 1.48) for an estimate."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, ReportEstimate):
        return f"{number(value.value)} ({number(value.low)} to {number(value.high)})"
    return number(value) if isinstance(value, (int, float)) else value


def sort_key(value: Value) -> float | None:
    """Return what a cell is sorted by when it is a number."""
    if isinstance(value, ReportEstimate):
        return value.value
    return float(value) if isinstance(value, (int, float)) else None
