"""Shed where the wait exceeds the nodes' mean by some standard deviations (Mercury, ATC '15, §4.3, §7.2.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import Field
from pydantic.config import JsonDict

from policies.base import Policy, PolicyConfig
from policies.common.damping import Damping
from policies.model import NodeView, ShedTarget

_PACE: Final[JsonDict] = {"source": "own; Mercury §7.2.3 takes 14 % of all tasks dequeued for acceptable"}


class MeanSigma(PolicyConfig):
    """Settings of mean_sigma."""

    c: float = Field(
        2.0, ge=0, allow_inf_nan=False, json_schema_extra={"unit": "sigma", "source": "Mercury §7.2.3, Fig. 7"}
    )
    """Standard deviations above the mean; 2 beat 1. Of n nodes none can lie above (n - 1) / sqrt(n) of them: with fewer
    than six nodes 2 never sheds, and 1 does with three."""
    min_wait_s: float = Field(5.0, ge=0, allow_inf_nan=False, json_schema_extra={"source": "own"})
    """Waits up to this are never shed, so that a nearly idle cluster leaves its short queues alone."""
    max_sheds: int = Field(2, ge=0, json_schema_extra={"unit": "times", "source": "own; below `retries_to_g`"})
    """A task that was shed or killed this many times is not shed again."""
    max_share_ratio: float = Field(0.25, gt=0, le=1, json_schema_extra=_PACE)
    """At most this share of a node's queue is shed within a second, but always one container."""
    settle_s: float = Field(3.0, ge=0, json_schema_extra={"source": "own; two rounds of the coordinator, and a report"})
    """Containers that have waited less than this are not shed: the mean may be older."""
    damping: Damping = Field(
        Damping(round_to=1.0, round_up=True, fall_beyond_ratio=0.1, fall_part_ratio=0.5, fall_every_s=2.0),
        json_schema_extra={"source": "own"},
    )
    """The limit rises at once, and falls slowly; in seconds."""


def shed(nodes: Sequence[NodeView], cfg: MeanSigma, now_s: float) -> Mapping[str, ShedTarget]:
    """Return one limit for all nodes: mean + c * sigma of Tq, the time until all that waits there has started.

    The deviation is that of the nodes themselves (divided by n). The mean is never above the limit, so nothing is shed
    while all nodes are alike.
    """
    if not nodes:
        return {}
    waits = [node.queued_s for node in nodes]
    mean_s = math.fsum(waits) / len(waits)
    sigma_s = math.sqrt(math.fsum([(wait - mean_s) ** 2 for wait in waits]) / len(waits))
    limit_s = max(mean_s + cfg.c * sigma_s, cfg.min_wait_s)
    reason = f"mean {mean_s:.1f} s + {cfg.c:g} sigma of {sigma_s:.1f} s over {len(waits)} nodes"
    if limit_s == cfg.min_wait_s:
        reason += f", at least {cfg.min_wait_s:g} s"
    target = ShedTarget(
        max_wait_s=limit_s,
        reason=f"mean_sigma: {reason}",
        max_sheds=cfg.max_sheds,
        max_share_ratio=cfg.max_share_ratio,
        settle_s=cfg.settle_s,
    )
    return dict.fromkeys([node.id for node in nodes], target)


POLICY = Policy("mean_sigma", MeanSigma, shed, steady=True)
