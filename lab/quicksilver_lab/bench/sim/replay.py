"""`python -m quicksilver_lab.bench.sim.replay`: how near a simulation of what a proxy recorded comes to what happened.

The same jobs run several times with each of two sets of policies, on a real local cluster with proxy and sidecars.
Then the store of each run is simulated with the run's own settings, and with those of the other policies.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from typing import Any, Final

import click
from ruamel.yaml import YAML

from hadoop_rpc.errors import HadoopRpcError
from quicksilver.common.errors import QuicksilverError
from quicksilver.simulator import systems
from quicksilver.simulator.figures import ALL, figures
from quicksilver.simulator.model import ClusterModel
from quicksilver.simulator.traces.formats.recorded import read_recorded
from quicksilver_lab.bench import results
from quicksilver_lab.bench.las.run import interruptible
from quicksilver_lab.bench.policies import real
from quicksilver_lab.bench.policies.jobs import BATCH
from quicksilver_lab.cluster import Cluster
from quicksilver_lab.workloads import gridmix_run
from quicksilver_lab.workloads.environment import Environment, Progresses
from quicksilver_lab.workloads.errors import JobFailedError

POLICIES: Final = ("mercury", "baseline")
"""Variants of `quicksilver_lab.bench.policies`: Mercury's policies, and placement at random."""
KINDS: Final = ("sleeping", "mapreduce")
FIGURES: Final = {f"mean_{ALL}": "mean", f"p95_{ALL}": "p95", f"wait_{ALL}": "wait", "makespan": "makespan"}
"""The simulator's names of what is compared."""
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {"sleeping": {}, "mapreduce": {"master_cores": 1}}
"""Of the simulator, by kind: masters of `sleeping` jobs run outside of the cluster."""
_PORTS: Final = 26000
_LONGEST_MS: Final = 4000
"""GridMix lets no task sleep longer here."""


@dataclass(frozen=True, slots=True)
class Shuffling:
    """MapReduce jobs of GridMix. Times in seconds."""

    jobs: int = 5
    arrivals_s: float = 20.0
    maps: tuple[int, int] = (4, 9)
    """Fewest and most of a job."""
    reduces: tuple[int, int] = (1, 2)
    map_s: tuple[float, float] = (1.0, 4.0)
    """Shortest and longest sleep of a task; its JVM comes on top."""
    reduce_s: tuple[float, float] = (1.0, 3.0)


@dataclass(frozen=True, slots=True)
class KeptRun:
    """One real run: its store and settings lie in `folder`."""

    kind: str
    policy: str
    seed: int
    """Of its jobs."""
    round: int
    folder: Path

    @property
    def store(self) -> Path:
        """What its proxy recorded."""
        return self.folder / "proxy.db"

    @property
    def section(self) -> Mapping[str, Any]:
        """Its `policies:` section."""
        section: Mapping[str, Any] = YAML(typ="safe").load(self.folder / "proxy.yaml")["policies"]
        return section


@dataclass(frozen=True, slots=True)
class Replayed:
    """One real run beside its simulations; figures by the names of FIGURES."""

    kind: str
    policy: str
    seed: int
    round: int
    recorded: Mapping[str, float]
    simulated: Mapping[str, Mapping[str, float]]
    """By the policies whose settings they had: means over the simulator's seeds."""
    chance: Mapping[str, Mapping[str, float]]
    """The same of their standard deviations, by these means."""


def rumen(plan: Shuffling, seed: int) -> str:
    """Return a trace as GridMix reads it, a job a line; equal arguments give equal traces."""
    rng = Random(f"replay {seed}")
    arrivals_s = sorted(rng.uniform(0, plan.arrivals_s) for _ in range(plan.jobs))
    return "\n".join(json.dumps(_logged(number, at_s, plan, rng)) for number, at_s in enumerate(arrivals_s, start=1))


def _logged(number: int, arrives_s: float, plan: Shuffling, rng: Random) -> dict[str, Any]:
    at_ms = round(1000 * arrives_s) + 1
    maps = [_task(number, "m", n, at_ms, rng.uniform(*plan.map_s)) for n in range(rng.randint(*plan.maps))]
    reduces = [_task(number, "r", n, at_ms, rng.uniform(*plan.reduce_s)) for n in range(rng.randint(*plan.reduces))]
    return {
        "jobID": f"job_1_{number:04}",
        "jobName": f"replay {number}",
        "user": "bench",
        "queue": BATCH.rpartition(".")[2],
        "jobtype": "JAVA",
        "priority": "NORMAL",
        "outcome": "SUCCESS",
        "submitTime": at_ms,
        "launchTime": at_ms,
        "finishTime": at_ms + _LONGEST_MS,
        "totalMaps": len(maps),
        "totalReduces": len(reduces),
        "mapTasks": maps,
        "reduceTasks": reduces,
        "mapperTriesToSucceed": [1.0],
        "jobProperties": {},
    }


