"""`python -m quicksilver_lab.bench.zoe.figure1`: Figure 1 of Zoe's paper live, by described applications.

Ten units; requests A to D come at once and in this order, each with 3 core components and 4, 3, 5 and 2 elastic ones;
with all of them each one runs 10 s. Two core components do no work (§2.2): W = 10 (1 + E). Average turnarounds in the
paper: 25 s rigid, 21.875 s malleable, 21.875 s flexible. Here all times are `stretch` times as long, so that the
seconds which YARN takes to start containers matter little.

A unit is a container of UNIT_MB on one node. An application has one core instance of each of `pool`, which hands out
the work, `client`, which idles, and `worker`, of which the others are elastic.

Room: YARN starts the four masters at once, whatever is admitted, and a master's container is one more than the paper
has. The node has ten units and four masters of MASTER_MB. While all four run, ten units fit exactly; what ended masters
leave never holds an eleventh unit, since three of them are smaller than one. The admission counts an application's own
master to its core: A and B together want 13 units and 2 masters, more than the node has; and the cores of two of them
leave 4 units and 2 masters, which is room for 4 elastic components. So each decision is as with ten units.

A request is known to the scheduler when its master registers: each one is submitted when the master before it has,
which takes some seconds, so that the order is that of the paper. All turnarounds count from the first submission.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import click

from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from hadoop_rpc.protos.yarn_pb2 import APP_SUCCEEDED
from quicksilver.common.errors import QuicksilverError
from quicksilver_apps.client.login import Login
from quicksilver_apps.client.records import ClientRecords
from quicksilver_apps.client.rm import END_STATES, Rm, id_of
from quicksilver_apps.client.session import Session
from quicksilver_apps.client.site import ClusterSite
from quicksilver_apps.client.submission import Described, Options, Submitter
from quicksilver_apps.description.model import Application
from quicksilver_lab.bench import results
from quicksilver_lab.bench.mercury.competitors import TUNED
from quicksilver_lab.bench.zoe import pool
from quicksilver_lab.bench.zoe.systems import ADMISSIONS, NAMES, ZoeSystem, system
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.spec import ClusterSpec
from quicksilver_lab.workloads.environment import interruptible

UNITS: Final = 10
UNIT_MB: Final = 1024
MASTER_MB: Final = 256
CORE: Final = 3
REQUESTS: Final[Mapping[str, int]] = {"a": 4, "b": 3, "c": 5, "d": 2}
"""Elastic components by name."""
RUNTIME_S: Final = 10.0
PAPER_S: Final[Mapping[str, float]] = {"rigid": 25.0, "malleable": 21.875, "flexible": 21.875}
ENDS_S: Final[Mapping[str, tuple[float, ...]]] = {
    "rigid": (10.0, 20.0, 30.0, 40.0),
    "malleable": (10.0, 17.5, 25.0, 35.0),
    "flexible": (10.0, 17.5, 26.5, 33.5),
}
"""When A to D end (Figure 1; `lab/tests/papers/systems/test_zoe.py`)."""
TOLERANCE: Final = 0.1
_UNITS_EACH_S: Final = 20.0
"""A unit of work takes the runtime divided by this."""
_PORTS: Final = 24500
_VCORES: Final = 64
"""More than containers: memory alone counts."""
_POLL_S: Final = 0.2
_BESIDE_S: Final = 240.0
"""Beside twice the time of the paper, for starts."""
_DEFAULT: Final = "rigid,malleable,flexible"

Progress = Callable[[str], None]


class Figure1Error(QuicksilverError):
    """An application did not end as it should."""


@dataclass(frozen=True, slots=True)
class FigureOutcome:
    """One system. Times in seconds, as they were."""

    turnaround_s: Mapping[str, float]
    """From the submission of the first one, as the ResourceManager has both moments."""

    @property
    def mean_s(self) -> float:
        """The average turnaround."""
        return fmean(self.turnaround_s.values())


def cluster_spec(workdir: Path, base_port: int, overlay: bool) -> ClusterSpec:
    """Return one node with room for ten units and four masters."""
    return ClusterSpec(
        workdir=workdir,
        base_port=base_port,
        nodes=1,
        yarn_only=True,
        overlay=overlay,
        node_vcores=_VCORES,
        node_memory_mb=UNITS * UNIT_MB + len(REQUESTS) * MASTER_MB,
        min_allocation_mb=MASTER_MB,
        queues={"default": 100},
        extra_site={
            "yarn": {"yarn.nodemanager.pmem-check-enabled": "false"},
            "capacity-scheduler": {**TUNED, "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0"},
        },
    )


def application(name: str, elastic: int, stretch: float) -> Application:
    """Return the description of one request."""
    runtime_s = RUNTIME_S * stretch
    unit_s = runtime_s / _UNITS_EACH_S
    units = round((1 + elastic) * _UNITS_EACH_S)
    program, own = f"exec {sys.executable} pool.py", {"memory_mb": UNIT_MB}
    return Application.model_validate(
        {
            "version": 1,
            "name": name,
            "expected_s": runtime_s,
            "master": {"memory_mb": MASTER_MB},
            "files": [{"source": pool.__file__, "name": "pool.py"}],
            "services": [
                {
                    "name": "pool",
                    "core": 1,
                    "command": f"{program} serve {units} {unit_s:.3f}",
                    "resources": own,
                    "ports": [{"name": "http"}],
                    "ready": {"port": "http", "every_s": 0.2},
                    "main": True,
                },
                {"name": "client", "core": 1, "command": "exec sleep 100000", "resources": own},
                {
                    "name": "worker",
                    "core": CORE - 2,
                    "elastic": elastic,
                    "command": f"{program} work {unit_s:.3f}",
                    "resources": own,
                    "after": ["pool"],
                },
            ],
        }
    )


async def _warmed(rm: Rm, submitter: Submitter, folder: Path, progress: Progress) -> None:
    """Run an application of a second before all others: the first container on a new cluster takes seconds longer."""
    described = Described(application("warm-up", 0, 0.1), folder, "warm-up")
    await _ended(rm, "warm-up", (await submitter.submit(described)).application_id, progress)


async def submitted(cluster: Cluster, stretch: float, folder: Path, progress: Progress) -> FigureOutcome:
    """Submit all requests in their order, and return when each ended. Raises QuicksilverError, TimeoutError."""
    site = ClusterSite.load(cluster.conf_dir)
    session = Session(site, Login.of(site), f"file://{folder}/staging")
    submitter = Submitter(session, Options(python=sys.executable), ClientRecords(folder / "records"))
    limit_s = 2 * stretch * max(max(ends) for ends in ENDS_S.values()) + _BESIDE_S
    async with asyncio.timeout(limit_s), session.rm() as rm:
        await _warmed(rm, submitter, folder, progress)
        ids: dict[str, str] = {}
        for name, elastic in REQUESTS.items():
            described = Described(application(name, elastic, stretch), folder, f"figure 1, {name}")
            ids[name] = (await submitter.submit(described)).application_id
            await _state(rm, name, ids[name], (client_pb2.RUNNING, *END_STATES))
            progress(f"{name} is {ids[name]}")
        moments = {name: await _ended(rm, name, app_id, progress) for name, app_id in ids.items()}
    first_s = min(begun for begun, _ in moments.values())
    return FigureOutcome({name: round(ended - first_s, 3) for name, (_, ended) in moments.items()})


async def _state(rm: Rm, name: str, app_id: str, states: Sequence[int]) -> client_pb2.ApplicationReportProto:
    """Return the report of an application once it is in one of these states. Raises Figure1Error when it failed."""
    while True:
        report = await rm.report(id_of(app_id))
        if report.yarn_application_state in states:
            break
        await asyncio.sleep(_POLL_S)
    if report.yarn_application_state in END_STATES and report.final_application_status != APP_SUCCEEDED:
        why = report.diagnostics.strip() or "no diagnostics"
        raise Figure1Error(f"it failed: {why}", place=f"{name}, {app_id}", remedy="read the log of its master")
    return report


async def _ended(rm: Rm, name: str, app_id: str, progress: Progress) -> tuple[float, float]:
    """Return begin and end of an application, in Unix seconds. Raises Figure1Error when it failed."""
    report = await _state(rm, name, app_id, END_STATES)
    progress(f"{name} ended")
    return report.startTime / 1000, report.finishTime / 1000


def run(competitor: ZoeSystem, stretch: float, workdir: Path, base_port: int, progress: Progress) -> FigureOutcome:
    """Run one system on a cluster of its own. Raises QuicksilverError, OSError."""
    cluster = Cluster(cluster_spec(workdir, base_port, competitor.quicksilver))
    cluster.start(progress=progress)
    try:
        if competitor.policies is None:
            return asyncio.run(submitted(cluster, stretch, workdir, progress))
        stack = LocalDaemons(
            cluster, competitor.policies, sidecar={"reserve_mb": 0, "vcores": _VCORES}, supervised=False
        )
        stack.start(progress)
        try:
            return asyncio.run(submitted(cluster, stretch, workdir, progress))
        finally:
            stack.stop()
    finally:
        cluster.stop()


def judged(name: str, outcome: FigureOutcome, stretch: float) -> dict[str, Any]:
    """Return a system's figures: turnarounds in the paper's seconds, and whether the average is that of the paper."""
    figures: dict[str, Any] = {
        "turnaround_s": dict(outcome.turnaround_s),
        "scaled_s": {each: round(value / stretch, 3) for each, value in outcome.turnaround_s.items()},
        "mean_scaled_s": round(outcome.mean_s / stretch, 3),
    }
    if name in PAPER_S:
        ratio = outcome.mean_s / stretch / PAPER_S[name]
        figures |= {"paper_mean_s": PAPER_S[name], "ratio": round(ratio, 4), "met": abs(ratio - 1) <= TOLERANCE}
    return figures


def _listed(_context: click.Context, _parameter: click.Parameter, value: str) -> Sequence[str]:
    names = list(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))
    unknown = [name for name in names if name not in NAMES]
    if unknown or not names:
        raise click.BadParameter(f"{', '.join(unknown) or 'none'}: choose from stock, {', '.join(ADMISSIONS)}")
    return names


@click.command()
@click.option("--systems", default=_DEFAULT, show_default=True, callback=_listed, help="With commas, one by one.")
@click.option("--stretch", default=8.0, show_default=True, type=click.FloatRange(0.5), help="Our times by the paper's.")
@click.option("--dir", "workdir", default="run/bench-zoe-figure1", show_default=True, type=click.Path(path_type=Path))
@click.option("--base-port", default=_PORTS, show_default=True, help="First port.")
@results.folder_option
def figure1(systems: Sequence[str], stretch: float, workdir: Path, base_port: int, folder: Path) -> None:
    """Run the four requests of Figure 1 on a local cluster of ten units, under each system.

    The last line is one JSON object. Exits with code 1 when an average is not within a tenth of the paper's.
    """
    start_s = time.monotonic()

    def progress(text: str) -> None:
        click.echo(f"[{time.monotonic() - start_s:6.1f} s] {text}", err=True)

    about = {"machine": results.machine(), "commit": results.commit()}
    verdicts: dict[str, Any] = {}
    try:
        with interruptible():
            for name in systems:
                outcome = run(system(name), stretch, workdir.absolute() / name, base_port, progress)
                verdicts[name] = judged(name, outcome, stretch)
                progress(f"{name}: {json.dumps(verdicts[name])}")
    except (QuicksilverError, TimeoutError) as error:
        raise click.ClickException(str(error) or "the applications did not end in time") from error
    result: dict[str, Any] = {
        "benchmark": "zoe-figure1",
        "systems": verdicts,
        "paper_ends_s": {name: ENDS_S[name] for name in verdicts if name in ENDS_S},
        "settings": {"stretch": stretch, "unit_mb": UNIT_MB, "master_mb": MASTER_MB},
    }
    path = results.write("zoe-figure1", result | about, {}, folder)
    click.echo(f"written to {path}", err=True)
    click.echo(json.dumps(result | about))
    if not all(verdict.get("met", True) for verdict in verdicts.values()):
        sys.exit(1)


if __name__ == "__main__":
    figure1()
