"""bench-policies' result as a page: what each policy changes against its baseline, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quicksilver.report.model import Axis, Bars, Block, Page, Prose, ReportEstimate, ReportSection
from quicksilver_lab.bench.page import plain

_SHOWN: Final = {
    "tasks_per_s": "task throughput",
    "wait_p95_s": "p95 of task waits",
    "completion_mean_s": "mean job completion",
    "kills_per_1000": "kills per 1000 tasks",
    "again_per_1000": "shed or killed per 1000 tasks",
}
_PARTS: Final = {"virtual": "Under a virtual clock", "real": "On a real local cluster"}
Effects = Mapping[str, Mapping[str, Mapping[str, Any]]]


def _sentence(effects: Effects, key: str) -> str:
    """Return who changed a metric beyond chance, in words."""
    sure = []
    for name, by_metric in effects.items():
        effect = by_metric[key]
        still = 1.0 if effect["kind"] == "ratio" else 0.0
        if not effect["ci_low"] <= still <= effect["ci_high"]:
            unit = " times" if effect["kind"] == "ratio" else " more" if effect["effect"] > 0 else ""
            sure.append(f"`{name}` {effect['effect']:g}{unit}")
    return f"{_SHOWN[key]}: {', '.join(sure) if sure else 'nothing differs beyond chance'}."


def _bars(effects: Effects, key: str) -> Bars:
    rows = [by_metric[key] for by_metric in effects.values()]
    ratio = all(row["kind"] == "ratio" for row in rows)
    label = "ratio to the baseline" if ratio else "difference from the baseline"
    values = [ReportEstimate(row["effect"], row["ci_low"], row["ci_high"]) for row in rows]
    return Bars(_SHOWN[key], Axis(label), list(effects), [("", values)], 1.0 if ratio else 0.0)


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result: a section for each part that was run, then all figures."""
    sections, short = [], []
    for part, title in _PARTS.items():
        effects: Effects = result.get(part, {}).get("effects", {})
        keys = [key for key in _SHOWN if effects and all(key in by_metric for by_metric in effects.values())]
        drawn: list[Block] = [_bars(effects, key) for key in keys]
        short += [Prose(f"{title}, {_sentence(effects, key)}") for key in keys]
        sections += [ReportSection(title, drawn)] if drawn else []
    summary = plain.read(result)
    head = [ReportSection("In short", short)] if short else []
    return Page(summary.title, summary.facts, [*head, *sections, *summary.sections])
