"""bench-zoe's result as a page: whole applications under each system, beside the simulator and the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quicksilver.report.cells import shown
from quicksilver.report.model import Axis, Block, Lines, Page, ReportSection, ReportTable, Series
from quicksilver_lab.bench.page import plain
from quicksilver_lab.bench.page.verdict import in_short

_CLASSES: Final = {"": "all", "batch-elastic": "elastic", "batch-rigid": "rigid"}
_SAID: Final = (("turnaround_p50", "the median turnaround"), ("turnaround_mean", "the mean turnaround"))


def read(result: Mapping[str, Any]) -> Page:
    """Return the page of a result; its distributions are of `raw`."""
    ratios: Mapping[str, Mapping[str, Any]] = result["ratios"]
    apart = ("seeds", "ratios", "simulated_ratios", "paper", "policies")
    facts = plain.read({name: value for name, value in result.items() if name not in apart}).facts
    compared: list[Block] = [_ratios(ratios, "Ratios on the emulated cluster")]
    simulated = result.get("simulated_ratios", {})
    compared += [_ratios(simulated, "Ratios in the simulator, without any delay")] if simulated else []
    compared += [_ratios(result["paper"], "Ratios in the paper (§6, Figure 10)")]
    sections = [*in_short(result, list(_sentences(ratios))), ReportSection("Compared", compared)]
    for seed, figures in result["seeds"].items():
        blocks: list[Block] = [_systems(figures["systems"], "On the emulated cluster")]
        blocks += [_systems(figures["simulated"], "In the simulator")]
        blocks += _distributions(result.get("raw", {}).get(seed, {}))
        sections.append(ReportSection(f"Seed {seed}", blocks))
    return Page("bench-zoe", facts, sections)


def _sentences(ratios: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    for pair, row in ratios.items():
        system, _, base = pair.partition("/")
        parts = [f"{metric} is {shown(plain.value_of(row[key]))} times" for key, metric in _SAID if key in row]
        if parts:
            yield f"`{system}` against `{base}`: {', '.join(parts)} as long."


def _ratios(ratios: Mapping[str, Mapping[str, Any]], title: str) -> ReportTable:
    names = list(dict.fromkeys(name for row in ratios.values() for name in row))
    return ReportTable(
        ["figure", *ratios],
        [[name, *(plain.value_of(row.get(name)) for row in ratios.values())] for name in names],
        title,
    )


def _systems(systems: Mapping[str, Mapping[str, Any]], title: str) -> ReportTable:
    names = list(dict.fromkeys(name for row in systems.values() for name, value in row.items() if _is_number(value)))
    return ReportTable(
        ["figure", *systems], [[name, *(row.get(name) for row in systems.values())] for name in names], title
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _distributions(raw: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Return the distribution of turnarounds of all applications, and of each class, as Figure 10 compares them."""
    blocks: list[Block] = []
    for klass, name in _CLASSES.items():
        lines = [_cumulative(system, _turnarounds_s(run["records"], klass)) for system, run in raw.items()]
        lines = [line for line in lines if line.x]
        if lines:
            x, y = Axis("seconds"), Axis("share of applications", most=1.0)
            blocks.append(Lines(f"Turnaround, {name}", x, y, lines, step=True))
    return blocks


def _turnarounds_s(records: Sequence[Mapping[str, Any]], klass: str) -> list[float]:
    ended = [record for record in records if record["ended_s"] is not None and klass in ("", record["klass"])]
    return sorted(record["ended_s"] - record["submitted_s"] for record in ended)


def _cumulative(name: str, values: Sequence[float]) -> Series:
    return Series(name, values, [number / len(values) for number in range(1, len(values) + 1)])
