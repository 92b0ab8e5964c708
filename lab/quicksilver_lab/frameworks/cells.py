"""`python -m quicksilver_lab.frameworks.cells`: DAGs of Tez while parts of the cluster end, by type of container.

Each cell is one DAG of sleeping tasks. It passed when the DAG succeeded, its containers were of the expected type, and
no attempt failed. The last line is all cells as JSON.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.cluster import Cluster, ClusterError, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons, running
from quicksilver_lab.cluster.processes import containers_below
from quicksilver_lab.frameworks.tez import APPLICATION_TYPE, Tez
from quicksilver_lab.workloads.clients import Client, Clients, Progress
from quicksilver_lab.workloads.environment import Progresses, finish, interruptible, one_line_errors
from quicksilver_lab.workloads.errors import JobFailedError
from quicksilver_lab.workloads.faults.inject import masters
from quicksilver_lab.workloads.mapreduce import RunningJob, start_pi
from quicksilver_lab.workloads.records import RecordsWatch, RecordTally, application_of, is_master
from quicksilver_lab.workloads.rest import get_json

CORES: Final = 4
_RUNNING: Final = 3
"""Tasks that run when the event comes."""
_TIMEOUT_S: Final = 240.0
_READY_S: Final = 90.0
_APPLICATION: Final = re.compile(r"application_\d+_\d+")
_FAILED: Final = re.compile(r"FailedTaskAttempts: (\d+)")
_ONLY_TEZ: Final = {"routes": [{"match": {"type": APPLICATION_TYPE}, "policy": "only_q"}]}

MODES: Final[Mapping[str, Mapping[str, Any]]] = {
    "G": {"preset": "default", "routes": []},
    "Q": {"preset": "default", **_ONLY_TEZ},
    "LAS": {"preset": "kairos"},
    "KILL": {"preset": "default", **_ONLY_TEZ, "preempt": {"policy": "kill_newest"}},
}
"""By name: the section `policies:`. KILL ends queueable containers for guaranteed ones."""


@dataclass(frozen=True, slots=True)
class CellRun:
    """What an event may act on. Each changes the cluster, and `repair` brings back what does not come by itself."""

    cluster: Cluster
    stack: LocalDaemons
    watch: RecordsWatch
    application: str
    jobs: list[RunningJob]

    def nothing(self) -> None:
        """Leave all as it is."""

    def proxy(self) -> None:
        """End the proxy by SIGKILL."""
        self.stack.kill("proxy")

    def sidecar(self) -> None:
        """End all sidecars by SIGKILL."""
        for node in self.cluster.spec.node_addresses:
            self.stack.kill(node.name)

    def rm(self) -> None:
        """Restart the ResourceManager, which recovers the application."""
        self.cluster.restart("resourcemanager")

    def nm(self) -> None:
        """Restart a NodeManager, whose containers go on."""
        self.cluster.restart(f"nodemanager-{self._busy_node()}")

    def master(self) -> None:
        """End the application master by SIGKILL."""
        for pid, container in masters(self.cluster.spec.workdir / "local").items():
            if application_of(container) == self.application:
                os.kill(pid, signal.SIGKILL)

    def node(self) -> None:
        """End a NodeManager that has tasks and no master by SIGKILL, and its containers."""
        name = self._busy_node()
        self.cluster.kill(f"nodemanager-{name}")
        names = [address.name for address in self.cluster.spec.node_addresses]
        for process in containers_below(self.cluster.local_dir(names.index(name))):
            os.kill(process.pid, signal.SIGKILL)

    def guaranteed(self) -> None:
        """Start a MapReduce job, whose containers are guaranteed where Tez alone is queueable."""
        self.jobs.append(start_pi(self.cluster, "cells-pi", 8, 1000))

    def _busy_node(self) -> str:
        own = [c for c in self.watch.seen.values() if application_of(c.id) == self.application]
        mastered = {c.node for c in own if is_master(c.id)}
        nodes = [c.node for c in own if c.node not in mastered]
        return next(a.name for a in self.cluster.spec.node_addresses if str(a.rpc) == nodes[0])

    def repair(self) -> None:
        """Wait for jobs that were started, and start NodeManagers that are gone."""
        for job in self.jobs:
            job.wait(_TIMEOUT_S)
        for daemon in self.cluster.status().daemons:
            if not daemon.alive:
                self.cluster.restart(daemon.name)
        self.stack.wait()


EVENTS: Final[Mapping[str, Callable[[CellRun], None]]] = {
    "none": CellRun.nothing,
    "proxy restart": CellRun.proxy,
    "sidecar restart": CellRun.sidecar,
    "rm restart": CellRun.rm,
    "nm restart": CellRun.nm,
    "master killed": CellRun.master,
    "node lost": CellRun.node,
    "guaranteed work": CellRun.guaranteed,
}
_MAY_FAIL: Final = ("node lost",)
"""Tez counts attempts of a node that is lost as killed, but those whose processes ended before as failed."""


@contextmanager
def cluster_of(workdir: Path, base_port: int) -> Iterator[Cluster]:
    """Run three nodes whose ResourceManager and NodeManagers recover, for the time of a with block."""
    yarn = {
        "yarn.nm.liveness-monitor.expiry-interval-ms": "15000",
        "yarn.resourcemanager.nm.liveness-monitor.interval-ms": "1000",
    }
    spec = ClusterSpec(
        workdir=workdir,
        base_port=base_port,
        sharing=True,
        rm_recovery=True,
        nm_recovery=True,
        node_vcores=CORES,
        resource_calculator="dominant",
        extra_site={"yarn": yarn},
    )
    cluster = Cluster(spec)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def cell(tez: Tez, stack: LocalDaemons, mode: str, event: str) -> dict[str, str]:
    """Run one cell; return it as the table of what ran has it."""
    outcome, cause = "passed", ""
    with RecordsWatch(tez.cluster) as watch, Clients() as together:
        name = f"{mode}-{event}".replace(" ", "-").lower()
        client = together.add(tez.sleep(name, maps=9, map_s=5, reduces=2))
        try:
            run = CellRun(tez.cluster, stack, watch, _started(client, watch), [])
            EVENTS[event](run)
            client.wait(_TIMEOUT_S)
            cause = mistake(client.text, watch.tally(run.application), mode, event)
            run.repair()
        except (QuicksilverError, ClusterError) as error:
            cause = str(error).splitlines()[0]
        outcome = "failed" if cause else outcome
    version = get_json(f"{tez.cluster.rm_rest}/ws/v1/cluster/info")["clusterInfo"]["hadoopVersion"]
    base = {"version": version, "framework": f"Tez {tez.jars.version}", "mode": mode, "event": event}
    return base | {"outcome": outcome, "cause": cause[:200]}


def _started(client: Client, watch: RecordsWatch) -> str:
    """Wait until some tasks run; return the application."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and client.poll() is None:
        application = _APPLICATION.search(client.text)
        if application and watch.tally(application[0]).ran >= _RUNNING:
            return application[0]
        time.sleep(0.2)
    raise JobFailedError(f"{_RUNNING} tasks do not run", place=client.name, remedy=f"read {client.log}")


