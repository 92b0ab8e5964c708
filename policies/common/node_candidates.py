"""Shared by the `place` policies: candidates by nearness, and a random draw from the best of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, inf
from random import Random

from policies.model import Ask, NodeView, Placement

Score = tuple[float, float, str]
"""The cost (seconds or containers), then as tie-breakers the node's load and its id."""

TIERS = ("node-local", "rack-local", "off-switch")
SHOWN = 10
"""How many candidates a placement keeps for `quicksilver explain`."""


def load(node: NodeView) -> float:
    """Return the larger of the node's used shares of memory and vcores, 0 when empty."""
    return node.load


def starts(node: NodeView, ask: Ask) -> bool:
    """Return whether the node has room for the ask beside all that runs there at its full size."""
    return node.starts(ask.resources)


def by_tier(
    ask: Ask, nodes: Sequence[NodeView], measure: Callable[[NodeView], float], tie: Callable[[NodeView], float] = load
) -> list[list[Score]]:
    """Return the scores of the nodes where `ask` may go: node-local, rack-local and off-switch ones apart."""
    tiers: list[list[Score]] = [[], [], []]
    for node, tier in zip(nodes, [ask.tier(node) for node in nodes], strict=True):
        if tier is not None:
            tiers[tier].append((measure(node), tie(node), node.id))
    return tiers


def nearest(tiers: Sequence[list[Score]], slack: float) -> tuple[list[Score], str]:
    """Return the candidates of the nearest tier that are worth it, and the name of the tier.

    A node is worth its nearness while its measure is at most `slack` above that of the best node farther away.
    """
    for number, tier in enumerate(tiers):
        if not tier:
            continue
        if slack == inf:
            return tier, TIERS[number]
        best_of = [min(far_tier)[0] for far_tier in tiers[number + 1 :] if far_tier]
        worst = min(best_of, default=inf) + slack
        worth = [score for score in tier if score[0] <= worst] if best_of else tier
        if worth:
            return worth, TIERS[number]
    return [], ""


def draw(
    candidates: Sequence[Score], k: int, max_ratio: float, rng: Random
) -> tuple[str, tuple[tuple[str, float], ...]]:
    """Draw a node from the `k` best candidates, and from at most `max_ratio` of them (at least one).

    Returns its id and the (id, measure) of the best `SHOWN`, best first, the drawn one always among them.
    """
    pool = min(k, ceil(max_ratio * len(candidates)))
    best = sorted(candidates)[: max(pool, SHOWN)]
    pick = rng.choice(best[: max(pool, 1)])
    shown = best[:SHOWN] if pick in best[:SHOWN] else [*best[: SHOWN - 1], pick]
    return pick[2], tuple((node, measure) for measure, _, node in shown)


def among(count: int, tier: str) -> str:
    """Return how many nodes were compared, and how near they are, for the reason of a placement."""
    return f"{count} candidate node{'' if count == 1 else 's'} ({tier})"


def waiting(policy: str, full: int) -> Placement:
    """Return the placement of an ask that waits at the proxy, as all the nodes that may take it are full."""
    nodes = "the only node that may take it is" if full == 1 else f"all {full} nodes that may take it are"
    return Placement(None, reason=f"{policy}: {nodes} full", wait=True)


def nowhere(ask: Ask, nodes: Sequence[NodeView]) -> Placement:
    """Return the placement of an ask that no node may take, with the reason."""
    usable = sum(node.usable for node in nodes)
    strict = "" if ask.anywhere or not (ask.hosts or ask.racks) else ", and only its own hosts and racks"
    return Placement(
        None,
        reason=f"none of {usable} usable nodes may take it: wanted {ask.resources.memory_mb} MB, "
        f"{ask.resources.vcores:g} vcores, label '{ask.label}', {len(ask.blacklist)} hosts blacklisted{strict}",
    )
