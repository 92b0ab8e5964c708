"""Probe nodes at random for all tasks of a job; long jobs go where they wait least (Sparrow; Hawk, thesis §2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from policies.base import Policy
from policies.common.probe_nodes import Probing, by_wait, waits_least
from policies.common.probing import draw, probes
from policies.probes import NewTasks, ProbedNode


class Batch(Probing):
    """Settings of batch."""


def probe(tasks: NewTasks, nodes: Sequence[ProbedNode], cfg: Batch, rng: Random) -> list[str]:
    """Return the nodes where the tasks get probes."""
    if waits_least(tasks, cfg):
        return by_wait(tasks, nodes)
    count = probes(tasks.tasks, cfg.ratio, 0 if tasks.more else cfg.min_probes)
    return [node.node.id for node in draw(count, nodes, rng, distinct=True)]


POLICY = Policy("batch", Batch, probe)
