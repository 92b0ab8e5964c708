"""What is stock YARN among the systems of a study, and which of it the others are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from quicksilver.simulator.figures import ALL
from quicksilver.simulator.naming import ONLY_G_NAME, policies_name
from quicksilver.simulator.run import Row
from quicksilver.simulator.sweep import POLICIES, STOCK

SYSTEMS: Final = frozenset((*STOCK, "yarn_fifo"))
"""Systems that are Hadoop as it comes."""
_POLICIES: Final = (ONLY_G_NAME, "preset=stock")
_MEAN: Final = f"mean_{ALL}"

Variants = Mapping[str, Sequence[Row]]
"""Runs by label."""


def is_stock(row: Row) -> bool:
    """Return whether a row is stock YARN: one of its schedulers, or the production world with everything guaranteed."""
    section = row.settings.get(POLICIES)
    return row.system in SYSTEMS or (isinstance(section, Mapping) and policies_name(section) in _POLICIES)


def stock_of(variants: Variants) -> list[str]:
    """Return the labels that are stock YARN."""
    return [label for label, rows in variants.items() if is_stock(rows[0])]


def best(name: str, labels: Sequence[str], variants: Variants) -> str:
    """Return the label with the lowest mean of a figure; "" if none has it."""
    means = {label: values for label in labels if (values := _values(name, variants[label]))}
    return min(means, key=lambda label: fmean(means[label])) if means else ""


def _values(name: str, rows: Sequence[Row]) -> list[float]:
    return [row.figures.metrics[name] for row in rows if name in row.figures.metrics]


def base_first(variants: Variants) -> dict[str, Sequence[Row]]:
    """Return the variants with the one first that all others are compared with.

    It is the stock one with the lowest mean job completion, where a system that is none stands beside it; else the
    first.
    """
    stock = stock_of(variants)
    base = best(_MEAN, stock, variants) if len(stock) < len(variants) else ""
    return {label: variants[label] for label in sorted(variants, key=lambda label: label != base)}


def rank(label: str, variants: Variants) -> str:
    """Return in words how good a stock system is, which depends on which of them ran; "" for one that is none."""
    if not is_stock(variants[label][0]):
        return ""
    if {rows[0].system for rows in variants.values()}.issuperset(STOCK):
        return "the best stock scheduler"
    if len(stock_of(variants)) == 1:
        return "the only stock scheduler that was run"
    return "the best of the stock schedulers that were run"
