"""`python -m quicksilver_lab.bench.sim.mercury`: Mercury's sections 7.2 to 7.4, simulated.

The production machines run under the virtual clock.

A closed loop: as many jobs at once as said, the next one when one is over, and what ends within a window counts. The
cluster has a sixty-fourth of the paper's slots; half of its jobs with a thirty-second of its tasks are as many tasks
for each slot as there. k is a share of the nodes. What is compared runs with the same jobs and seed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil, exp
from random import Random
from statistics import fmean
from typing import Any, Final

import click

from quicksilver.simulator.model import ClusterModel, SimulatedJob
from quicksilver.simulator.systems.mercury import MERCURY, Production, world
from quicksilver.simulator.world.production import World
from quicksilver_lab.bench.results import commit, machine, write
from quicksilver_lab.bench.stats import spread

NODES: Final = 256
"""Of the paper, for k."""
TASKS: Final = 6
"""Of each job; 200 on the paper's 8,192 slots."""
BARE_S: Final = 0.1
"""What a container costs beside its task where nothing else is said: the start."""
LAUNCH_S: Final = 4.0
"""What a container costs more in `launched` runs. Not in the paper: chosen for what it gives at 1.2 s."""
MASTER_S: Final = 8.0
"""From a job's turn to its master's first heartbeat, in runs that have it. Not in the paper: twice a container's."""
_MASTERS: Final = {"launch_s": LAUNCH_S, "master_start_s": MASTER_S}
_WRONG: Final = {"wrong_nodes": 0.1}
"""A few nodes tell too short waits (§7.2.3; how many and how short is not printed)."""
_BLIND: Final = {"counted": False}
"""Mercury's own schedulers: they know the nodes by what these told each 3 s, and count nothing on top."""
_LET_END: Final = {"policy": "kill_newest", "settings": {"grace_s": 10}}
"""A guaranteed container waits for queueable ones that are over in so long. Mercury kills them at once (§3)."""
SMALL: Final = ClusterModel(nodes=32, slots=4)
HALF: Final = 0.5
"""Jobs at once to those of the paper."""
ONLY_G: Final[dict[str, Any]] = {"queues": ["*"], "routes": [{"policy": "only_g"}]}


@dataclass(frozen=True, slots=True)
class MercuryRun:
    """One run: a name, mean durations of tasks by the job's class, settings of the system."""

    name: str
    means_s: tuple[float, ...]
    """Each job's is drawn from these, in blocks that have each once."""
    settings: dict[str, Any] = field(default_factory=dict)
    cluster: ClusterModel = SMALL
    max_jobs: int = round(150 * HALF)
    window_s: tuple[float, float] | None = None
    """When what ends counts; None: see `window`."""
    tasks: int = TASKS
    """Of each job."""
    sigma: float = 0.5
    """Of task durations, lognormal; 0: all take the mean."""

    @property
    def launch_s(self) -> float:
        """What a container costs beside its task."""
        return float(self.settings.get("launch_s", 0.0)) + BARE_S

    @property
    def cycle_s(self) -> float:
        """How long a slot is taken for a task."""
        return fmean(self.means_s) + self.launch_s


def only_q(**slots: Any) -> dict[str, Any]:
    """Return Mercury's policies with others in some slots."""
    return {**MERCURY, "place": _k(50), **slots}


def _k(k: int) -> dict[str, Any]:
    return {"policy": "topk_wait", "settings": {"k": NODES, "max_ratio": k / NODES}}


def _sigma(sigma: float, **settings: float) -> dict[str, Any]:
    return {"policy": "mean_sigma", "settings": {"c": sigma, **settings}}


def _both(name: str, *means_s: float, **settings: Any) -> list[MercuryRun]:
    return [
        MercuryRun(f"{name}: only-G", means_s, {"policies": ONLY_G, **settings}),
        MercuryRun(f"{name}: only-Q", means_s, {"policies": only_q(), **settings}),
    ]


def _durations(name: str = "", **settings: Any) -> list[MercuryRun]:
    """Return §7.3, and the tasks of §7.2."""
    return [run for mean_s in (1.2, 2.0, 10.0, 20.0) for run in _both(f"{mean_s:g} s{name}", mean_s, **settings)]


def _causes() -> list[MercuryRun]:
    """Return only-G with what other Hadoops and Tez have, each by itself and with `launched`."""
    result = []
    for name, settings in (("", {}), (", launched", {"launch_s": LAUNCH_S})):
        result += [
            MercuryRun(f"1.2 s{name}: only-G, {how}", (1.2,), {"policies": ONLY_G, **settings, **more})
            for how, more in (
                ("heartbeats at ends", {"end_beats": True}),
                ("one a heartbeat", {"off_switch": 1}),
                ("reuse", {"reuse_s": 0.1}),
            )
        ]
    return result


