"""Place a queueable container on any node that may take it: the baseline that knows no load (cf. Mercury §4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.node_candidates import TIERS, among, nowhere
from policies.model import Ask, NodeView, Placement


class RandomPlace(PolicyConfig):
    """Settings of random."""

    prefer_local: bool = Field(True, json_schema_extra={"source": "own"})
    """Draw from the nearest tier that has a node (node, rack, anywhere); off: from all allowed nodes alike."""


def place(ask: Ask, nodes: Sequence[NodeView], cfg: RandomPlace, rng: Random) -> Placement:
    """Choose a node for `ask` uniformly at random; no scores. The order of `nodes` does not matter."""
    tiers: list[list[str]] = [[], [], []]
    for node in nodes:
        tier = ask.tier(node)
        if tier is not None:
            tiers[tier].append(node.id)
    if not cfg.prefer_local:
        tiers = [[node_id for tier in tiers for node_id in tier]]
    name, drawn = next(((number, tier) for number, tier in enumerate(tiers) if tier), (0, []))
    if not drawn:
        return nowhere(ask, nodes)
    where = TIERS[name] if cfg.prefer_local else "any tier"
    return Placement(rng.choice(sorted(drawn)), (), "", f"random: any of {among(len(drawn), where)}")


POLICY = Policy("random", RandomPlace, place)
