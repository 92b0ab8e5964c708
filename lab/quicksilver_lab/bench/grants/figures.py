"""From what probes and load saw to the figures of a step, and to the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from quicksilver_lab.bench.grants.probes import ProbeResult
from quicksilver_lab.bench.grants.systems import OWN
from quicksilver_lab.bench.load.loadgen import Measured
from quicksilver_lab.bench.stats import percentile, spread

GOALS: Final[Mapping[str, float]] = {"p50_ms": 1.0, "p99_ms": 5.0}
"""At most, of containers that the proxy makes itself, at the highest load."""
_PERCENTILES: Final = (50, 95, 99)


def figures(results: Sequence[ProbeResult], loads: Sequence[Measured | None]) -> dict[str, Any]:
    """Return the figures of one system under one load; results, loads: of each round, None for a load of nothing."""
    return {
        "grants": sum(len(result.grants) for result in results),
        **_milliseconds("", [[sample.call_us for sample in result.grants] for result in results]),
        **_milliseconds("since_ask_", [[sample.since_ask_us for sample in result.grants] for result in results]),
        **_of_grants(results),
        "reached_per_s": spread([0.0 if load is None else _rate(load) for load in loads], 0),
        "load_grants_per_s": round(median(0.0 if load is None else load.granted / load.seconds for load in loads), 1),
        **_of_load([load for load in loads if load is not None]),
        **_milliseconds("probes_late_", [result.late_us for result in results]),
        "skipped": sum(result.skipped for result in results),
        "missing": sum(result.missing for result in results),
        "refused": sum(result.refused for result in results),
        "reconnects": sum(result.reconnects for result in results),
        **{
            f"{name}_cores": round(median(result.cpu_s[name] / result.seconds for result in results), 3)
            for name in (results[0].cpu_s if results else ())
        },
    }


def _milliseconds(prefix: str, rounds: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the percentiles of microseconds of each round as milliseconds; None where a round has none."""
    if not all(rounds):
        return {f"{prefix}p{q}_ms": None for q in _PERCENTILES}
    return {f"{prefix}p{q}_ms": spread([percentile(samples, q) / 1e3 for samples in rounds], 3) for q in _PERCENTILES}


def _of_grants(results: Sequence[ProbeResult]) -> dict[str, Any]:
    samples = [sample for result in results for sample in result.grants]
    if not samples:
        return dict.fromkeys(("calls", "first_call_ratio", "own_ratio", "ahead_ratio"))
    return {
        "calls": round(sum(sample.calls for sample in samples) / len(samples), 3),
        "first_call_ratio": round(sum(sample.calls == 1 for sample in samples) / len(samples), 4),
        "own_ratio": round(sum(sample.own for sample in samples) / len(samples), 4),
        "ahead_ratio": round(sum(sample.ahead for sample in samples) / len(samples), 4),
    }


def _rate(load: Measured) -> float:
    return sum(map(len, load.latency_us)) / load.seconds


def _of_load(loads: Sequence[Measured]) -> dict[str, Any]:
    """Return what the other masters saw of their own calls, and how late their process was at worst."""
    calls = [[*load.latency_us[0], *load.latency_us[1]] for load in loads]
    return {
        **(_milliseconds("load_", calls) if calls else {f"load_p{q}_ms": None for q in _PERCENTILES}),
        "load_late_ms": round(max((load.late_ms for load in loads), default=0.0), 2),
    }


def goals(steps: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return, for each system of OWN in `steps`, its figures under the highest load, and whether they meet GOALS."""
    result: dict[str, dict[str, Any]] = {}
    for system in OWN:
        of_system = [step for step in steps if step["system"] == system]
        if not of_system:
            continue
        step = max(of_system, key=lambda each: each["load_per_s"])
        values = {name: step[name]["median"] if step[name] else None for name in GOALS}
        met = all(value is not None and value <= GOALS[name] for name, value in values.items())
        result[system] = {"load_per_s": step["load_per_s"], **values, "met": met}
    return result
