"""Place a queueable container on one of the k nodes with the least queuing delay (Mercury, ATC '15, §4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.node_candidates import among, by_tier, draw, nearest, nowhere
from policies.model import Ask, NodeView, Placement, Resources


class TopKWait(PolicyConfig):
    """Settings of topk_wait."""

    k: int = Field(50, ge=1, json_schema_extra={"unit": "nodes", "source": "Mercury §7.2.2, Fig. 6"})
    """Nodes to draw from; on 256 nodes 50 beat both 20 and 100."""
    max_ratio: float = Field(0.2, gt=0, le=1, json_schema_extra={"source": "Mercury §7.2.2: 50 of 256 nodes"})
    """Draw from at most this share of the candidates, so that k is not the whole of a small cluster; 1 for k alone."""
    locality_wait_s: float = Field(3.0, ge=0, json_schema_extra={"source": "own; Spark's spark.locality.wait is 3 s"})
    """How much longer a nearer node's queuing delay may be than that of the best node farther away."""


def rank_s(node: NodeView, size: Resources | None = None) -> float:
    """Return R = Tq + Tr + Tl, in seconds: queued work, work still running, time since a queueable last ran.

    Tl is there because a node that ran no queueable for long has no room for them; it is left out where `size` could
    start now. Else a node that nobody needed for an hour would count as the busiest.
    """
    if size is not None and node.queue_length == 0 and node.has_room(size):
        return node.wait_s
    return node.wait_s + node.since_queueable_s


def cost_s(node: NodeView, ask: Ask) -> float:
    """Return R, and on a node that is slower (faster) than others how much longer (shorter) the task runs there."""
    return rank_s(node, ask.resources) + (node.slow_ratio - 1.0) * ask.expected_s


def place(ask: Ask, nodes: Sequence[NodeView], cfg: TopKWait, rng: Random) -> Placement:
    """Choose a node for `ask` at random among the k of least R of the nearest tier that is worth it.

    Its additional run time on a slow node counts as waiting. Ties go to the node with the smaller used share, then by
    node id. Scores are R in seconds.
    """
    tiers = by_tier(ask, nodes, lambda node: cost_s(node, ask))
    candidates, tier = nearest(tiers, cfg.locality_wait_s)
    if not candidates:
        return nowhere(ask, nodes)
    node, scores = draw(candidates, cfg.k, cfg.max_ratio, rng)
    reason = f"topk_wait: one of the least waits (R = Tq + Tr + Tl) of {among(len(candidates), tier)}"
    return Placement(node, scores, "s", reason)


POLICY = Policy("topk_wait", TopKWait, place)
