"""`make bench-resize`: calls, resizes per second, waking, a sidecar with many containers; one JSON result."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.resize import calls, crowd, rate, waking
from quicksilver_lab.bench.resize.calls import both, figure, figures
from quicksilver_lab.bench.resize.stand_ins import StandInError
from quicksilver_lab.workloads.environment import Progresses
from quicksilver_lab.workloads.servers import dockerd
from quicksilver_lab.workloads.vm.kernel import KernelMissingError, find_kernel
from quicksilver_lab.workloads.vm.machine import MachineError, why_not
from quicksilver_lab.workloads.vm.machine import run as run_in_vm

Progress = Callable[[str], None]
Measured = tuple[dict[str, Any], Any]
"""Keys of the result, and the raw samples."""
PARTS: Final = ("cgroup", "signals", "docker", "rate", "waking", "crowd", "vm")
DEFAULT: Final = PARTS[:-1]
_VM_S: Final = 900.0
_CHECKOUT: Final = Path(__file__).resolve().parents[4]


class NotHereError(StandInError):
    """This machine has nothing of it."""


@dataclass(frozen=True, slots=True)
class ResizePlan:
    """How often, and for how long, everything is measured."""

    parts: tuple[str, ...] = DEFAULT
    rounds: int = 2000
    attaches: int = 200
    signal_rounds: int = 200
    docker_rounds: int = 100
    docker_attaches: int = 20
    vm_rounds: int = 300
    vm_attaches: int = 20
    rate_containers: int = 50
    rate_s: float = 6.0
    wakings: int = 50
    containers: int = 200
    vcores: int = 100
    """So many of the containers run, the others are shrunk."""
    idle_s: float = 30.0

    @classmethod
    def quick(cls, parts: tuple[str, ...]) -> ResizePlan:
        """Return one of some seconds, whose figures are worth little."""
        small = {"rounds": 50, "attaches": 5, "signal_rounds": 10, "docker_rounds": 5, "docker_attaches": 2}
        return cls(
            parts, **small, vm_rounds=50, vm_attaches=3, rate_s=1.0, wakings=3, containers=20, vcores=10, idle_s=3
        )


def cgroup(plan: ResizePlan) -> Measured:
    """Measure the resizer by cgroups of this machine."""
    kind, samples = calls.measure_cgroup(plan.rounds, plan.attaches)
    return {"cgroup": kind, **cgroup_keys(samples, "")}, samples


def cgroup_keys(samples: calls.Samples, ending: str) -> dict[str, Any]:
    """Return the headline of a cgroup resizer, whose keys end in `ending`."""
    whole, bare = figure(both(samples)), figure(both(samples, "write_"))
    return {
        f"resize_us_cgroup{ending}": whole["median"],
        f"resize_p99_us_cgroup{ending}": whole["p99"],
        f"write_us_cgroup{ending}": bare["median"],
        f"resize_by_write_ratio_cgroup{ending}": round(whole["median"] / bare["median"], 2),
        f"calls_cgroup{ending}": figures(samples, 2),
    }


def signals(plan: ResizePlan) -> Measured:
    """Measure the resizer by signals."""
    samples = calls.measure_signals(plan.signal_rounds)
    return {"resize_us_signals": figure(both(samples))["median"], "calls_signals": figures(samples)}, samples


def docker(plan: ResizePlan) -> Measured:
    """Measure the resizer by the Docker Engine."""
    if why := dockerd.missing():
        raise NotHereError(why, place="docker")
    samples = calls.measure_docker(plan.docker_rounds, plan.docker_attaches)
    latency = figure(both(samples, unit="ms"), 2)
    return {"resize_ms_docker": latency["median"], "calls_docker": figures(samples, 2)}, samples


def resizes(plan: ResizePlan) -> Measured:
    """Measure how many resizes one sidecar carries: one container for one, and one half for the other."""
    result, raw = {}, {}
    for name, cores in (("", 1), ("_halves", plan.rate_containers // 2)):
        stretches = rate.measure(plan.rate_containers, cores, plan.rate_s)
        rates = [stretch.resizes / stretch.seconds for stretch in stretches]
        result[f"resizes_per_s{name}"] = figure(rates, 0)["median"]
        per_resize = [stretch.cpu_s * 1e6 / stretch.resizes for stretch in stretches if stretch.resizes]
        result[f"cpu_us_per_resize{name}"] = figure(per_resize)["median"]
        raw[f"stretches{name}"] = [asdict(stretch) for stretch in stretches]
    return result, raw


def wakings(plan: ResizePlan) -> Measured:
    """Measure how long a restored container takes to run again."""
    samples = waking.measure(plan.wakings)
    headline = figure(samples[f"from_{waking.CORES[0]:g}_ms"], 2)
    keys = {"restore_to_run_ms": headline["median"], "restore_to_run_p99_ms": headline["p99"]}
    return keys | {"waking": figures(samples, 3)}, samples


def many(plan: ResizePlan) -> Measured:
    """Measure a sidecar with many containers in hand."""
    sample = crowd.measure(plan.containers, plan.vcores, plan.idle_s)
    return sample.result(), asdict(sample)


def vm(plan: ResizePlan) -> Measured:
    """Measure the resizer by cgroup v2 in an emulated machine: only its ratio to a bare write says something."""
    if why := why_not():
        raise StandInError(why, place="vm")
    arguments = f"{plan.vm_rounds} {plan.vm_attaches}"
    command = f"{shlex.quote(sys.executable)} -B -m quicksilver_lab.bench.resize.calls {arguments}"
    try:
        kernel = find_kernel(_CHECKOUT / "run" / "vm")
        with tempfile.TemporaryDirectory(prefix="qs-") as scratch:
            ended = run_in_vm(kernel, _CHECKOUT, command, Path(scratch), timeout_s=_VM_S)
    except (KernelMissingError, MachineError) as error:
        raise StandInError(str(error), place="vm") from error
    lines = [line for line in ended.output.splitlines() if line.startswith("{")]
    if ended.code or not lines:
        raise StandInError(f"it ended with {ended.code}: {ended.output[-2000:]}", place="vm")
    answer = json.loads(lines[-1])
    if answer["cgroup"] != "cgroup2":
        raise StandInError(f"the machine has {answer['cgroup']}", place="vm")
    return cgroup_keys(answer["samples"], "2_emulated"), answer["samples"]


_MEASURES: Final[dict[str, Callable[[ResizePlan], Measured]]] = {
    "cgroup": cgroup,
    "signals": signals,
    "docker": docker,
    "rate": resizes,
    "waking": wakings,
    "crowd": many,
    "vm": vm,
}


def measure(plan: ResizePlan, progress: Progress) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measure all parts; what could not be measured is in `broken` with the reason, what is not here in `skipped`."""
    result: dict[str, Any] = {}
    raw: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    broken: dict[str, str] = {}
    for part in plan.parts:
        progress(f"measuring {part}")
        try:
            keys, raw[part] = _MEASURES[part](plan)
        except NotHereError as error:
            skipped[part] = str(error)
            progress(f"{part} is skipped: {error}")
        except (QuicksilverError, OSError) as error:
            broken[part] = f"{type(error).__name__}: {error}"
            progress(f"{part} was not measured: {error}")
        else:
            result |= keys
            progress(f"{part}: " + ", ".join(f"{k} {v}" for k, v in keys.items() if not isinstance(v, dict)))
    return result | {"skipped": skipped, "broken": broken}, raw


