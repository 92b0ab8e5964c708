"""Probe only nodes where no long task is ahead, and stay there until the job is served (Eagle, thesis §3.3, §3.4).

Eagle's nodes refuse probes while they have a long task, and tell who else has one (Succinct State Sharing). The proxy
knows that of all nodes, so no probe is refused. Where long tasks are everywhere, the nodes kept for short jobs are
probed, and where none is kept, all.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pydantic import Field

from policies.base import Policy
from policies.common.probe_nodes import Probing, by_wait, waits_least
from policies.common.probing import draw, probes
from policies.probes import NewTasks, ProbedNode, without_long


class Succinct(Probing):
    """Settings of succinct."""

    min_probes: int = Field(20, ge=0, json_schema_extra={"unit": "probes", "source": "Eagle, thesis §3.5"})
    """Probes of a job at least, however few tasks it has."""
    sticky: bool = Field(True, json_schema_extra={"source": "Eagle, thesis §3.4.2: sticky batch probing"})
    """A probe stays in its queue until all tasks of its application that wait have got places, and is served again."""
    behind_long: bool = Field(False, json_schema_extra={"source": "Eagle, thesis §3.3: no short task waits behind one"})
    """Whether a container of a job that is not long may be bound to a node whose cores long tasks hold, ahead of the
    end of one."""


def probe(tasks: NewTasks, nodes: Sequence[ProbedNode], cfg: Succinct, rng: Random) -> list[str]:
    """Return the nodes where the tasks get probes."""
    if waits_least(tasks, cfg):
        return by_wait(tasks, nodes)
    among = without_long(nodes) or [node for node in nodes if node.in_partition] or nodes
    count = probes(tasks.tasks, cfg.ratio, 0 if tasks.more else cfg.min_probes)
    return [node.node.id for node in draw(count, among, rng, distinct=True)]


POLICY = Policy("succinct", Succinct, probe)