def _task(job: int, letter: str, number: int, at_ms: int, sleep_s: float) -> dict[str, Any]:
    """Return a task with its one attempt; what a reduce sleeps is what it took after its shuffle."""
    name, kind = f"1_{job:04}_{letter}_{number:06}", "MAP" if letter == "m" else "REDUCE"
    ended_ms = at_ms + round(1000 * sleep_s)
    times = {"startTime": at_ms, "finishTime": ended_ms}
    attempt = {"attemptID": f"attempt_{name}_0", "result": "SUCCESS", "hostName": "/rack/host", **times}
    if letter == "r":
        attempt |= {"shuffleFinished": at_ms, "sortFinished": at_ms}
    return {"taskID": f"task_{name}", "taskType": kind, "taskStatus": "SUCCESS", "attempts": [attempt], **times}


def record(
    kind: str, seeds: Iterable[int], rounds: Iterable[int], workdir: Path, base_port: int, progress: Progresses
) -> Iterator[KeptRun]:
    """Run all on one cluster, and yield each run when it is over.

    Raises ClusterError, LocalDaemonsError, JobFailedError.
    """
    plan = real.RealPlan()
    cluster = Cluster(real.spec(plan, workdir / kind, base_port))
    variants, _ = real.variants(POLICIES)
    progress(f"{kind}: starting a cluster of {plan.nodes} nodes")
    cluster.start()
    try:
        for number in rounds:
            for seed in seeds:
                for variant in variants:
                    name = f"{variant.name}-{seed}-{number}"
                    shutil.rmtree(folder := cluster.spec.workdir / f"quicksilver-{name}", ignore_errors=True)
                    with real.stack(cluster, real.section(plan, variant), name) as stack:
                        if kind == "sleeping":
                            wrong = real.wrong(real.run_once(cluster, plan, seed))
                        else:
                            wrong = _gridmix(Environment(cluster, stack, progress), seed)
                    if wrong:
                        raise JobFailedError(wrong[0], place=f"{kind} {name}", remedy=f"read the logs in {folder}")
                    progress(f"{kind} {name} is over")
                    yield KeptRun(kind, variant.name, seed, number, folder)
    finally:
        cluster.stop()


def _gridmix(env: Environment, seed: int) -> list[str]:
    """Run the MapReduce jobs once; return what must not happen, in words."""
    plan = Shuffling()
    trace = env.cluster.spec.workdir / f"rumen-{seed}.json"
    trace.write_text(rumen(plan, seed))
    outcome = gridmix_run.run_gridmix(env, gridmix_run.GridmixPlan(plan.jobs, "REPLAY", "SLEEPJOB", 0), trace)
    well = outcome.summary.all_successful and len(outcome.outcomes) == plan.jobs
    return [] if well else [f"not all of {plan.jobs} jobs ended well: {outcome.outcomes}"]


def recordings(workdir: Path) -> list[KeptRun]:
    """Return the runs that `record` left in a folder."""
    result = []
    for folder in sorted(workdir.glob("*/policies/quicksilver-*-*-*")):
        policy, seed, number = folder.name.removeprefix("quicksilver-").rsplit("-", 2)
        result.append(KeptRun(folder.parent.parent.name, policy, int(seed), int(number), folder))
    return result


def replay(runs: Sequence[KeptRun], seeds: int) -> Iterator[Replayed]:
    """Simulate each run with the settings of each kind's policies, `seeds` times each."""
    plan = real.RealPlan()
    cluster = ClusterModel(plan.nodes, plan.vcores)
    sections = {(run.kind, run.policy): run.section for run in runs}
    for run in runs:
        jobs, own = [entry.job for entry in read_recorded(run.store)], dict(_SETTINGS[run.kind])

        def once(system: str, settings: Mapping[str, Any], seed: int = 1) -> dict[str, float]:
            simulator = systems.load(system)
            result = simulator.run(iter(jobs), cluster, simulator.Settings.model_validate(settings), seed)  # noqa: B023
            metrics = figures(result, cluster, ()).metrics
            return {short: metrics[name] for name, short in FIGURES.items()}

        simulated, chance = {}, {}
        for (kind, policy), section in sections.items():
            if kind == run.kind:
                samples = [once("quicksilver", own | {"policies": section}, seed) for seed in range(1, seeds + 1)]
                simulated[policy] = means = _mean(samples)
                chance[policy] = {n: pstdev([sample[n] for sample in samples]) / mean for n, mean in means.items()}
        recorded = once("recorded", {"store": str(run.store)})
        yield Replayed(run.kind, run.policy, run.seed, run.round, recorded, simulated, chance)


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: fmean(row[name] for row in rows) for name in rows[0]}