def _parts(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in value.split(","))
    unknown = set(parts) - set(PARTS)
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(PARTS)}")
    return parts


@click.command()
@click.option("--parts", default=",".join(DEFAULT), show_default=True, callback=_parts, help="What to measure.")
@click.option("--vm", "with_vm", is_flag=True, help="Also cgroup v2, in an emulated machine: 2 minutes.")
@click.option("--quick", is_flag=True, help="Few samples: to see that everything works.")
@click.option("--containers", type=click.IntRange(2), help="In the sidecar's hand.  [default: 200; quick: 20]")
@click.option("--vcores", type=click.IntRange(1), help="So many of them run.  [default: half of them]")
@click.option(
    "--results", "folder", default=results.RESULTS, type=click.Path(path_type=Path), help="Folder of the result file."
)
def resize(
    parts: tuple[str, ...], with_vm: bool, quick: bool, containers: int | None, vcores: int | None, folder: Path
) -> None:
    """What resizing a container costs, and a sidecar with many of them.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    selected = (*parts, "vm") if with_vm and "vm" not in parts else parts
    plan = ResizePlan.quick(selected) if quick else ResizePlan(selected)
    if containers or vcores:
        count = containers or plan.containers
        plan = replace(plan, containers=count, vcores=vcores or max(1, count // 2))
    progress = Progresses()
    about = {"machine": results.machine(), "commit": results.commit(), "settings": asdict(plan)}
    measured, raw = measure(plan, progress)
    result = {"benchmark": "resize", **measured, **about}
    path = results.write("resize", result, raw, folder)
    progress(f"written to {path}")
    click.echo(json.dumps(result))
    if measured["broken"]:
        sys.exit(1)


if __name__ == "__main__":
    resize()