def _limits() -> list[MercuryRun]:
    """Return §7.2.1: jobs at once."""
    return [
        MercuryRun(f"jobs, {name} {many}", (1.2,), {"policies": policies, **_MASTERS}, max_jobs=round(many * HALF))
        for name, policies in (("only-G", ONLY_G), ("only-Q", only_q()))
        for many in (100, 150, 200)
    ]


def _ks(name: str, **settings: Any) -> list[MercuryRun]:
    """Return §7.2.2: k."""
    return [
        MercuryRun(f"k={k}, {name}", (1.2,), {"policies": only_q(place=_k(k)), **_MASTERS, **settings})
        for k in (20, 50, 100)
    ]


def _stragglers(name: str, times: float, **settings: Any) -> list[MercuryRun]:
    """Return §7.2.3: some nodes tell waits that are so many times too short; without and with what corrects it."""
    plain = {"order": {"policy": "fifo"}}
    shaped = {
        "none": only_q(**plain, shed={"policy": "none"}),
        "1 sigma": only_q(**plain, shed=_sigma(1)),
        "2 sigma": only_q(**plain, shed=_sigma(2)),
        "2 sigma, reordered": only_q(shed=_sigma(2)),
        "2 sigma as printed, reordered": only_q(
            shed=_sigma(2, min_wait_s=0, max_sheds=99, max_share_ratio=1, settle_s=0)
        ),
    }
    return [
        MercuryRun(
            f"{name}: {how}", (1.2,), {"policies": policies, **_MASTERS, **_WRONG, "wrong_times": times, **settings}
        )
        for how, policies in shaped.items()
    ]


def _hybrid() -> list[MercuryRun]:
    """Return §7.4.1: 80 % of the jobs with tasks of 2 s, 20 % of 50 s; queueable ones killed, or let end."""
    mixed = {
        "50%-Q": only_q(routes=[_gq(1e6, 50)]),
        "<5sec-Q": only_q(routes=[_gq(5, 100)]),
        "<10sec-70%-Q": only_q(routes=[_gq(10, 70)]),
    }
    let_end = {f"{name}, let end": {**policies, "preempt": _LET_END} for name, policies in mixed.items()}
    means_s = (2.0, 2.0, 2.0, 2.0, 50.0)
    return [
        MercuryRun(f"hybrid: {name}", means_s, {"policies": policies, "launch_s": LAUNCH_S})
        for name, policies in {"only-G": ONLY_G, "only-Q": only_q(), **mixed, **let_end}.items()
    ]


def _gq(td_s: float, pq: float) -> dict[str, Any]:
    """Return the route of tasks below `td_s`, and of what a container costs, so many percent queueable."""
    return {"policy": "hybrid_gq", "settings": {"td_s": td_s + LAUNCH_S, "pq": pq}}


def _scale() -> list[MercuryRun]:
    """Return the paper's 256 nodes, of 4 slots."""
    large = ClusterModel(nodes=NODES, slots=4)
    return [
        MercuryRun(
            f"256 nodes: {name}", (1.2,), {"policies": policies, "launch_s": LAUNCH_S}, large, round(8 * 150 * HALF)
        )
        for name, policies in (("only-G", ONLY_G), ("only-Q", only_q()))
    ]


def _emulated() -> list[MercuryRun]:
    """Return what bench-mercury runs on a real ResourceManager: its nodes, jobs and heartbeats."""
    settings = {"node_beat_s": 1.0, "end_beats": True, "off_switch": 100, "report_s": 1.0}
    cluster = ClusterModel(nodes=64, slots=4)
    return [
        MercuryRun(f"emulated: {name}", (2.0,), {"policies": policies, **settings}, cluster, 27, tasks=35, sigma=0.0)
        for name, policies in (("only-G", ONLY_G), ("only-Q", only_q()))
    ]


def runs() -> dict[str, list[MercuryRun]]:
    """Return all that is run, by part."""
    return {
        "durations": _durations(", launched", launch_s=LAUNCH_S),
        "bare": _durations(),
        "causes": _causes(),
        "limits": _limits(),
        "k": _ks("blind", **_BLIND),
        "k_counted": _ks("counted"),
        "stragglers": [run for times in (30, 300) for run in _stragglers(f"{times} times", times)],
        "stragglers_blind": _stragglers("30 times, blind", 30, **_BLIND),
        "hybrid": _hybrid(),
        "emulated": _emulated(),
        "scale": _scale(),
    }


def against(name: str) -> str:
    """Return the run that one is compared with."""
    if name.startswith(("jobs", "k=")) or " times" in name:
        return "jobs, only-G 150"
    return f"{name.partition(':')[0]}: only-G"


