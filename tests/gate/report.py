"""What took how long: tables from the junit files of a run, and the durations that lanes.py deals by."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.gate import lanes
from tests.gate.plugin import CPU_S
from tests.paths import ROOT


@dataclass(frozen=True)
class Test:
    __test__ = False
    module: str
    name: str
    duration_s: float
    cpu_s: float = 0
    """Of its process and of the processes that it started and waited for; not of a cluster that goes on."""


def tests_of(junit: Path, root: Path = ROOT) -> list[Test]:
    """Return the tests of a junit file; none when the run ended before it was written."""
    if not junit.exists():
        return []
    cases = ElementTree.parse(junit).iter("testcase")
    return [
        Test(
            _module_of(case.get("classname", ""), root),
            case.get("name", ""),
            float(case.get("time", 0)),
            sum(float(one.get("value", 0)) for one in case.iter("property") if one.get("name") == CPU_S),
        )
        for case in cases
    ]


def _module_of(classname: str, root: Path) -> str:
    """Return the file of "tests.policies.test_model.TestClass"."""
    parts = classname.split(".")
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end]) + ".py"
        if (root / path).is_file():
            return path
    return classname


def durations_of(tests: Iterable[Test]) -> dict[str, float]:
    """Return the seconds of each module."""
    found: dict[str, float] = defaultdict(float)
    for test in tests:
        found[test.module] += test.duration_s
    return {module: round(found[module], 1) for module in sorted(found)}


def save_durations(junits: Iterable[Path], file: Path = lanes.DURATIONS, root: Path = ROOT) -> int:
    """Write the seconds of the modules that ran, the longest of all files; returns how many modules that were.

    Others keep theirs, as long as they exist; what takes less than a second needs no line.
    """
    known: dict[str, float] = dict(json.loads(file.read_text())) if file.exists() else {}
    measured: dict[str, float] = {}
    for junit in junits:
        for module, seconds in durations_of(tests_of(junit, root)).items():
            measured[module] = max(seconds, measured.get(module, 0))
    merged = {module: seconds for module, seconds in (known | measured).items() if (root / module).is_file()}
    kept = {module: merged[module] for module in sorted(merged) if merged[module] >= 1 or _marked(root / module)}
    file.write_text(json.dumps(kept, indent=0) + "\n")
    return len(measured)


def _marked(module: Path) -> bool:
    """Return whether the module would be taken for a long one, were its duration not known."""
    return any(f"mark.{name}" in module.read_text() for name in lanes.DEFAULTS_S)


def by_folder(tests: Iterable[Test], depth: int = 3) -> list[str]:
    """Return a table: seconds of tests, their CPU seconds and their number by folder."""
    found: dict[str, list[Test]] = defaultdict(list)
    for test in tests:
        found["/".join(test.module.split("/")[:-1][:depth])].append(test)
    rows = [(sum(test.duration_s for test in those), folder, those) for folder, those in found.items()]
    return [
        f"{seconds:8.0f} s {sum(test.cpu_s for test in those):8.0f} CPU s {len(those):6d} tests  {folder}"
        for seconds, folder, those in sorted(rows, reverse=True, key=lambda row: row[0])
    ]


def longest(tests: Iterable[Test], count: int) -> list[str]:
    """Return a line for each of the longest tests."""
    rows = sorted(tests, key=lambda test: -test.duration_s)[:count]
    return [f"{test.duration_s:8.1f} s {test.cpu_s:8.1f} CPU s  {test.module}::{test.name}" for test in rows]


def step_lines(steps: Iterable[Mapping[str, object]]) -> list[str]:
    """Return a table of steps: wall and CPU time, each with its bound, and what became of it.

    slow: how many times as slow as the reference the machine was; the bound of CPU time is multiplied by it.
    """
    lines = [f"{'step':<10} {'wall':>8} {'limit':>8} {'CPU':>8} {'bound':>8} {'slow':>5}  result"]
    for step in steps:
        numbers = (step.get(name) for name in ("wall_s", "wall_limit_s", "cpu_s", "cpu_limit_s"))
        cells = " ".join(f"{number:>6.0f} s" if isinstance(number, int | float) else f"{'-':>8}" for number in numbers)
        slow = step.get("slowness")
        times = f"{slow:>5.2f}" if isinstance(slow, float) else f"{'-':>5}"
        lines.append(f"{step['name']:<10} {cells} {times}  {step['result']}")
    return lines
