"""Queue each task, once, where it is expected to be over first (Apollo, OSDI '14, §3.3).

E = I + W + R as in `place: completion_time`. Where a task reads its input plays no part: a place in a queue is for
whichever task of its application starts next. `correct` moves a place when the decision looks wrong by then (§3.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.completion_time import with_failures_s
from policies.probes import NewTasks, ProbedNode


class CompletionTime(PolicyConfig):
    """Settings of completion_time."""

    noise_s: float = Field(1.0, ge=0, json_schema_extra={"source": "Apollo §3.4: in proportion to the report interval"})
    """A random time up to this is added for each node, so that not all take the same one of almost equal ones."""
    fail_ratio: float = Field(2.0, ge=1, json_schema_extra={"source": "own; Apollo §3.3, K, found by trial"})
    """How many times as long a task takes that its node loses."""


def probe(tasks: NewTasks, nodes: Sequence[ProbedNode], cfg: CompletionTime, rng: Random) -> list[str]:
    """Return a node for each task, shape (tasks,): those chosen before count at their nodes as well."""
    slots: list[tuple[float, int, float]] = []
    runs_s = [max(tasks.expected_s, 1e-3) * node.node.slow_ratio for node in nodes]
    for at, node in enumerate(nodes):
        noise_s = rng.uniform(0, cfg.noise_s)
        slots += [(_over_s(node, wait_s + noise_s + runs_s[at], cfg), at, wait_s + noise_s) for wait_s in node.slots_s]
    heapify(slots)
    ids = []
    for _ in range(tasks.tasks if slots else 0):
        _, at, wait_s = slots[0]
        ids.append(nodes[at].node.id)
        behind_s = wait_s + runs_s[at]
        heapreplace(slots, (_over_s(nodes[at], behind_s + runs_s[at], cfg), at, behind_s))
    return ids


def _over_s(node: ProbedNode, done_s: float, cfg: CompletionTime) -> float:
    return with_failures_s(done_s, node.node.success_ratio, cfg.fail_ratio)


POLICY = Policy("completion_time", CompletionTime, probe)
