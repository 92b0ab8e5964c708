"""What a result says, in words, and what to write into quicksilver.yaml for it: the top of its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from quicksilver.common.settings.settings_yaml import settings_yaml
from quicksilver.report.cells import shown
from quicksilver.report.model import Block, Code, Prose, ReportEstimate, ReportSection, ReportTable, Value
from quicksilver_lab.bench.harm import LONGER_S, RATIO, sentence
from quicksilver_lab.bench.page import plain

_LATENCIES: Final = (
    ("latency_mean_s", "the mean job"),
    ("latency_p50_s", "the median job"),
    ("latency_p95_s", "the p95 of jobs"),
    ("makespan_s", "all jobs together"),
)
_HARM: Final = ("jobs", "harmed", "unfinished", "ratio_p95", "ratio_worst", "worst")
_NO_CHANGE: Final = 0.005
"""A ratio so near to 1 is called the same."""


def in_short(result: Mapping[str, Any], more: Sequence[str] = ()) -> list[ReportSection]:
    """Return the section on top: `more`, then which goals were met, then what to write; none without any of them."""
    blocks: list[Block] = [Prose(sentence) for sentence in (*more, *_goals(result.get("goals", {})))]
    blocks += settings(result.get("policies", {}))
    return [ReportSection("In short", blocks)] if blocks else []


def _goals(goals: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    judged = {name: goal for name, goal in goals.items() if goal.get("met") is not None}
    missed = [name for name, goal in judged.items() if not goal["met"]]
    if judged:
        yield f"{len(judged) - len(missed)} of {len(judged)} goals are met."
    if missed:
        yield "Missed: " + ", ".join(f"`{name}` ({_reached(judged[name])})" for name in missed) + "."


def _reached(goal: Mapping[str, Any]) -> str:
    aim = goal.get("goal", goal.get("target"))
    value = plain.value_of({key: goal[key] for key in ("value", "ratio") if key in goal})
    return f"{shown(value)}, goal {shown(aim)}"


def settings(policies: Mapping[str, Any]) -> list[Block]:
    """Return what to write into quicksilver.yaml for each competitor that is quicksilver; by its name, its section."""
    return [
        Code(settings_yaml({"policies": section}), f"To run `{name}`, write into quicksilver.yaml")
        for name, section in policies.items()
    ]


def ratio_of(ratio: Any) -> Value:
    """Return a ratio with its interval, if it has one."""
    if not isinstance(ratio, Mapping):
        return ratio if isinstance(ratio, (int, float)) else None
    middle = "ratio" if "ratio" in ratio else "value"
    return plain.value_of({key: ratio[key] for key in (middle, "ci_low", "ci_high") if key in ratio})


def words(ratio: Value) -> str:
    """Return a ratio of times as "0.82 of the time (18 % faster)"; "" for none."""
    middle = ratio.value if isinstance(ratio, ReportEstimate) else ratio
    if not isinstance(middle, (int, float)):
        return ""
    if isinstance(ratio, ReportEstimate) and ratio.low <= 1 <= ratio.high:
        return f"{shown(ratio)} of the time, which may be chance"
    if abs(middle - 1) < _NO_CHANGE:
        return "the same time"
    return f"{shown(ratio)} of the time ({100 * abs(1 - middle):.0f} % {'faster' if middle < 1 else 'slower'})"


def compared(competitor: str, rival: str, ratios: Mapping[str, Any]) -> str:
    """Return a sentence on how long jobs took; "" where no latency is compared."""
    texts = [(metric, words(ratio_of(ratios.get(key)))) for key, metric in _LATENCIES]
    parts = [f"{metric} took {text}" for metric, text in texts if text]
    return f"`{competitor}` against {rival}: {'; '.join(parts)}." if parts else ""


def harmed(harm: Mapping[str, Mapping[str, Any]], where: str = "") -> list[str]:
    """Return a sentence for each pair of competitors: how many single jobs were harmed."""
    return [
        sentence(competitor, rival, row, where) for competitor, others in harm.items() for rival, row in others.items()
    ]


def harm_table(harm: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Return the same as a table."""
    rows: list[list[Value]] = [
        [competitor, rival, *(plain.value_of(row.get(key)) for key in _HARM)]
        for competitor, others in harm.items()
        for rival, row in others.items()
    ]
    columns = ["competitor", "against", "jobs", f"> {RATIO:g} times and {LONGER_S:g} s longer", "did not end"]
    columns += ["p95 of ratios", "worst ratio", "worst job"]
    return [ReportTable(columns, rows, "Single jobs against the same jobs on stock YARN")] if rows else []


def losses(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """Return who killed how much; "" where nobody counts kills."""
    counted = {name: row for name, row in figures.items() if row.get("kills") is not None}
    killed = [f"`{name}` {shown(row['kills'])}{_lost(row)}" for name, row in counted.items() if row["kills"]]
    if not counted:
        return ""
    return f"Containers killed: {', '.join(killed)}." if killed else "Nothing was killed."


def _lost(row: Mapping[str, Any]) -> str:
    lost = plain.value_of(row.get("work_lost_s"))
    return f" ({shown(lost)} s of work lost)" if lost is not None else ""
