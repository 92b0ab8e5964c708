"""Place a queueable container where the fewest are, ties by attained service (Kairos, thesis §4.3.3, Alg. 3).

The thesis fills the nodes in rounds: all nodes with i containers get one each, i = 0, 1, ... up to N + Q - 1. Asks come
one by one here, and own placements count, so a round is the least number of containers first. A node is full at its
slots; asks that no node takes wait at the proxy, as in the central queue of Kairos.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nsmallest
from random import Random
from typing import Literal

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.node_candidates import SHOWN, among, by_tier, nearest, nowhere, waiting
from policies.model import Ask, NodeView, Placement, Resources


class Variance(PolicyConfig):
    """Settings of variance; how many containers a node takes is the sidecar's to say (`extra`)."""

    locality_containers: int = Field(1, ge=0, json_schema_extra={"unit": "containers", "source": "own"})
    """How many more containers may be at a nearer node than at the best node farther away."""
    ties: Literal["spread", "sum", "random"] = Field(
        "spread", json_schema_extra={"source": "Kairos §4.3.3; the others §4.5.3, figure 4.6"}
    )
    """Which of the nodes with equally many containers: the one whose containers have attained service of the least
    spread, the least service together, or any."""


def count(node: NodeView) -> float:
    """Return how many containers run or wait at the node."""
    return float(node.containers)


def spread_s(node: NodeView) -> float:
    """Return the standard deviation of the service that they have attained, in seconds: Kairos' var, as its root."""
    return node.attained_sd_s


def sum_s(node: NodeView) -> float:
    """Return what they have attained together, in seconds: Kairos' Sum."""
    return node.attained_sum_s


def admits(node: NodeView, resources: Resources) -> bool:
    """Return whether the node takes one more: below its slots and within its memory, which a shrunk container keeps.

    A node whose sidecar reports no slots takes only containers that start at once.
    """
    return node.has_room(resources) and (node.slots > 0 or node.queue_length == 0)


def place(ask: Ask, nodes: Sequence[NodeView], cfg: Variance, rng: Random) -> Placement:
    """Choose the node with the fewest containers of the nearest tier that is worth it, or let `ask` wait.

    Ties go to the least spread or sum of attained service, or to any. Scores are numbers of containers.
    """
    tie: Callable[[NodeView], float] = {
        "spread": spread_s,
        "sum": sum_s,
        "random": lambda node: rng.random(),
    }[cfg.ties]
    admitting = [node for node in nodes if admits(node, ask.resources)]
    candidates, tier = nearest(by_tier(ask, admitting, count, tie), cfg.locality_containers)
    if not candidates:
        full = sum(ask.tier(node) is not None for node in nodes)
        return waiting("variance", full) if full else nowhere(ask, nodes)
    best = nsmallest(SHOWN, candidates)
    least, tied, node_id = best[0]
    by = "" if cfg.ties == "random" else f", {cfg.ties} of attained service {tied:.1f} s"
    reason = f"variance: the fewest containers ({least:.0f}) of {among(len(candidates), tier)}{by}"
    return Placement(node_id, tuple((node, score) for score, _, node in best), "containers", reason)


POLICY = Policy("variance", Variance, place)
