"""`make bench-policies`: each policy alone and all together, under a virtual clock and on a real cluster."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from hadoop_rpc.errors import HadoopRpcError
from policies.config.registry import Registry
from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.las.run import interruptible
from quicksilver_lab.bench.page.pages import beside
from quicksilver_lab.bench.policies import real, virtual
from quicksilver_lab.bench.policies.jobs import JobsPlan
from quicksilver_lab.bench.policies.variants import PolicyVariant, available
from quicksilver_lab.bench.policies.virtual import VirtualOutcome
from quicksilver_lab.workloads.environment import Progresses

PARTS: Final = ("virtual", "real")
_REAL_QUICK: Final = ("baseline", "mercury")
_QUICK: Final = JobsPlan(nodes=60, arrivals_s=20.0)


_PORTS: Final = 25000


@dataclass(slots=True)
class PolicyResult:
    """The measurements so far, which a later failure does not lose."""

    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    broken: str = ""


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


def _finish(result: Mapping[str, Any], findings: PolicyResult, folder: Path, progress: Progresses) -> None:
    """Write the result and its page, and print it; exit with code 1 when a part is broken or wrong."""
    path = results.write("policies", result, findings.raw, folder)
    progress(f"written to {path}")
    progress(f"its page is {beside(path)}")
    click.echo(json.dumps(result))
    if findings.broken or any(part.get("wrong") for part in findings.parts.values()):
        sys.exit(1)


def _measure_real(
    names: Sequence[str],
    seeds: Sequence[int],
    workdir: Path,
    base_port: int,
    progress: Progresses,
    findings: PolicyResult,
) -> None:
    """Measure the variants of these names on a real local cluster."""
    variants, missing = real.variants(names)
    runs = real.measure(real.RealPlan(), variants, seeds, workdir, base_port, progress)
    _collect("real", runs, variants, {"settings": asdict(real.RealPlan()), "absent": missing}, findings)


def _collect(
    part: str,
    runs: Iterator[VirtualOutcome],
    variants: Sequence[PolicyVariant],
    about: Mapping[str, Any],
    findings: PolicyResult,
) -> None:
    """Collect the runs of a part; when they are interrupted, only seeds that all variants were run with count."""
    outcomes: list[VirtualOutcome] = []
    try:
        for outcome in runs:
            outcomes.append(outcome)
    finally:
        findings.raw[part] = [asdict(outcome) for outcome in outcomes]
        counted = virtual.whole(outcomes, variants)
        seeds = sorted({outcome.seed for outcome in counted})
        if len(seeds) > 1:
            findings.parts[part] = virtual.compared(counted, variants) | {**about, "seeds": seeds}


def _parts(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in value.split(","))
    unknown = set(parts) - set(PARTS)
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(PARTS)}")
    return parts


@click.command()
@click.option("--quick", is_flag=True, help="Fewer nodes, jobs and seeds: 2 minutes.")
@click.option("--policies", "names", default="", help="Only these, with commas between them.  [default: all]")
@click.option("--parts", default=",".join(PARTS), show_default=True, callback=_parts, help="What to run.")
@click.option("--seeds", type=click.IntRange(2), help="Runs of each under the virtual clock.  [default: 5; quick: 3]")
@click.option("--nodes", type=click.IntRange(1), help="Virtual ones.  [default: 200; quick: 60]")
@click.option("--arrivals", type=click.FloatRange(15), help="Virtual seconds.  [default: 40; quick: 20]")
@click.option("--load", type=click.FloatRange(0.1), help="Offered to the virtual nodes.  [default: 0.9]")
@click.option("--real-seeds", type=click.IntRange(2), help="Runs of each on the cluster.  [default: 3; quick: 2]")
@click.option("--dir", "workdir", default="run/bench-policies", show_default=True, type=click.Path(path_type=Path))
@click.option("--base-port", default=_PORTS, show_default=True, help="First port of the cluster.")
@click.option(
    "--results", "folder", default=results.RESULTS, type=click.Path(path_type=Path), help="Folder of the result file."
)
def policies(
    quick: bool,
    names: str,
    parts: tuple[str, ...],
    seeds: int | None,
    nodes: int | None,
    arrivals: float | None,
    load: float | None,
    real_seeds: int | None,
    workdir: Path,
    base_port: int,
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
    findings = PolicyResult()
    with interruptible():
        try:
            if "virtual" in parts:
                numbers, processes = range(1, (seeds or (3 if quick else 5)) + 1), len(os.sched_getaffinity(0))
                runs = virtual.measure(plan, variants, numbers, processes, progress)
                _collect("virtual", runs, variants, {"settings": asdict(plan), "absent": absent}, findings)
            if "real" in parts:
                selected = {"baseline", *(variant.name for variant in variants)}
                names_here = [name for name in (_REAL_QUICK if quick else real.NAMES) if name in selected]
                numbers = range(1, (real_seeds or (2 if quick else 3)) + 1)
                _measure_real(names_here, numbers, workdir.absolute(), base_port, progress, findings)
        except (QuicksilverError, HadoopRpcError, OSError, RuntimeError, KeyboardInterrupt) as error:
            findings.broken = f"{type(error).__name__}: {error}"
            progress(f"error: {findings.broken}")
    result = {"benchmark": "policies", **findings.parts, "broken": findings.broken, **about}
    _finish(result, findings, folder, progress)
