"""`python -m quicksilver_lab.bench.sim.zoe`: Zoe's 80,000 applications under every discipline; the paper's ratios, and
applications/s.

Ratios compare two disciplines on the same applications (one seed); their spread is over seeds. `--mix` changes one
property of the applications, as `--mix burst=4`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from statistics import fmean
from time import perf_counter, process_time
from typing import Any, Final

import click
from pydantic import ValidationError

from quicksilver.simulator.model import ClusterModel, SimResult
from quicksilver_lab.bench.results import commit, machine, write
from quicksilver_lab.bench.stats import percentile, spread
from quicksilver_lab.papers.systems.zoe import SYSTEM, ZoeSettings
from quicksilver_lab.papers.zoe.mix import ZoeMix, applications, testbed
from quicksilver_lab.papers.zoe.model import BATCH_ELASTIC, BATCH_RIGID, INTERACTIVE

MACHINES: Final = ClusterModel(nodes=100, slots=32, memory_mb=128 * 1024)
"""§4.1."""
SERVERS: Final = ClusterModel(nodes=10, slots=32, memory_mb=128 * 1024)
"""§6."""
TESTBED: Final = "testbed"
_TESTBED_SEEDS: Final = 20
Run = tuple[str, float, dict[str, Any]]
"""Name, share of interactive applications, settings."""
Figures = dict[str, float]


def runs(parts: Iterable[str]) -> list[Run]:
    """Return what is run for these parts of the paper's evaluation; none twice."""
    result: dict[str, Run] = {}
    for part in parts:
        result |= {run[0]: run for run in _PARTS[part]()}
    return list(result.values())


def _disciplines() -> list[Run]:
    """§4.2, §4.3: batch applications alone."""
    return _each("fifo") + _each("sjf")


def _ratio() -> list[Run]:
    """§4.6: batch applications alone, by HRRN."""
    return _each("hrrn")


def _each(order: str) -> list[Run]:
    return [
        (f"{order} {discipline}", 0.0, {"order": order, "discipline": discipline})
        for discipline in ("rigid", "malleable", "flexible")
    ]


def _sizes() -> list[Run]:
    """§4.4: batch applications alone."""
    return [
        (f"sjf-{size} {discipline}", 0.0, {"order": "sjf", "size": size, "discipline": discipline})
        for size in ("2d", "3d")
        for discipline in ("rigid", "flexible")
    ]


def _preemption() -> list[Run]:
    """§4.5: the whole mix by SRPT, priorities set by hand or not."""
    return [
        (
            f"srpt {discipline}{' by hand' if by_hand else ''}",
            0.2,
            {"order": "srpt", "discipline": discipline, "interactive_priority": by_hand},
        )
        for by_hand in (0, 1)
        for discipline in ("flexible", "preemptive")
    ]


_PARTS: Final[dict[str, Callable[[], list[Run]]]] = {
    "disciplines": _disciplines,
    "sizes": _sizes,
    "preemption": _preemption,
    "ratio": _ratio,
}


def figures(result: SimResult, cpu_s: float) -> Figures:
    """Return what one run showed, in seconds and shares."""
    turnaround_s = [job.completion_s for job in result.jobs]
    interactive_s = [job.wait_s for job in result.jobs if job.klass == INTERACTIVE]
    values = {
        "turnaround_mean_s": fmean(turnaround_s),
        "turnaround_median_s": percentile(turnaround_s, 50),
        **_by_class(result),
        "wait_mean_s": fmean(job.wait_s for job in result.jobs),
        "wait_median_s": percentile([job.wait_s for job in result.jobs], 50),
        **result.extra,
        "cpu_s": cpu_s,
        "apps_per_cpu_s": len(result.jobs) / cpu_s,
    }
    if interactive_s:
        values["interactive_wait_mean_s"] = fmean(interactive_s)
        values["interactive_wait_median_s"] = percentile(interactive_s, 50)
        values["interactive_wait_p95_s"] = percentile(interactive_s, 95)
    return values


def _by_class(result: SimResult) -> Figures:
    """Return mean and median turnarounds of the batch applications that are there, by class."""
    values = {}
    for klass in (BATCH_ELASTIC, BATCH_RIGID):
        if those_s := [job.completion_s for job in result.jobs if job.klass == klass]:
            values[f"{klass}_turnaround_mean_s"] = fmean(those_s)
            values[f"{klass}_turnaround_median_s"] = percentile(those_s, 50)
    return values


def ratios(of: dict[str, Figures]) -> dict[str, float]:
    """Return the comparisons that the paper makes, of the runs of one seed.

    Left out: those of which a run is missing, and waits when nobody waited.
    """
    values = {}
    for order in ("fifo", "sjf", "hrrn", "sjf-2d", "sjf-3d"):
        for discipline in ("malleable", "rigid"):
            if f"{order} {discipline}" in of:
                flexible, base = of[f"{order} flexible"], of[f"{order} {discipline}"]
                for key in (key for key in flexible if "turnaround" in key):
                    values[f"{order}_flexible_to_{discipline}_{key.removesuffix('_s')}"] = flexible[key] / base[key]
                values[f"{order}_flexible_to_{discipline}_cores"] = flexible["cores_share"] / base["cores_share"]
    for by_hand in ("", " by hand"):
        if f"srpt preemptive{by_hand}" in of:
            with_it, without = (of[f"srpt {name}{by_hand}"] for name in ("preemptive", "flexible"))
            key = "interactive_wait_mean_s"
            name = f"srpt{by_hand.replace(' ', '_')}_preemptive_to_flexible_interactive_wait_mean"
            if without[key] > 0:
                values[name] = with_it[key] / without[key]
    return values


