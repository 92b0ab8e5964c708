"""The simulator beside the public one of Eagle's authors, on the same trace in one go, parsing included.

`make bench-sim PEER=path/to/eagle_simulation.py`. Both run one after the other for each system and seed, each in a
process of its own; what counts is its CPU time. Prints JSON: tasks per second, memory, percentiles, their ratios.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, Final

import click

from quicksilver.report.stats import nearest_rank
from quicksilver.simulator.traces.formats.hawk import dump_hawk
from quicksilver.simulator.traces.generators.generate import generate
from quicksilver_lab.bench.results import commit, machine
from quicksilver_lab.bench.sim.translate import BITMAP, NoPeerError, python3, seeded

QUANTILES: Final = (50, 90, 99)
BOUND: Final = 0.05
"""How far the ratio of two percentiles may be from 1."""
P99_BOUND: Final = 0.15
_YAHOO: Final = "90.5811"
PEER: Final = {
    # stealing, central, cutoff, cutoff to compare, small %, big %, SRPT, heartbeat, least probes, SBP, system
    "sparrow": ("no", "no", _YAHOO, "100", "100", "no", "0", "0", "no", "Hawk"),
    "hawk": ("yes", "yes", _YAHOO, "100", "98", "no", "0", "0", "no", "Hawk"),
    "eagle": ("no", "yes", _YAHOO, "100", "98", "yes", "0", "20", "yes", "Eagle"),
    "clwl": ("no", "yes", "-1", "100", "98", "no", "0", "2", "no", "CLWL"),
    "dlwl": ("no", "yes", "-1", "100", "98", "no", "7", "2", "no", "DLWL"),
    "dlwl_srpt": ("no", "yes", "-1", "100", "98", "yes", "7", "2", "no", "DLWL"),
}


@dataclass(frozen=True, slots=True)
class PeerRun:
    """What one process needed and found."""

    cpu_s: float
    rss_mb: float
    done: dict[str, list[float]]
    """Completion times by class, s."""


def peer_arguments(system: str, trace: Path, nodes: int) -> list[str]:
    """Return the peer's 22 arguments."""
    steal, central, cutoff, small, big, srpt, heartbeat, least, sticky, name = PEER[system]
    probing = ["1", "2", "100", "MEAN", "0", "0", "ATC", "1000000", "10"]
    return [
        str(trace),
        steal,
        central,
        cutoff,
        _YAHOO,
        small,
        big,
        *probing,
        str(nodes),
        srpt,
        heartbeat,
        least,
        sticky,
        name,
    ]


def finished(text: str) -> dict[str, list[float]]:
    """Return completion times by class from the peer's `finished_file`."""
    done: dict[str, list[float]] = {"short": [], "long": []}
    for line in text.splitlines():
        words = line.split()
        done["long" if words[words.index("by_def:") + 1] == "1" else "short"].append(float(words[-1]))
    return done


