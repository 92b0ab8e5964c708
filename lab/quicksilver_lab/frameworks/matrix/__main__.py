"""`python -m quicksilver_lab.frameworks.matrix`: jobs of each framework while parts of the cluster end.

A cell is one job. It passed when the job's result is right, its containers are of the expected type, and no attempt
failed without a reason. With QUICKSILVER_COMPATIBILITY in the environment the cells become rows of the table in
docs/compatibility.md. The last line is all cells as JSON.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import click
import requests

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.cluster import ClusterError
from quicksilver_lab.cluster.local_daemons import LocalDaemons, running
from quicksilver_lab.cluster.runtime.releases import DEFAULT, RELEASES
from quicksilver_lab.compatibility import LONGEST_CAUSE, Cell, Disturbance, Mode, record
from quicksilver_lab.frameworks.matrix.cell_events import CORES, EVENTS, MAY_FAIL, CellRun, cluster_of
from quicksilver_lab.frameworks.matrix.cell_jobs import CellFramework, CellJob, frameworks
from quicksilver_lab.workloads.clients import Clients, Progress
from quicksilver_lab.workloads.environment import Progresses, finish, interruptible, one_line_errors
from quicksilver_lab.workloads.errors import JobFailedError
from quicksilver_lab.workloads.records import RecordsWatch, RecordTally
from quicksilver_lab.workloads.spark import DEFAULT_PYTHON

MODES: Final[Sequence[Mode]] = get_args(Mode)
_NAMES: Final = tuple(frameworks(DEFAULT_PYTHON))
_READY_S: Final = 120.0
_GUARD: Final = "deadlock guard"
_THROWN: Final = re.compile(
    r"^(?:Caused by: |Exception in thread \S+ )?((?:\w+\.)+\w*(?:Exception|Error)\b.*)$"
    r"|(Container exited with a non-zero exit code \d+)",
    re.MULTILINE,
)


def policies_of(mode: Mode, application_type: str) -> Mapping[str, Any]:
    """Return the section `policies:` of a mode: the framework's containers as it says, all others guaranteed."""
    if mode == "LAS":
        return {"preset": "kairos"}
    queueable = {"match": {"type": application_type}, "policy": "only_q"}
    rules: dict[str, Any] = {"preset": "default", "routes": [] if mode == "G" else [queueable]}
    return rules | ({"preempt": {"policy": "kill_newest"}} if mode == "KILL" else {})


@dataclass(frozen=True, slots=True)
class DisturbedJobs:
    """A cluster with daemons, and the framework whose jobs are disturbed."""

    framework: CellFramework
    stack: LocalDaemons
    version: str

    def cell(self, mode: Mode, event: Disturbance) -> Cell:
        """Run one cell."""
        cause, job = "", None
        cluster = self.stack.cluster
        with RecordsWatch(cluster) as watch, Clients() as together:
            name = f"{self.framework.name}-{mode}-{event}".replace(" ", "-").lower()
            try:
                job = self.framework.start(name, together)
                run = CellRun(cluster, self.stack, watch, self._started(job, watch), [])
                EVENTS[event](run)
                cause = job.mistake(event in MAY_FAIL) or self._type_mistake(watch, run.application, mode, event)
                run.repair()
            except (QuicksilverError, ClusterError, requests.RequestException) as error:
                cause = f"{str(error).splitlines()[0]} {thrown(job.text()) if job else ''}".strip()
        return Cell(
            version=self.version,
            framework=self.framework.name,
            mode=mode,
            event=event,
            outcome="failed" if cause else "passed",
            cause=cause[:LONGEST_CAUSE],
        )

    def _started(self, job: CellJob, watch: RecordsWatch) -> str:
        """Wait until some tasks run; return the application."""
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and not job.ended():
            if job.application and watch.tally(job.application).ran >= self.framework.tasks:
                return job.application
            time.sleep(0.2)
        raise JobFailedError(
            f"{self.framework.tasks} tasks do not run", place=self.framework.name, remedy="read logs/clients"
        )

    def _type_mistake(self, watch: RecordsWatch, application: str, mode: Mode, event: Disturbance) -> str:
        guarded = 0
        if mode != "G" and event in MAY_FAIL:
            reasons = self.stack.get(f"/v1/decisions?kind=G&app={application}&limit=1000")["items"]
            guarded = sum(grant["route_reason"].startswith(_GUARD) for grant in reasons)
        return type_mistake(watch.tally(application), mode, guarded)


def thrown(text: str) -> str:
    """Return the last exception of a client's output with its message, or exit code; empty without one."""
    return "".join(next(reversed(_THROWN.findall(text)), ""))


def type_mistake(tally: RecordTally, mode: Mode, guarded: int = 0) -> str:
    """Return what is wrong with the types of containers, by YARN's records; empty when nothing is.

    guarded: so many had to be guaranteed, since containers of their application that wait for them ran.
    """
    expected = 0 if mode == "G" else tally.ran - guarded
    right = tally.ran and tally.nm_opportunistic == expected
    return "" if right else f"{tally.nm_opportunistic} of {tally.ran} containers were queueable"


@click.command()
@click.option(
    "--workdir", type=click.Path(file_okay=False, path_type=Path), default=Path("run/matrix"), show_default=True
)
@click.option("--base-port", default=23000, show_default=True, help="First port of the cluster.")
@click.option("--hadoop", type=click.Choice(list(RELEASES)), default=DEFAULT, show_default=True)
@click.option("--framework", "names", type=click.Choice(_NAMES), multiple=True, default=_NAMES, show_default=True)
@click.option("--mode", "modes", type=click.Choice(MODES), multiple=True, default=MODES, show_default=True)
@click.option("--event", "events", type=click.Choice([str(e) for e in EVENTS]), multiple=True, help="Default: all.")
@click.option("--python", type=click.Path(path_type=Path), default=DEFAULT_PYTHON, show_default=True, help="Spark's.")
@one_line_errors
def main(
    workdir: Path,
    base_port: int,
    hadoop: str,
    names: Sequence[str],
    modes: Sequence[Mode],
    events: Sequence[str],
    python: Path,
) -> None:
    """Run the cells of all frameworks, modes and events with one version of Hadoop; exit code 1 when one fails."""
    progress: Progress = Progresses()
    cells: list[Cell] = []
    happenings = [Disturbance(event) for event in events] or list(EVENTS)
    with interruptible(), cluster_of(workdir.absolute(), base_port, hadoop) as cluster:
        for name in names:
            try:
                with running(cluster, policies={}, sidecar={"vcores": CORES}):  # Hive's tables are made by a job
                    framework = frameworks(python)[name](cluster)
            except (QuicksilverError, ClusterError) as error:
                progress(f"{name} cannot be installed: {str(error).splitlines()[0]}")
                continue
            for mode in modes:
                policies = policies_of(mode, framework.application_type)
                with running(cluster, policies=policies, sidecar={"vcores": CORES}) as stack:
                    for event in happenings:
                        cells.append(DisturbedJobs(framework, stack, hadoop).cell(mode, event))
                        record(cells[-1])
                        progress(", ".join(filter(None, _words(cells[-1]))))
    result = {"cells": [cell.model_dump(mode="json", exclude={"commit", "date"}) for cell in cells]}
    finish(result, bool(cells) and all(cell.outcome == "passed" for cell in cells))


def _words(cell: Cell) -> tuple[str, ...]:
    return (cell.version, cell.framework, cell.mode, cell.event, cell.outcome, cell.cause)


if __name__ == "__main__":
    main()
