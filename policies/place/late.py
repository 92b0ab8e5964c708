"""Place a queueable container only where it starts at once (late binding); everything else waits at the proxy.

Nothing waits at a node, so nothing waits behind a task that runs longer than expected (Sparrow, SOSP '13, §3.5: late
binding; Rasley et al., EuroSys '16, on the length of node queues). Where containers share the cores of a node, an
application may take one place more than there are cores, if a container of a much wider one shrinks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from math import inf
from operator import attrgetter
from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.node_candidates import SHOWN, Score, among, by_tier, nearest, nowhere, waiting
from policies.common.service_levels import level
from policies.model import Ask, NodeView, Placement

_FIRST = "of {} this one is expected to have one first, in {:.1f} s"


class Late(PolicyConfig):
    """Settings of late."""

    front_gap: float = Field(
        3.0,
        ge=0,
        json_schema_extra={
            "unit": "levels",
            "source": "own: least mean on heavy tails; 2 levels apart the widest jobs pay",
        },
    )
    """How much more work an application must have left, in levels, before one of its containers is throttled for a
    container of a smaller one, which takes a place beyond the cores of the node; .inf: never."""
    ahead_s: float = Field(0.0, ge=0, allow_inf_nan=False, json_schema_extra={"source": "own"})
    """One container may be bound to a full node on which another is expected to end within this time, and wait there:
    the time from one heartbeat of a master to the next, and a start. 0 for none; the presets default and mixed have
    1.5."""


count = attrgetter("containers")
"""Returns how many containers run or wait at a node."""
soonest = attrgetter("frees_s")
"""Returns when a container is expected to end at a node: until then another one of it stays shrunk."""


def front(node: NodeView, ask: Ask, least: float) -> bool:
    """Return whether the ask may take a place beyond the cores: none has it yet, and a container of a job gives way.

    Its own application must have no container there: a job that shrinks its own containers gains nothing, and takes
    the place from jobs that would. least: the lowest level of the job that gives way.
    """
    if node.yields_level < least or node.queue_length > node.ahead or ask.app.id in node.apps:
        return False
    used = node.used_g.vcores + node.used_q.vcores
    within = used <= node.capacity.vcores < used + ask.resources.vcores
    return within and node.used_q.vcores >= ask.resources.vcores and node.has_room(ask.resources)


def narrowest(node: NodeView) -> float:
    """Return the negative level of the job that gives way: the widest one gives way first."""
    return -node.yields_level


def place(ask: Ask, nodes: Sequence[NodeView], cfg: Late, rng: Random) -> Placement:
    """Choose the least loaded node of the nearest tier on which `ask` starts at once, or let it wait.

    Where a container gives way for it, that is the node on which one is expected to end first. Scores are the larger
    used share of memory and vcores, or that time.
    """
    unit, how, size = "share", "the least used of {} with room, {:.0%} used", ask.resources
    tiers: list[list[Score]] = [[], [], []]
    for node in nodes:
        load = node.load_where_it_starts(size)
        if load is not None and (nearness := ask.tier(node)) is not None:
            tiers[nearness].append((load, node.containers, node.id))
    candidates, tier = nearest(tiers, inf)
    if not candidates:
        least = max(0.0, level(ask.work_s) + cfg.front_gap)
        fronts = [node for node in nodes if front(node, ask, least)]
        unit = "s"
        how = f"no free core; a container of a job with more work is shrunk for it; {_FIRST}"
        candidates, tier = nearest(by_tier(ask, fronts, soonest, narrowest), inf)
    ahead = not candidates and cfg.ahead_s > 0
    if ahead:
        how = f"no free core; {_FIRST}"
        soon = [node for node in nodes if node.frees_within(ask.resources, cfg.ahead_s)]
        candidates, tier = nearest(by_tier(ask, soon, soonest, count), inf)
    if not candidates:
        full = sum(ask.tier(node) is not None for node in nodes)
        return waiting("late", full) if full else nowhere(ask, nodes)
    best = nsmallest(SHOWN, candidates)
    score, _, node_id = best[0]
    reason = f"late: {how.format(among(len(candidates), tier), score)}"
    return Placement(node_id, tuple([(node, score) for score, _, node in best]), unit, reason, ahead=ahead)


POLICY = Policy("late", Late, place, by_load=True)
