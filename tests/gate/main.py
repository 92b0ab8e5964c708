"""The command `scripts/test`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.gate import report
from tests.gate.runner import Result, Runner, pytest_command
from tests.gate.steps import ALL, ALONE_MARK, GATE, SEED, Step
from tests.paths import ROOT

RUN: Final = ROOT / "run"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/test", description="Run the tests.")
    parser.add_argument("--all", action="store_true", help="all tests, and tables of what took how long")
    parser.add_argument("--only", metavar="STEP", help=f"one step alone: {', '.join(step.name for step in GATE + ALL)}")
    parser.add_argument("--save-durations", action="store_true", help="keep those of the last runs, run nothing")
    given = parser.parse_args(arguments)
    if given.save_durations:
        count = report.save_durations(sorted(RUN.glob("junit-*.xml")))
        print(f"tests: durations of {count} modules are kept")
        return 0
    seed = os.environ.setdefault(SEED, f"{datetime.datetime.now(datetime.UTC):%Y%m%d}")
    print(f"tests: random histories are those of {SEED}={seed}", flush=True)
    steps = [step for step in GATE + ALL if step.name == given.only] if given.only else (ALL if given.all else GATE)
    if not steps:
        parser.error(f"no step is named {given.only}")
    return run_steps(steps, RUN, goes_on=given.all)


def run_steps(
    steps: Sequence[Step], out: Path, *, goes_on: bool, root: Path = ROOT, runner: Runner | None = None
) -> int:
    """Run steps; unless `goes_on`, the first that fails is the last. Returns the exit status."""
    out.mkdir(exist_ok=True)
    runner = runner or Runner()
    done: list[dict[str, Any]] = []
    failed: list[Result] = []
    junits = [out / f"junit-{step.name}.xml" for step in steps]
    for junit in junits:
        junit.unlink(missing_ok=True)
    for step, junit in zip(steps, junits, strict=True):
        if failed and (not goes_on or failed[-1].interrupted):
            done.append({"name": step.name, "result": "not begun"})
            continue
        print(f"tests: {step.name}", flush=True)
        result = runner.run(step, pytest_command(step, junit, alone_modules(root)), root)
        done.append(entry(step, result))
        if result.reasons:
            failed.append(result)
    if goes_on:
        print_tables(junits, root)
    (out / "gate.json").write_text(json.dumps(done, indent=1) + "\n")
    print("\n" + "\n".join(f"tests: {line}" for line in report.step_lines(done)))
    for one in done:
        for reason in one.get("reasons", ()):
            print(f"tests: {one['name']} failed: {reason}")
    return 1 if failed else 0


def entry(step: Step, result: Result) -> dict[str, Any]:
    return {
        "name": step.name,
        "result": "failed" if result.reasons else "passed",
        "wall_s": round(result.wall_s, 1),
        "wall_limit_s": step.wall_limit_s,
        "cpu_s": round(result.cpu_s, 1),
        "cpu_limit_s": step.cpu_limit_s,
        "slowness": round(result.slowness, 2),
        "reasons": result.reasons,
    }


def print_tables(junits: Sequence[Path], root: Path) -> None:
    tests = [test for junit in junits for test in report.tests_of(junit, root)]
    print("\ntests: by folder\n" + "\n".join(report.by_folder(tests)))
    print("\ntests: the longest 40\n" + "\n".join(report.longest(tests, 40)))


def alone_modules(root: Path) -> list[str]:
    """Return the modules with tests that run alone; to read all others takes long."""
    paths = (path for folder in ("tests", "apps/tests", "lab/tests") for path in (root / folder).rglob("test_*.py"))
    return sorted(str(path.relative_to(root)) for path in paths if ALONE_MARK in path.read_text())
