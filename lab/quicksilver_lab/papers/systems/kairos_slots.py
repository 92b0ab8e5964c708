"""Kairos as its own simulation has it (thesis §4.6): tasks of one core, no frameworks; fast enough for whole traces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Final, Literal

from pydantic import Field

from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import SystemSettings
from quicksilver.simulator.tally import SAMPLE_S
from quicksilver_lab.papers.kairos.central import ByLevel, ByPolicy, KairosCentral, Tie, by_spread, by_sum
from quicksilver_lab.papers.kairos.las_node import LasNode
from quicksilver_lab.papers.kairos.one_core import OneCore
from quicksilver_lab.papers.kairos.run import KairosRun
from quicksilver_lab.papers.kairos.task import KairosNode
from sidecar.cpu_sharing.events import LasRules


class KairosSlots(SystemSettings):
    """Settings of Kairos; the defaults are those of its simulation of the Yahoo trace."""

    quantum_s: float = Field(100.0, gt=0)
    """W (thesis §4.6.2: 100 s for Yahoo's trace, 10,000 s for Google's; §4.5.2: 50 s on the test bed)."""
    extra: int = Field(2, ge=0)
    """Q: tasks that a node has beyond its cores (§4.6.2: 2; §4.5.2: 4)."""
    starve_quanta: int = Field(3, ge=1)
    """k: quanta without running after which a task starves (§4.6.2)."""
    protect_quanta: int = Field(1, ge=1)
    """m: quanta that it then runs without giving way (§4.3.2: a multiple of W; figure own)."""
    machine: bool = False
    """Run `sidecar.cpu_sharing.las` on nodes of one core too; on nodes of several it always runs. Decides the same,
    only slower.
    """
    policy: bool = False
    """Ask `policies.place.variance` for each task. Decides the same, only slower."""
    ties: Literal["spread", "sum", "random"] = "spread"
    """Which of the nodes with equally many tasks is next: that whose tasks' attained service varies least (§4.3.3), or
    is least in sum, or any (§4.5.3 has both for comparison; they look at all nodes for each task)."""
    sample_s: float = Field(SAMPLE_S, gt=0)
    """Between samples of how many slots are busy."""

    def rules(self, cores: int) -> LasRules:
        """Return the rules of a node."""
        return LasRules(cores, self.quantum_s, self.starve_quanta, self.protect_quanta)


class _KairosSlots:
    """The central queue, and nodes that share their cores by attained service."""

    name: Final = "kairos_slots"
    about: Final = "Kairos as its simulation has it (thesis §4.6): tasks of one core; fast enough for whole traces."
    Settings: Final = KairosSlots

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: KairosSlots, seed: int) -> SimResult:
        """Run all jobs; chance decides random ties alone. Raises SimulatorError for tasks of other than one core."""
        rules = settings.rules(cluster.slots)
        kind = LasNode if settings.machine or cluster.slots > 1 else OneCore
        nodes: list[KairosNode] = [kind(rules) for _ in range(cluster.nodes)]
        central = _central(nodes, cluster, settings, seed)
        result = SimResult(self.name, seed)
        KairosRun(nodes, central, cluster, result).until_all_is_over(map(_of_one_core, jobs), settings.sample_s)
        return result


def _central(nodes: Sequence[KairosNode], cluster: ClusterModel, settings: KairosSlots, seed: int) -> KairosCentral:
    if settings.ties == "spread" and not settings.policy:
        return ByLevel(nodes, cluster.slots, settings.extra)
    rng = Random(seed)
    ties: dict[str, Tie] = {"spread": by_spread, "sum": by_sum, "random": lambda *_: rng.random()}
    return ByPolicy(nodes, cluster.slots, settings.extra, ties[settings.ties])


def _of_one_core(job: SimulatedJob) -> SimulatedJob:
    if job.cores != 1:
        raise SimulatorError(
            f"job {job.number}: tasks of {job.cores:g} cores; kairos_slots has slots alone, use kairos"
        )
    return job


SYSTEM: Final = _KairosSlots()