def timed(command: list[str], folder: Path) -> tuple[float, float]:
    """Run to the end; return CPU seconds and the most memory in MB. Raises ClickException when it fails."""
    with (folder / "out.txt").open("w") as out, (folder / "err.txt").open("w") as err:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, env=_environment())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    (folder / "out.txt").unlink()
    if process.returncode:
        raise click.ClickException(
            f"{command[1]} ended with {process.returncode}: {(folder / 'err.txt').read_text()[-2000:]}"
        )
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _environment() -> dict[str, str]:
    root = os.pathsep.join(str(Path(__file__).parents[level]) for level in (3, 4))
    return {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": "0"}


def theirs(source: str, python: str | None, system: str, trace: Path, nodes: int, seed: int, folder: Path) -> PeerRun:
    """Run the peer once. python: an interpreter of Python 2; None: this one, with the program translated."""
    text = seeded(source, seed)
    (folder / "peer.py").write_text(text if python else python3(text))
    (folder / "bitmap.py").write_text(BITMAP)
    cpu_s, rss_mb = timed([python or sys.executable, "peer.py", *peer_arguments(system, trace, nodes)], folder)
    return PeerRun(cpu_s, rss_mb, finished((folder / "finished_file").read_text()))


def simulated(system: str, trace: Path, nodes: int, seed: int, folder: Path) -> PeerRun:
    """Run the simulator once."""
    out = folder / "ours.json"
    command = [
        sys.executable,
        "-m",
        "quicksilver_lab.bench.sim.ours",
        str(trace),
        system,
        str(nodes),
        str(seed),
        str(out),
    ]
    cpu_s, rss_mb = timed(command, folder)
    return PeerRun(cpu_s, rss_mb, json.loads(out.read_text()))


def compared(tasks: int, peers: list[PeerRun], own: list[PeerRun]) -> dict[str, Any]:
    """Return figures of one system and their ratios.

    Percentiles are means over the seeds. `error`: the standard error of their ratio; `outside`: those whose ratio is
    not within the bound.
    """
    result: dict[str, Any] = {}
    raw: dict[str, dict[str, list[float]]] = {}
    for name, runs in (("peer", peers), ("ours", own)):
        done_s = raw[name] = {key: [of(run) for run in runs] for key, of in _PERCENTILES.items()}
        result[name] = {
            "tasks_per_s": round(tasks / median(run.cpu_s for run in runs)),
            "rss_mb": round(max(run.rss_mb for run in runs), 1),
            **{key: round(fmean(values), 2) for key, values in done_s.items()},
        }
    ratio = result["ratio"] = {key: round(result["ours"][key] / result["peer"][key], 3) for key in result["peer"]}
    result["error"] = {key: _error(raw["peer"][key], raw["ours"][key]) for key in _PERCENTILES}
    result["outside"] = [key for key in _PERCENTILES if abs(ratio[key] - 1) > (P99_BOUND if "p99" in key else BOUND)]
    result["cpu_s"] = {"peer": [round(run.cpu_s, 2) for run in peers], "ours": [round(run.cpu_s, 2) for run in own]}
    result["by_seed"] = raw
    return result


def _of(klass: str, q: float) -> Callable[[PeerRun], float]:
    return lambda run: round(nearest_rank(run.done[klass], q), 2) if run.done[klass] else math.nan


_PERCENTILES: Final = {f"{klass}_p{q}_s": _of(klass, q) for klass in ("short", "long") for q in QUANTILES}


def _error(peers: list[float], own: list[float]) -> float:
    """Return the standard error of the ratio of two means, as a share of it; 0 of a single seed."""
    if len(own) < 2:
        return 0.0
    return round(math.sqrt(sum((stdev(values) / fmean(values)) ** 2 / len(values) for values in (peers, own))), 4)


def _trace(trace: Path | None, jobs: int, folder: Path) -> tuple[Path, int, float]:
    """Return the trace, its tasks, and its task-seconds a second; without one, Yahoo-like jobs are drawn."""
    path = trace
    if path is None:
        path = folder / "yahoo.tr"
        with path.open("w") as file:
            dump_hawk(generate("yahoo", jobs), file)
    tasks, work_s, last_s = 0, 0.0, 0.0
    for line in path.read_text().splitlines():
        words = line.split()
        tasks, work_s, last_s = tasks + int(words[1]), work_s + sum(map(float, words[3:])), float(words[0])
    return path.resolve(), tasks, work_s / last_s


def _both(
    peer: Path, python: str | None, system: str, trace: Path, nodes: int, seed: int, folder: Path
) -> list[PeerRun]:
    try:
        runs = [theirs(peer.read_text(), python, system, trace, nodes, seed, folder)]
    except NoPeerError as error:
        raise click.ClickException(f"{peer}: {error}") from error
    runs.append(simulated(system, trace, nodes, seed, folder))
    click.echo(f"{system} seed {seed}: {runs[0].cpu_s:.1f} s, {runs[1].cpu_s:.1f} s", err=True)
    return runs


@click.command()
@click.argument("peer", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--trace", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Hawk's text; default: drawn."
)
@click.option("--jobs", default=4000, show_default=True, help="Jobs that are drawn without --trace.")
@click.option("--nodes", type=int, help="Default: so many that the trace keeps --load of them busy.")
@click.option("--load", default=0.9, show_default=True, help="Share of the nodes that the whole trace keeps busy.")
@click.option("--systems", default="sparrow,hawk,eagle", show_default=True, help=f"Of {', '.join(PEER)}.")
@click.option("--seeds", default=5, show_default=True)
@click.option("--first-seed", default=0, show_default=True)
@click.option("--peer-python", help="An interpreter of Python 2 for the peer; default: translated for this one.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Written after each run with what was found so far.",
)
def main(
    peer: Path,
    trace: Path | None,
    jobs: int,
    nodes: int | None,
    load: float,
    systems: str,
    seeds: int,
    first_seed: int,
    peer_python: str | None,
    out: Path | None,
) -> None:
    """Run PEER, eagle_simulation.py of epfl-labos/eagle, and the simulator on one trace; print figures as JSON."""
    names = systems.split(",")
    if unknown := set(names) - set(PEER):
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: use some of {', '.join(PEER)}", param_hint="--systems")
    with tempfile.TemporaryDirectory(prefix="bench-sim-") as name:
        folder = Path(name)
        path, tasks, load_nodes = _trace(trace, jobs, folder)
        count = nodes or math.ceil(load_nodes / load)
        about: dict[str, Any] = {"tasks": tasks, "nodes": count, "load": round(load_nodes / count, 3), "seeds": seeds}
        about["first_seed"] = first_seed
        about |= {"peer_python": peer_python or "translated", "machine": machine(), "commit": commit()}
        runs: dict[str, list[list[PeerRun]]] = {system: [] for system in names}
        result: dict[str, Any] = {}
        for seed, system in product(range(first_seed, first_seed + seeds), names):
            of = runs[system]
            of.append(_both(peer, peer_python, system, path, count, seed, folder))
            result[system] = compared(tasks, [pair[0] for pair in of], [pair[1] for pair in of])
            if out:
                out.write_text(json.dumps({**about, "systems": result}, indent=1))
    click.echo(json.dumps({**about, "systems": result}, indent=1))


if __name__ == "__main__":
    main()
