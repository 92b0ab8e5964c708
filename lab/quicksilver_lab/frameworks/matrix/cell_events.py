"""What happens to a cluster while the job of a cell runs, and how it is brought back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.processes import containers_below
from quicksilver_lab.compatibility import Disturbance
from quicksilver_lab.workloads.mapreduce import RunningJob, start_pi
from quicksilver_lab.workloads.records import RecordsWatch, application_of, is_master

CORES: Final = 4
_REPAIRED_S: Final = 240.0
_BESIDE_MAPS: Final = 8


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
        local_root = self.cluster.spec.workdir / "local"
        for process in psutil.process_iter():
            try:
                environment = process.environ() if process.name() == "java" else {}
            except psutil.Error:
                continue  # ended meanwhile
            container = environment.get("CONTAINER_ID", "")
            below = environment.get("LOCAL_DIRS", "").startswith(f"{local_root}{os.sep}")
            if below and is_master(container) and application_of(container) == self.application:
                os.kill(process.pid, signal.SIGKILL)

    def node(self) -> None:
        """End a NodeManager that has tasks and no master by SIGKILL, and its containers."""
        name = self._busy_node()
        self.cluster.kill(f"nodemanager-{name}")
        names = [address.name for address in self.cluster.spec.node_addresses]
        for process in containers_below(self.cluster.local_dir(names.index(name))):
            os.kill(process.pid, signal.SIGKILL)

    def guaranteed(self) -> None:
        """Start a MapReduce job, whose containers are guaranteed where the cell's framework alone is queueable."""
        self.jobs.append(start_pi(self.cluster, "cells-pi", _BESIDE_MAPS, 1000))

    def _busy_node(self) -> str:
        own = [c for c in self.watch.seen.values() if application_of(c.id) == self.application]
        mastered = {c.node for c in own if is_master(c.id)}
        nodes = [c.node for c in own if c.node not in mastered] or [c.node for c in own]
        return next(a.name for a in self.cluster.spec.node_addresses if str(a.rpc) == nodes[0])

    def repair(self) -> None:
        """Wait for jobs that were started, and start NodeManagers that are gone."""
        for job in self.jobs:
            job.wait(_REPAIRED_S)
        for daemon in self.cluster.status().daemons:
            if not daemon.alive:
                self.cluster.restart(daemon.name)
        self.stack.wait()


EVENTS: Final[Mapping[Disturbance, Callable[[CellRun], None]]] = {
    Disturbance.NONE: CellRun.nothing,
    Disturbance.PROXY: CellRun.proxy,
    Disturbance.SIDECAR: CellRun.sidecar,
    Disturbance.RM: CellRun.rm,
    Disturbance.NM: CellRun.nm,
    Disturbance.MASTER: CellRun.master,
    Disturbance.NODE: CellRun.node,
    Disturbance.WORK: CellRun.guaranteed,
}
MAY_FAIL: Final = (Disturbance.MASTER, Disturbance.NODE, Disturbance.WORK)
"""Attempts may fail: their processes ended with a node or a master, or they made room."""


@contextmanager
def cluster_of(workdir: Path, base_port: int, version: str) -> Iterator[Cluster]:
    """Run three nodes whose ResourceManager and NodeManagers recover, for the time of a with block."""
    yarn = {
        "yarn.nm.liveness-monitor.expiry-interval-ms": "15000",
        "yarn.resourcemanager.nm.liveness-monitor.interval-ms": "1000",
    }
    spec = ClusterSpec(
        workdir=workdir,
        base_port=base_port,
        hadoop=version,
        sharing=True,
        services=True,
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