def compared(replays: Sequence[Replayed]) -> dict[str, Any]:
    """Return what replays of runs of one kind are worth.

    `error`: by `POLICIES of the record as SETTINGS`, simulated by recorded less 1, in the mean over the runs and of
    each; with other settings against the mean of what these did with the same jobs. `chance`: how far a simulation is
    from the mean of those with other seeds (standard deviation by mean). `spread`: by policies, the largest less the
    smallest of real runs with the same jobs, by their mean; of the set of jobs with most of it.
    """
    means: dict[tuple[str, int], dict[str, float]] = {}
    spread: dict[str, dict[str, float]] = {}
    for policy, seed in sorted({(replayed.policy, replayed.seed) for replayed in replays}):
        runs = [replayed.recorded for replayed in replays if (replayed.policy, replayed.seed) == (policy, seed)]
        means[policy, seed] = _mean(runs)
        apart = {n: (max(r[n] for r in runs) - min(r[n] for r in runs)) / mean for n, mean in _mean(runs).items()}
        spread[policy] = {n: round(max(value, spread.get(policy, {}).get(n, 0.0)), 3) for n, value in apart.items()}
    errors: dict[str, list[dict[str, float]]] = {}
    chances: dict[str, list[Mapping[str, float]]] = {}
    for replayed in replays:
        for settings, simulated in replayed.simulated.items():
            real_one = replayed.recorded if settings == replayed.policy else means.get((settings, replayed.seed))
            if real_one is not None:
                error = {name: simulated[name] / real_one[name] - 1 for name in simulated}
                errors.setdefault(f"{replayed.policy} as {settings}", []).append(error)
                chances.setdefault(f"{replayed.policy} as {settings}", []).append(replayed.chance[settings])
    return {
        "error": {
            name: {
                n: {"mean": round(mean, 3), "each": [round(o[n], 3) for o in all_]} for n, mean in _mean(all_).items()
            }
            for name, all_ in errors.items()
        },
        "chance": {name: {n: round(value, 3) for n, value in _mean(all_).items()} for name, all_ in chances.items()},
        "spread": spread,
        "recorded_s": {f"{policy}, jobs {seed}": _rounded(mean) for (policy, seed), mean in means.items()},
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in values.items()}


def _kinds(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    kinds = tuple(kind.strip() for kind in value.split(","))
    unknown = set(kinds) - set(KINDS)
    if unknown:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(KINDS)}")
    return kinds


@click.command()
@click.option("--jobs", "kinds", default=",".join(KINDS), show_default=True, callback=_kinds, help="What runs.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Real runs of each.")
@click.option("--draws", default=1, show_default=True, type=click.IntRange(1), help="Sets of jobs.")
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(1), help="Simulations of each record.")
@click.option("--kept", "again", is_flag=True, help="No real runs: simulate those that --dir has.")
@click.option("--dir", "workdir", default="run/bench-replay", show_default=True, type=click.Path(path_type=Path))
@click.option("--base-port", default=_PORTS, show_default=True, help="First port of the cluster.")
@click.option(
    "--results", "folder", default=results.RESULTS, type=click.Path(path_type=Path), help="Folder of the result file."
)
def main(
    kinds: tuple[str, ...],
    rounds: int,
    draws: int,
    seeds: int,
    again: bool,
    workdir: Path,
    base_port: int,
    folder: Path,
) -> None:
    """Real runs, and what the simulator makes of their records; the last line is one JSON object."""
    progress, broken, workdir = Progresses(), "", workdir.absolute()
    about = {"machine": results.machine(), "commit": results.commit()}
    runs = [run for run in recordings(workdir) if run.kind in kinds] if again else []
    with interruptible():
        try:
            for kind in () if again else kinds:
                runs += record(kind, range(1, draws + 1), range(1, rounds + 1), workdir, base_port, progress)
        except (QuicksilverError, HadoopRpcError, OSError, RuntimeError, KeyboardInterrupt) as error:
            broken = f"{type(error).__name__}: {error}"
            progress(f"error: {broken}")
    if not runs:
        raise click.ClickException(broken or f"{workdir} has no runs; leave --kept out to make some")
    replays = list(replay(runs, seeds))
    by_kind = {
        kind: compared([replayed for replayed in replays if replayed.kind == kind])
        for kind in {run.kind for run in runs}
    }
    plans = {"sleeping": asdict(real.RealPlan()), "mapreduce": asdict(Shuffling())}
    result = {"benchmark": "replay", **by_kind, "broken": broken, "seeds": seeds, "settings": plans, **about}
    raw = {"runs": [asdict(replayed) for replayed in replays]}
    progress(f"written to {results.write('replay', result, raw, folder)}")
    click.echo(json.dumps(result))
    if broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
