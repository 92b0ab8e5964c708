"""`make bench-policies`: each policy alone and all together, under a virtual clock."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import click

from policies.config.registry import Registry
from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.page.pages import beside
from quicksilver_lab.bench.policies import virtual
from quicksilver_lab.bench.policies.jobs import JobsPlan
from quicksilver_lab.bench.policies.variants import PolicyVariant, available
from quicksilver_lab.bench.policies.virtual import VirtualOutcome
from quicksilver_lab.workloads.environment import Progresses, interruptible

_QUICK: Final = JobsPlan(nodes=60, arrivals_s=20.0)


def selection(names: str, registry: Registry) -> tuple[list[PolicyVariant], list[str]]:
    """Return the variants to run, with those that they are compared with, and the names of what is not installed.

    names: with commas between them; "" for all. Raises click.BadParameter for an unknown one.
    """
    variants, absent = available(registry)
    if not names:
        return variants, absent
    by_name = {variant.name: variant for variant in variants}
    selected = {name.strip() for name in names.split(",")}
    unknown = selected - by_name.keys()
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(by_name)}")
    selected |= {by_name[name].against for name in selected}
    return [variant for variant in variants if variant.name in selected], []


@click.command()
@click.option("--quick", is_flag=True, help="Fewer nodes, jobs and seeds: 2 minutes.")
@click.option("--policies", "names", default="", help="Only these, with commas between them.  [default: all]")
@click.option("--seeds", type=click.IntRange(2), help="Runs of each.  [default: 5; quick: 3]")
@click.option("--nodes", type=click.IntRange(1), help="Virtual ones.  [default: 200; quick: 60]")
@click.option("--arrivals", type=click.FloatRange(15), help="Virtual seconds.  [default: 40; quick: 20]")
@click.option("--load", type=click.FloatRange(0.1), help="Offered to the virtual nodes.  [default: 0.9]")
@results.folder_option
def policies(
    quick: bool,
    names: str,
    seeds: int | None,
    nodes: int | None,
    arrivals: float | None,
    load: float | None,
    folder: Path,
) -> None:
    """Each policy alone and all together against none, with confidence intervals over seeds.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    progress = Progresses()
    base = _QUICK if quick else JobsPlan()
    plan = replace(base, nodes=nodes or base.nodes, arrivals_s=arrivals or base.arrivals_s, load=load or base.load)
    variants, absent = selection(names, Registry())
    about = {"machine": results.machine(), "commit": results.commit()}
    outcomes: list[VirtualOutcome] = []
    broken = ""
    with interruptible():
        try:
            drawn, processes = range(1, (seeds or (3 if quick else 5)) + 1), len(os.sched_getaffinity(0))
            for outcome in virtual.measure(plan, variants, drawn, processes, progress):
                outcomes.append(outcome)
        except (QuicksilverError, OSError, RuntimeError, KeyboardInterrupt) as error:
            broken = f"{type(error).__name__}: {error}"
            progress(f"error: {broken}")
    counted = virtual.whole(outcomes, variants)  # after an interruption only seeds that all variants were run with
    measured: dict[str, Any] = {}
    numbers = sorted({outcome.seed for outcome in counted})
    if len(numbers) > 1:
        settings = {"settings": asdict(plan), "absent": absent, "seeds": numbers}
        measured["virtual"] = virtual.compared(counted, variants) | settings
    result = {"benchmark": "policies", **measured, "broken": broken, **about}
    path = results.write("policies", result, {"virtual": [asdict(outcome) for outcome in outcomes]}, folder)
    progress(f"written to {path}")
    progress(f"its page is {beside(path)}")
    click.echo(json.dumps(result))
    if broken or any(part["wrong"] for part in measured.values()):
        sys.exit(1)
