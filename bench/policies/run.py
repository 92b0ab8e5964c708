"""`make bench-policies`: each policy alone and all together, under a virtual clock and on a real cluster."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from bench import results
from bench.las.run import interruptible
from bench.policies import plot, real, virtual
from bench.policies.jobs import Plan
from bench.policies.variants import Variant, available
from hadoop_rpc.errors import HadoopRpcError
from policies.registry import Registry
from shell.errors import QuicksilverError

PARTS: Final = ("virtual", "real")
_REAL_QUICK: Final = ("baseline", "mercury")
_QUICK: Final = Plan(nodes=60, arrivals_s=20.0)


_PORTS: Final = 25000


@dataclass(slots=True)
class Found:
    """What was measured; what comes later may fail without losing it."""

    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    broken: str = ""


def chosen(names: str, registry: Registry) -> tuple[list[Variant], list[str]]:
    """Return the variants to run, with those that they are compared with, and the names of what is not installed.

    names: with commas between them; "" for all. Raises click.BadParameter for an unknown one.
    """
    variants, absent = available(registry)
    if not names:
        return variants, absent
    by_name = {variant.name: variant for variant in variants}
    wanted = {name.strip() for name in names.split(",")}
    unknown = wanted - by_name.keys()
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(by_name)}")
    wanted |= {by_name[name].against for name in wanted}
    return [variant for variant in variants if variant.name in wanted], []


def _virtual(
    plan: Plan, variants: Sequence[Variant], seeds: Sequence[int], found: Found, progress: virtual.Progress
) -> None:
    outcomes = virtual.measure(plan, variants, seeds, len(os.sched_getaffinity(0)), progress)
    found.raw["virtual"] = [asdict(outcome) for outcome in outcomes]
    found.parts["virtual"] = virtual.compared(outcomes, variants) | {"settings": asdict(plan), "seeds": list(seeds)}


def _real(
    seeds: Sequence[int], workdir: Path, base_port: int, quick: bool, found: Found, progress: virtual.Progress
) -> None:
    plan, names = real.Plan(), _REAL_QUICK if quick else real.NAMES
    variants, absent = real.variants(names)
    outcomes = []
    for outcome in real.measure(plan, variants, seeds, workdir, base_port, progress):
        outcomes.append(outcome)
        found.raw["real"] = [asdict(one) for one in outcomes]
    about = {"settings": asdict(plan), "seeds": list(seeds), "absent": absent}
    found.parts["real"] = virtual.compared(outcomes, variants) | about


def _parts(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    wanted = tuple(part.strip() for part in value.split(","))
    unknown = set(wanted) - set(PARTS)
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(PARTS)}")
    return wanted


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
@click.option("--results", "folder", default=results.RESULTS, type=click.Path(path_type=Path), help="Where to keep it.")
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

    The last line is one JSON object (docs/benchmarks.md).
    """
    start_s = time.monotonic()

    def progress(text: str) -> None:
        click.echo(f"[{time.monotonic() - start_s:6.1f} s] {text}", err=True)

    base = _QUICK if quick else Plan()
    plan = replace(base, nodes=nodes or base.nodes, arrivals_s=arrivals or base.arrivals_s, load=load or base.load)
    variants, absent = chosen(names, Registry())
    about = {"machine": results.machine(), "commit": results.commit()}
    found = Found()
    with interruptible():
        try:
            if "virtual" in parts:
                _virtual(plan, variants, range(1, (seeds or (3 if quick else 5)) + 1), found, progress)
            if "real" in parts:
                count = real_seeds or (2 if quick else 3)
                _real(range(1, count + 1), workdir.absolute(), base_port, quick, found, progress)
        except (QuicksilverError, HadoopRpcError, OSError, RuntimeError) as error:
            found.broken = f"{type(error).__name__}: {error}"
            progress(f"error: {error}")
    result = {"benchmark": "policies", **found.parts, "absent": absent, "broken": found.broken, **about}
    path = results.write("policies", result, found.raw, folder)
    progress(f"written to {path}")
    for picture in plot.draw_all(result, path):
        progress(f"drawn to {picture}")
    click.echo(json.dumps(result))
    if found.broken or any(part.get("wrong") for part in found.parts.values()):
        sys.exit(1)