def on_servers(seed: int) -> dict[str, float]:
    """Return flexible to rigid on the ten servers of §6: median turnarounds by class, mean share of memory granted."""
    of = {}
    for discipline in ("rigid", "flexible"):
        result = SYSTEM.run(testbed(seed), SERVERS, ZoeSettings(discipline=discipline), seed)
        of[discipline] = {"memory_share": result.extra["memory_share"]}
        for klass in (BATCH_ELASTIC, BATCH_RIGID):
            those_s = [job.completion_s for job in result.jobs if job.klass == klass]
            of[discipline][f"{klass}_turnaround_median"] = percentile(those_s, 50)
    return {key: of["flexible"][key] / of["rigid"][key] for key in of["rigid"]}


def measure(
    parts: Iterable[str], many: int, seeds: Iterable[int], mix: dict[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the result and its raw figures, by seed and run; `mix`: what is changed of the applications."""
    raw: dict[str, dict[str, Figures]] = {}
    selected = runs(parts)
    for seed in seeds:
        raw[str(seed)] = {
            name: _simulated(name, share, settings, many, seed, mix or {}) for name, share, settings in selected
        }
    by_seed = list(raw.values())
    compared = [ratios(of) for of in by_seed]
    result = {
        "applications": many,
        "mix": mix or {},
        "seeds": len(by_seed),
        f"zoe_{many}_apps_s": spread([max(row["wall_s"] for row in of.values()) for of in by_seed]),
        f"zoe_{many}_apps_cpu_s": spread([max(row["cpu_s"] for row in of.values()) for of in by_seed]),
        "apps_per_cpu_s": {name: spread([of[name]["apps_per_cpu_s"] for of in by_seed], 0) for name, _, _ in selected},
        "ratios": {
            key: spread([of[key] for of in compared], 5) for key in compared[0] if all(key in of for of in compared)
        },
        "runs": {
            name: {key: spread([of[name][key] for of in by_seed], 3) for key in by_seed[0][name]}
            for name, _, _ in selected
        },
    }
    return result, raw


def _simulated(
    name: str, interactive_ratio: float, settings: dict[str, Any], many: int, seed: int, changed: dict[str, Any]
) -> Figures:
    """Make the applications and run them; the time is for both. The wall's time depends on what else runs."""
    mix = ZoeMix.model_validate({"applications": many, "interactive_ratio": interactive_ratio} | changed)
    begun_s, begun_cpu_s = perf_counter(), process_time()
    result = SYSTEM.run(applications(mix, seed), MACHINES, ZoeSettings.model_validate(settings), seed)
    wall_s = perf_counter() - begun_s
    values = figures(result, process_time() - begun_cpu_s)
    click.echo(f"{name}, seed {seed}: {values['turnaround_mean_s']:.4g} s, {values['apps_per_cpu_s']:.0f}/s", err=True)
    return values | {"wall_s": wall_s}


def _changed(changes: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of the mix that are given. Raises click.BadParameter for what is none, or out of range."""
    settings = dict(change.partition("=")[::2] for change in changes)
    try:
        return ZoeMix.model_validate_strings(settings).model_dump(include=set(settings))
    except ValidationError as error:
        raise click.BadParameter(f"{error}; settings of ZoeMix are {', '.join(ZoeMix.model_fields)}") from error


@click.command()
@click.option("--applications", "many", default=80_000, show_default=True, type=click.IntRange(min=2))
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--part", "parts", multiple=True, type=click.Choice([*_PARTS, TESTBED]), help="Of the evaluation; all.")
@click.option("--mix", "changes", multiple=True, metavar="KEY=VALUE", help="Change a setting of ZoeMix, as burst=4.")
def zoe(many: int, seeds: int, parts: tuple[str, ...], changes: tuple[str, ...]) -> None:
    """Zoe's mix of applications under its disciplines and orders."""
    result: dict[str, Any] = {"benchmark": "sim-zoe", "machine": machine(), "commit": commit()}
    raw: dict[str, Any] = {}
    if mixes := [part for part in parts or _PARTS if part != TESTBED]:
        measured, raw = measure(mixes, many, range(1, seeds + 1), _changed(changes))
        result |= measured
    if not parts or TESTBED in parts:
        rows = raw[TESTBED] = [on_servers(seed) for seed in range(1, _TESTBED_SEEDS + 1)]
        result[TESTBED] = {key: spread([row[key] for row in rows]) for key in rows[0]}
    click.echo(f"kept in {write('sim-zoe', result, raw)}", err=True)
    click.echo(json.dumps(result))


if __name__ == "__main__":
    zoe()