def mistake(text: str, tally: RecordTally, mode: str, event: str) -> str:
    """Return what is wrong with a DAG, by the output of its client and YARN's records; empty when nothing is."""
    if "State: SUCCEEDED" not in text:
        return "the DAG did not succeed"
    failed = _FAILED.findall(text)
    if failed and event not in _MAY_FAIL:
        return f"{failed[-1]} attempts failed"
    expected = 0 if mode == "G" else tally.ran
    right = tally.ran and tally.nm_opportunistic == expected
    return "" if right else f"{tally.nm_opportunistic} of {tally.ran} containers were queueable"


@click.command()
@click.option(
    "--workdir", type=click.Path(file_okay=False, path_type=Path), default=Path("run/cells"), show_default=True
)
@click.option("--base-port", default=23000, show_default=True, help="First port of the cluster.")
@click.option("--mode", "modes", type=click.Choice(list(MODES)), multiple=True, default=list(MODES), show_default=True)
@click.option("--event", "events", type=click.Choice(list(EVENTS)), multiple=True, default=list(EVENTS))
@one_line_errors
def main(workdir: Path, base_port: int, modes: Sequence[str], events: Sequence[str]) -> None:
    """Run the cells of all MODEs and EVENTs; exit code 1 when one fails."""
    progress: Progress = Progresses()
    cells: list[dict[str, str]] = []
    with interruptible(), cluster_of(workdir.absolute(), base_port) as cluster:
        tez = Tez(cluster)
        tez.install()
        for mode in modes:
            with running(cluster, policies=MODES[mode], sidecar={"vcores": CORES}) as stack:
                for event in events:
                    cells.append(cell(tez, stack, mode, event))
                    progress(", ".join(cells[-1].values()))
    finish({"cells": cells}, all(done["outcome"] == "passed" for done in cells))


if __name__ == "__main__":
    main()
