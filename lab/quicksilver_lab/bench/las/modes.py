"""The ways that are compared: stock YARN first in first out, stock YARN with opportunistic containers, quicksilver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from policies.config.presets import DEFAULT
from quicksilver_lab.bench.las.jobs import THESIS_QUANTUM_S, LasScale
from quicksilver_lab.bench.las.master import MEMORY_MB
from quicksilver_lab.bench.las.umbilical import Launcher, in_docker
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons

Progress = Callable[[str], None]

EXTRA: Final = 4
"""Q of the thesis (§4.5.2)."""
_NODE_MEMORY_MB: Final = 8192
"""Room for more containers than ever run: memory is never the limit."""
_RETRIES: Final = 1_000_000
"""No task becomes guaranteed: a preset for a whole cluster would have one that three nodes refused go that way."""
_SITE: Final = {"yarn.log-aggregation-enable": "false"}
_OPPORTUNISTIC: Final = {
    "yarn.resourcemanager.opportunistic-container-allocation.enabled": "true",
    "yarn.nodemanager.opportunistic-containers-max-queue-length": "1000",
    "yarn.resourcemanager.nm-container-queuing.min-queue-length": "1000",
    "yarn.resourcemanager.nm-container-queuing.max-queue-length": "1000",
}
"""The ResourceManager's limits are raised too: by default it has queues of more than 5 to 15 killed again and again."""
_SCHEDULER: Final = {"yarn.scheduler.capacity.maximum-am-resource-percent": "1000"}
"""Masters outside of YARN use nothing of the node but count for this limit: else only 2 jobs were active at once."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One way. policies: that section of quicksilver.yaml; None for stock YARN."""

    name: str
    vcores: int
    """What the NodeManager advertises."""
    opportunistic: bool = False
    yarn_site: Mapping[str, str] = field(default_factory=dict)
    policies: Mapping[str, Any] | None = None
    cores: int = 2
    """What containers may use, as the sidecar has it."""
    sidecar: Mapping[str, Any] = field(default_factory=dict)
    """More of that section of quicksilver.yaml."""
    launcher: Launcher | None = None
    """How tasks are run in their containers, where it is not as they are."""

    def in_docker(self, url: str, image: str) -> Mode:
        """Return this mode with all tasks as Docker containers."""
        sidecar = {"resizer": "docker", "docker_url": url} if self.policies is not None else {}
        return replace(self, sidecar=sidecar, launcher=in_docker(url, image))

    def spec(self, workdir: Path, base_port: int, queues: Mapping[str, int]) -> ClusterSpec:
        """Return its cluster of one node."""
        return ClusterSpec(
            workdir=workdir / self.name,
            base_port=base_port,
            nodes=1,
            yarn_only=True,
            overlay=self.policies is not None,
            node_vcores=self.vcores,
            node_memory_mb=_NODE_MEMORY_MB,
            min_allocation_mb=MEMORY_MB,
            resource_calculator="dominant",
            queues=dict(queues),
            extra_site={"yarn": _SITE | dict(self.yarn_site), "capacity-scheduler": dict(_SCHEDULER)},
        )


def las_policies(scale: LasScale, routes: tuple[Mapping[str, Any], ...] = ({"policy": "only_q"},)) -> dict[str, Any]:
    """Return the policies of Kairos: its preset, with the quantum of the thesis at this scale."""
    las = {"quantum_s": THESIS_QUANTUM_S * scale.time, "extra": EXTRA}
    preset = {"preset": "kairos", "preempt": {"policy": "las", "settings": las}}
    return preset | {"routes": [dict(route) for route in routes], "retries_to_g": _RETRIES}


def killing_policies(routes: tuple[Mapping[str, Any], ...] = ({"policy": "only_q"},)) -> dict[str, Any]:
    """Return the policies of Mercury: waiting at the node, and the newest are killed for a guaranteed one."""
    return _queueable(routes) | {"place": {"policy": "topk_wait"}, "preempt": {"policy": "kill_newest"}}


def _queueable(routes: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    listed = [dict(route) for route in routes]
    return {"queues": "*", "routes": listed, "quota": {"policy": "none"}, "retries_to_g": _RETRIES}


def fifo(scale: LasScale) -> Mode:
    """Return stock YARN: guaranteed containers, first in first out."""
    return Mode("fifo", scale.cores)


def opportunistic(scale: LasScale) -> Mode:
    """Return stock YARN whose containers are all opportunistic, allocated centrally and queued by the NodeManager."""
    return Mode("opportunistic", scale.cores, True, _OPPORTUNISTIC)


def las(scale: LasScale) -> Mode:
    """Return quicksilver with least attained service; the NodeManager advertises N + Q."""
    return Mode("las", scale.cores + EXTRA, policies=las_policies(scale), cores=scale.cores)


def quicksilver(scale: LasScale) -> Mode:
    """Return quicksilver as it is installed, with its default preset; the NodeManager advertises N + 1."""
    return Mode("quicksilver", scale.cores + 1, policies={"preset": DEFAULT}, cores=scale.cores)


def kill_newest(scale: LasScale) -> Mode:
    """Return quicksilver without preemption by resizing."""
    return Mode("kill_newest", scale.cores, policies=killing_policies(), cores=scale.cores)


@contextmanager
def running(
    mode: Mode, workdir: Path, base_port: int, progress: Progress, queues: Mapping[str, int] | None = None
) -> Iterator[Cluster]:
    """Run a mode's cluster, with proxy and sidecar if it has them, for the time of a with block.

    Raises ClusterError, LocalDaemonsError; nothing is left running.
    """
    cluster = Cluster(mode.spec(workdir, base_port, queues or {"default": 100}))
    progress(f"{mode.name}: starting a cluster of one node")
    cluster.start()
    try:
        with _stack(mode, cluster):
            yield cluster
    finally:
        progress(f"{mode.name}: stopping the cluster")
        cluster.stop()


@contextmanager
def _stack(mode: Mode, cluster: Cluster) -> Iterator[None]:
    if mode.policies is None:
        yield
        return
    stack = LocalDaemons(cluster, mode.policies, sidecar={"vcores": mode.cores} | dict(mode.sidecar))
    stack.start()
    try:
        yield
    finally:
        stack.stop()
