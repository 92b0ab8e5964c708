"""What a study found, as JSON, CSV and Parquet: one row per run, and the summary over its seeds."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from math import exp, log
from pathlib import Path
from typing import Any, Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.extras import missing
from quicksilver.report.model import ReportEstimate
from quicksilver.report.stats import interval
from quicksilver.simulator.figures import ALL, HIGHER_IS_BETTER
from quicksilver.simulator.run import Row
from quicksilver.simulator.stock import base_first

Columns = Mapping[str, str | int | float]


def by_label(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the runs of each variant, by seed, in the order of the first seed's."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.label, []).append(row)
    return {label: sorted(same, key=lambda row: row.seed) for label, same in groups.items()}


def estimate(values: Sequence[float]) -> float | ReportEstimate:
    """Return the mean with its 95 % confidence interval; a single value, or equal ones, as they are."""
    if len(set(values)) == 1:
        return values[0]
    mean, low, high = interval(values)
    return ReportEstimate(mean, low, high)


def metric(rows: Sequence[Row], name: str) -> float | ReportEstimate | None:
    """Return a figure over the seeds; None where a run has none such."""
    values = [row.figures.metrics[name] for row in rows if name in row.figures.metrics]
    return estimate(values) if values and len(values) == len(rows) else None


def compared(base: Sequence[Row], rows: Sequence[Row], name: str) -> ReportEstimate | float | None:
    """Return the ratio of a figure to that of `base`, paired by seed; None without pairs, or where one is 0."""
    others = {row.seed: row.figures.metrics.get(name, 0.0) for row in base}
    pairs = [(others[row.seed], row.figures.metrics.get(name, 0.0)) for row in rows if row.seed in others]
    if not pairs or min(min(pair) for pair in pairs) <= 0:
        return None
    if len(pairs) == 1:
        return pairs[0][1] / pairs[0][0]
    return ReportEstimate(*map(exp, interval([log(new / old) for old, new in pairs])))


def better(name: str, ratio: ReportEstimate | float | None) -> bool | None:
    """Return whether a ratio to the first system is an improvement beyond doubt, a loss beyond doubt, or neither."""
    if not isinstance(ratio, ReportEstimate) or ratio.low <= 1 <= ratio.high:
        return None
    return (ratio.value > 1) == (name in HIGHER_IS_BETTER)


def metrics_of(rows: Sequence[Row]) -> list[str]:
    """Return the names of all figures, those of all jobs first."""
    names = dict.fromkeys(name for row in rows for name in row.figures.metrics)
    return sorted(names, key=lambda name: not name.endswith(f"_{ALL}"))


def columns(row: Row) -> Columns:
    """Return a run as one flat row: what it was, its figures, and as count_X and extra_X what its system told."""
    return {
        "label": row.label,
        "system": row.system,
        "seed": row.seed,
        "settings": json.dumps(row.settings, sort_keys=True),
        **{f"set_{name}": value if isinstance(value, (str, int, float)) else json.dumps(value)
           for name, value in row.varied.items()},
        **row.figures.metrics,
        **{f"count_{name}": value for name, value in row.figures.counts.items()},
        **{f"extra_{name}": value for name, value in row.figures.extra.items()},
    }  # fmt: skip


def summary(about: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Return a study as JSON holds it: {value, ci_low, ci_high} over the seeds.

    `against` is the ratio to `base`, paired by seed: the best stock scheduler, or without one the first system.
    """
    variants = by_label(rows)
    first = next(iter(base_first(variants)), None)
    base = variants[first] if first else []
    return {
        **about,
        "base": first,
        "variants": {
            label: {
                "system": same[0].system,
                "settings": same[0].settings,
                "seeds": [row.seed for row in same],
                "figures": {name: _jsonable(metric(same, name)) for name in metrics_of(same)},
                "against": {name: _jsonable(compared(base, same, name)) for name in metrics_of(same)}
                if same is not base
                else {},
                "counts": [dict(row.figures.counts) for row in same],
                "extra": [dict(row.figures.extra) for row in same],
            }
            for label, same in variants.items()
        },
    }


def _jsonable(value: float | ReportEstimate | None) -> Any:
    if isinstance(value, ReportEstimate):
        return {"value": value.value, "ci_low": value.low, "ci_high": value.high}
    return value


def write_json(path: Path, about: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write the summary, and the runs. Raises OSError."""
    data = summary(about, rows) | {"runs": [row.as_json() for row in rows]}
    _whole(path, json.dumps(data, separators=(",", ":")).encode())


def write_csv(path: Path, about: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write a line for each run. Raises OSError."""
    records = list(map(columns, rows))
    text = StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    _whole(path, text.getvalue().encode())


def write_parquet(path: Path, about: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write a row for each run. Raises OSError, QuicksilverError where pyarrow is missing."""
    pyarrow, parquet = _pyarrow(path)
    records = list(map(columns, rows))
    names = list(dict.fromkeys(name for record in records for name in record))
    table = {name: _column([record.get(name) for record in records]) for name in names}
    arrow_table = pyarrow.table(table).replace_schema_metadata({"quicksilver": json.dumps(about)})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(arrow_table, sink)
    _whole(path, sink.getvalue().to_pybytes())


def _column(values: list[Any]) -> list[Any]:
    """Return values of one type: numbers, or text."""
    if any(isinstance(value, str) for value in values):
        return [None if value is None else str(value) for value in values]
    if any(isinstance(value, float) for value in values):
        return [None if value is None else float(value) for value in values]
    return values


def _pyarrow(path: Path) -> tuple[Any, Any]:
    if remedy := missing("pyarrow"):
        raise QuicksilverError("no Parquet without pyarrow", place=str(path), remedy=f"{remedy}, or ask for csv")
    import pyarrow
    from pyarrow import parquet

    return pyarrow, parquet


def needs(formats: Sequence[str], path: Path) -> None:
    """Raises QuicksilverError when something is missing that a format needs; better before hours of runs than after."""
    if "parquet" in formats:
        _pyarrow(path)


def _whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there as a whole, or as it was before."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)


Writer = Callable[[Path, Mapping[str, Any], Sequence[Row]], None]
WRITERS: Final[Mapping[str, Writer]] = {"json": write_json, "csv": write_csv, "parquet": write_parquet}
"""By format: writes result.json, runs.csv, runs.parquet."""
