"""Amounts, durations and times as tables show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def amount(resources: dict[str, Any]) -> str:
    """Write resources, e.g. `2048 MB, 2 cores`."""
    return f"{resources['memory_mb']} MB, {resources['vcores']:g} cores"


def seconds(value: float | None) -> str:
    """Write a duration with one decimal; `-` for none."""
    return "-" if value is None else f"{value:.1f}"


def precise(value: float | None) -> str:
    """Write a duration in ms; `-` for none."""
    return "-" if value is None else f"{value:.3f}"


def moment(unix_s: float | None) -> str:
    """Write a time in UTC; `-` for none."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if unix_s else "-"
