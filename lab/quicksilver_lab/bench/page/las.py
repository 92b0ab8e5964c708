"""bench-las' result as a page: completions and slowdowns of each mode, as Figure 4.4 of Kairos' thesis has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quicksilver.report.model import Axis, Lines, Page, ReportSection
from quicksilver_lab.bench.page import plain
from quicksilver_lab.bench.page.shapes import cdf
from quicksilver_lab.bench.page.verdict import in_short

_AXES: Final = (
    ("completion_s", "Job completion", "seconds"),
    ("slowdown", "Slowdown", "completion / completion alone on idle stock YARN"),
)
_NAMES: Final = {
    "fifo": "YARN, FIFO",
    "opportunistic": "YARN, opportunistic",
    "kill_newest": "quicksilver, kill_newest",
    "las": "quicksilver, preset kairos",
    "quicksilver": "quicksilver, preset default",
}


def samples_of(result: Mapping[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Return by mode `completion_s` and `slowdown` of each job that ended, from `raw.modes`."""
    alone_s = result.get("alone_s", {}).get("fifo", {})
    samples: dict[str, dict[str, list[float]]] = {}
    for mode, run in result.get("raw", {}).get("modes", {}).items():
        done = [outcome for outcome in run["outcomes"] if outcome["completion_s"] is not None]
        samples[mode] = {
            "completion_s": [outcome["completion_s"] for outcome in done],
            "slowdown": [outcome["completion_s"] / alone_s[outcome["kind"]] for outcome in done],
        }
    return samples


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result; the distributions are of `raw.modes`."""
    samples, summary = samples_of(result), plain.read(result)
    drawn = [
        Lines(title, Axis(axis, log=True), Axis("share of the jobs", most=1.0), lines, step=True)
        for key, title, axis in _AXES
        if (lines := [cdf(_NAMES.get(mode, mode), own[key]) for mode, own in samples.items() if own[key]])
    ]
    plots = [ReportSection("Distributions", drawn)] if drawn else []
    return Page(summary.title, summary.facts, [*in_short(result), *plots, *summary.sections])