def jobs(run: MercuryRun, seed: int) -> Iterator[SimulatedJob]:
    """Yield jobs without end; the first ones come over the time that one takes, all later ones when they may."""
    rng = Random(f"{run.means_s} {seed}")
    number, sigma, latency_s = 0, run.sigma, run.max_jobs * run.tasks / run.cluster.total_slots * run.cycle_s
    while True:
        block = list(run.means_s)
        rng.shuffle(block)
        for mean_s in block:
            number += 1
            durations_s = tuple(mean_s * exp(rng.gauss(-(sigma**2) / 2, sigma)) for _ in range(run.tasks))
            arrives_s = min(number / run.max_jobs, 1.0) * latency_s
            yield SimulatedJob(number, arrives_s, durations_s, estimate_s=mean_s + run.launch_s)


def window(run: MercuryRun) -> tuple[float, float]:
    """Return when the window begins and ends, in seconds: two jobs in a row, then as long, or half a minute."""
    if run.window_s is not None:
        return run.window_s
    latency_s = run.max_jobs * run.tasks / run.cluster.total_slots * run.cycle_s
    latency_s += float(run.settings.get("master_start_s", 0.0)) + 3.0
    begin_s = ceil(2 * latency_s)
    return float(begin_s), float(begin_s + max(30, ceil(2 * latency_s)))


def once(run: MercuryRun, seed: int) -> dict[str, float]:
    """Return what one run showed."""
    begin_s, until_s = window(run)
    settings = Production(
        **{
            "max_jobs": run.max_jobs,
            "off_switch": run.cluster.slots,
            "report_s": 3.0,
            "start_s": BARE_S,
            **run.settings,
        }
    )
    simulated = world(jobs(run, seed), run.cluster, settings, seed, until_s)
    simulated.go()
    result = figures(simulated, begin_s, until_s)
    click.echo(f"{run.name}, seed {seed}: {json.dumps(result)}", err=True)
    return result


def figures(simulated: World, begin_s: float, until_s: float) -> dict[str, float]:
    """Return what ended within the window, in each second, job latencies in seconds, and what was lost."""
    masters = list(simulated.masters.values())
    ended = [task.ended_s for master in masters for task in master.tasks if task.ended_s is not None]
    done = [(max(t.ended_s or 0.0 for t in m.tasks), m.tasks[0].wanted_s) for m in masters if m.done]
    latencies_s = [end_s - from_s for end_s, from_s in done if begin_s < end_s <= until_s]
    lost_s = sum(sum(site.lost_s) for site in simulated.sites.values())
    return {
        "tasks_per_s": round(sum(begin_s < at_s <= until_s for at_s in ended) / (until_s - begin_s), 3),
        "jobs_per_s": round(len(latencies_s) / (until_s - begin_s), 4),
        "latency_mean_s": round(fmean(latencies_s), 3) if latencies_s else 0.0,
        "shed_ratio": round(sum(simulated.run.sheds.values()) / len(ended), 4),
        "kills_ratio": round(sum(len(site.lost_s) for site in simulated.sites.values()) / len(ended), 4),
        "lost_s": round(lost_s, 1),
        "faults": float(len(simulated.run.faults)),
        "window_s": until_s - begin_s,
    }


def measure(selected: Iterable[MercuryRun], seeds: Iterable[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return gains over what each is compared with, in tasks and jobs per second and mean latency; and raw figures."""
    listed = list(selected)
    raw = {str(seed): {run.name: once(run, seed) for run in listed} for seed in seeds}
    known = {run.name for run in listed}
    compared = [run.name for run in listed if against(run.name) in known - {run.name}]

    def gain(name: str, figure: str) -> dict[str, float]:
        return spread([of[name][figure] / of[against(name)][figure] - 1 for of in raw.values()])

    gains = {figure: {name: gain(name, figure) for name in compared} for figure in ("tasks_per_s", "jobs_per_s")}
    gains["latency_mean_s"] = {name: gain(name, "latency_mean_s") for name in compared}
    sheds = {run.name: spread([of[run.name]["shed_ratio"] for of in raw.values()]) for run in listed}
    return {"benchmark": "sim-mercury", "gains": gains, "shed_ratio": {n: s for n, s in sheds.items() if s["max"]}}, raw


@click.command()
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1), help="Runs of each.")
@click.option("--from-seed", default=1, show_default=True, type=click.IntRange(1), help="The first one.")
@click.option("--part", "parts", multiple=True, type=click.Choice(list(runs())), help="Only these; may be repeated.")
def main(seeds: int, from_seed: int, parts: tuple[str, ...]) -> None:
    """Mercury's gains in throughput; the last line is one JSON object."""
    known = runs()
    selected = [run for part in parts or known for run in known[part]]
    names = {run.name for run in selected}
    selected += [run for part in known.values() for run in part if run.name in {against(n) for n in names} - names]
    result, raw = measure(selected, range(from_seed, from_seed + seeds))
    result |= {
        "machine": machine(),
        "commit": commit(),
        "seeds": seeds,
        "from_seed": from_seed,
        "parts": list(parts or known),
    }
    click.echo(f"kept in {write('sim-mercury', result, raw)}", err=True)
    click.echo(json.dumps(result))


if __name__ == "__main__":
    main()
