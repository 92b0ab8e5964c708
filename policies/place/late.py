"""Place a queueable container only where it starts at once (late binding); everything else waits at the proxy.

Nothing waits at a node, so nothing waits behind a task that runs longer than expected (Sparrow, SOSP '13, §3.5: late
binding; Rasley et al., EuroSys '16, on the length of node queues). Where containers share the cores of a node, an
application with little work may take one place more than there are cores: a container of another one shrinks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from math import inf
from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.node_candidates import SHOWN, by_tier, load, nearest, nowhere
from policies.model import Ask, NodeView, Placement


class Late(PolicyConfig):
    """Settings of late."""

    front_s: float = Field(20.0, ge=0, json_schema_extra={"source": "own"})
    """An application with at most this much open work, in task-seconds, may take a place beyond the cores of a node
    that shares them; 0 for none."""


def count(node: NodeView) -> float:
    """Return how many containers run or wait at the node."""
    return float(node.containers)


def starts(node: NodeView, ask: Ask) -> bool:
    """Return whether the node has room for the ask beside all that runs there at its full size."""
    used = node.used_g.vcores + node.used_q.vcores
    enough = used + ask.resources.vcores <= node.capacity.vcores
    return enough and node.queue_length == 0 and node.has_room(ask.resources)


def front(node: NodeView, ask: Ask) -> bool:
    """Return whether the ask may take a place beyond the cores: none has it yet, and a running container can shrink."""
    used = node.used_g.vcores + node.used_q.vcores
    within = used <= node.capacity.vcores < used + ask.resources.vcores
    shrinks = node.slots > 0 and node.used_q.vcores >= ask.resources.vcores
    return within and shrinks and node.queue_length == 0 and node.has_room(ask.resources)


def place(ask: Ask, nodes: Sequence[NodeView], cfg: Late, rng: Random) -> Placement:
    """Choose the least loaded node of the nearest tier on which `ask` starts at once, or let it wait.

    Scores are the larger used share of memory and vcores.
    """
    kind, candidates, tier = "room", *nearest(by_tier(ask, [n for n in nodes if starts(n, ask)], load, count), inf)
    if not candidates and ask.open_s <= cfg.front_s:
        fronts = [node for node in nodes if front(node, ask)]
        kind, candidates, tier = "a front place", *nearest(by_tier(ask, fronts, load, count), inf)
    if not candidates:
        full = sum(ask.tier(node) is not None for node in nodes)
        reason = f"late: all {full} nodes that may take it are full"
        return Placement(None, reason=reason, wait=True) if full else nowhere(ask, nodes)
    best = nsmallest(SHOWN, candidates)
    used, _, chosen = best[0]
    reason = f"late: {tier}, {len(candidates)} nodes with {kind}, {used:.0%} used"
    return Placement(chosen, tuple((node, score) for score, _, node in best), "share", reason)


POLICY = Policy("late", Late, place)
