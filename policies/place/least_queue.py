"""Place a queueable container where the fewest wait, as the central opportunistic allocator of Hadoop 3 does.

Source: Hadoop 3, OpportunisticContainers documentation, load comparator QUEUE_LENGTH.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.node_candidates import among, by_tier, draw, nearest, nowhere
from policies.model import Ask, NodeView, Placement


class LeastQueue(PolicyConfig):
    """Settings of least_queue."""

    k: int = Field(1, ge=1, json_schema_extra={"unit": "nodes", "source": "own; Hadoop's nodes-used is 10"})
    """Nodes of the shortest queues to draw from; 1 for always the shortest."""
    locality_queue: int = Field(1, ge=0, json_schema_extra={"unit": "containers", "source": "own"})
    """How many more containers may wait at a nearer node than at the best node farther away."""


def length(node: NodeView) -> float:
    """Return how many containers wait at the node."""
    return float(node.queue_length)


def place(ask: Ask, nodes: Sequence[NodeView], cfg: LeastQueue, rng: Random) -> Placement:
    """Choose a node for `ask` among the k shortest queues of the nearest tier that is worth it.

    Ties go to the node with the smaller used share, then by node id. Scores are queue lengths.
    """
    candidates, tier = nearest(by_tier(ask, nodes, length), cfg.locality_queue)
    if not candidates:
        return nowhere(ask, nodes)
    node, scores = draw(candidates, cfg.k, 1.0, rng)
    return Placement(node, scores, "containers", f"least_queue: a shortest queue of {among(len(candidates), tier)}")


POLICY = Policy("least_queue", LeastQueue, place)
