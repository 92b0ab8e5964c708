"""Place a queueable container where it is expected to be over first (Apollo, OSDI '14, §3.3).

E = I + W + R: fetching files, waiting, running. W is what the node reports for a container of that size, and R what the
task is expected to take, longer on a slow node and farther from its input. Durations are those from the command that
starts a container to its end, so I is a part of R here. Nodes that lost containers count as slower, and waits that were
reported long ago are looked up for a larger size (§3.4, confidence).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.completion_time import with_failures_s
from policies.common.node_candidates import TIERS, Score, among, draw, nowhere, starts, waiting
from policies.model import Ask, NodeView, Placement, Resources


class CompletionTime(PolicyConfig):
    """Settings of completion_time."""

    noise_s: float = Field(1.0, ge=0, json_schema_extra={"source": "Apollo §3.4: in proportion to the report interval"})
    """A random time up to this is added for each node, so that not all take the same one of almost equal ones."""
    reading_ratio: float = Field(0.2, ge=0, lt=1, json_schema_extra={"source": "own"})
    """Part of a task's duration in which it reads its input."""
    rack_ratio: float = Field(1.6, ge=1, json_schema_extra={"source": "Apollo §3.3, figure 4: 160 and 100 MB/s"})
    """How many times as long it reads from its own rack as from its own node."""
    remote_ratio: float = Field(2.0, ge=1, json_schema_extra={"source": "Apollo §3.3, figure 4: 160 and 80 MB/s"})
    """The same from another rack."""
    fail_ratio: float = Field(2.0, ge=1, json_schema_extra={"source": "own; Apollo §3.3, K, found by trial"})
    """How many times as long a task takes that its node loses."""
    early: bool = Field(True, json_schema_extra={"source": "Apollo §3.1: tasks queue at the servers"})
    """Bind a container to its node though it waits there. Off: only nodes count on which it starts at once; where there
    is none it waits in the proxy, in the queues of the nodes that `probe: completion_time` chose."""
    ahead_s: float = Field(0.0, ge=0, allow_inf_nan=False, json_schema_extra={"source": "own; as in late"})
    """With `early` off: one container may be bound to a full node on which another is expected to end within this time,
    and wait there: the time from one heartbeat of a master to the next, and a start. 0 for none."""
    doubt_per_s: float = Field(0.1, ge=0, json_schema_extra={"unit": "per second", "source": "own; Apollo §3.4"})
    """By how much more memory and vcores waits are looked up for each second since they were reported."""


def wait_s(node: NodeView, size: Resources, age_s: float, cfg: CompletionTime) -> float:
    """Return W: how long a container of this size waits, by the node's report and what is on its way there."""
    if not node.queue_length and node.has_room(size):
        return 0.0
    careful = Resources(
        int(size.memory_mb * (1 + cfg.doubt_per_s * age_s)), size.vcores * (1 + cfg.doubt_per_s * age_s)
    )
    reported = [seconds for cell, seconds in node.waits if careful.fits(cell)]
    if not reported:  # it is larger than all cells: doubt alone does not exclude a node
        reported = [seconds for cell, seconds in node.waits if size.fits(cell)]
    if not reported:
        return node.wait_s
    return max(0.0, max(min(reported), node.remaining_s) - age_s) + node.unreported_s


def cost_s(node: NodeView, ask: Ask, tier: int, cfg: CompletionTime) -> float:
    """Return C: seconds from now until the task is over."""
    farther = (1.0, cfg.rack_ratio, cfg.remote_ratio)[tier] if ask.hosts or ask.racks else 1.0
    runs_s = ask.expected_s * node.slow_ratio * (1 + cfg.reading_ratio * (farther - 1))
    over_s = wait_s(node, ask.resources, max(0.0, ask.at_s - node.waits_s), cfg) + runs_s
    return with_failures_s(over_s, node.success_ratio, cfg.fail_ratio)


def _candidates(
    ask: Ask, nodes: Sequence[NodeView], tiers: Mapping[str, int | None], cfg: CompletionTime, rng: Random
) -> tuple[list[Score], bool]:
    """Return the nodes with their costs, and whether a container would wait there for one that is to end soon."""
    able = [(node, tier) for node in nodes if (tier := tiers[node.id]) is not None]
    costs = [(cost_s(node, ask, tier, cfg), node) for node, tier in able if cfg.early or starts(node, ask)]
    ahead = not costs and cfg.ahead_s > 0
    if ahead:
        soon = [(node, tier) for node, tier in able if node.frees_within(ask.resources, cfg.ahead_s)]
        costs = [(node.frees_s + cost_s(node, ask, tier, cfg), node) for node, tier in soon]
    return [(cost + rng.uniform(0, cfg.noise_s), 0.0, node.id) for cost, node in costs], ahead


def place(ask: Ask, nodes: Sequence[NodeView], cfg: CompletionTime, rng: Random) -> Placement:
    """Choose the node where the task is expected to be over first; scores are seconds from now, with the noise."""
    tiers = {node.id: ask.tier(node) for node in nodes}
    candidates, ahead = _candidates(ask, nodes, tiers, cfg, rng)
    if not candidates:
        full = sum(tier is not None for tier in tiers.values())
        return waiting("completion_time", full) if full else nowhere(ask, nodes)
    node_id, scores = draw(candidates, 1, 1.0, rng)
    tier = tiers[node_id]
    assert tier is not None
    reason = f"completion_time: the earliest expected end of {among(len(candidates), TIERS[tier])}"
    return Placement(node_id, scores, "s", reason, ahead=ahead)


POLICY = Policy("completion_time", CompletionTime, place, by_size=True)
