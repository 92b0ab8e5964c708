"""Shed beyond a queue length that follows the mean of all nodes, as the ResourceManager of Hadoop 3 does.

Source: QueueLimitCalculator and NodeQueueLoadMonitor of Hadoop 3.4 with QUEUE_LENGTH: the mean of the lengths in whole
containers, plus `sigma` times their rounded standard deviation, within a smallest and a largest length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.damping import Damping
from policies.model import NodeView, ShedTarget

_HADOOP = "Hadoop 3.4, yarn.resourcemanager.nm-container-queuing."


class QueueLength(PolicyConfig):
    """Settings of queue_length."""

    sigma: float = Field(
        1.0, ge=0, allow_inf_nan=False, json_schema_extra={"unit": "sigma", "source": f"{_HADOOP}queue-limit-stdev"}
    )
    """Standard deviations above the mean."""
    min_length: int = Field(5, ge=0, json_schema_extra={"unit": "containers", "source": f"{_HADOOP}min-queue-length"})
    """The limit is never below this."""
    max_length: int = Field(15, ge=0, json_schema_extra={"unit": "containers", "source": f"{_HADOOP}max-queue-length"})
    """The limit is never above this, and wins over `min_length`."""
    max_sheds: int = Field(2, ge=0, json_schema_extra={"unit": "times", "source": "own; below `retries_to_g`"})
    """A task that was shed or killed this many times is not shed again."""
    max_share_ratio: float = Field(1.0, gt=0, le=1, json_schema_extra={"source": "own; Hadoop sheds all at once"})
    """At most this share of a node's queue is shed within a second, but always one container."""
    settle_s: float = Field(3.0, ge=0, json_schema_extra={"source": "own; Hadoop sheds at once"})
    """Containers that have waited less than this are not shed: the mean may be older."""
    damping: Damping = Field(
        Damping(round_to=1.0, fall_beyond_ratio=0.1, fall_part_ratio=0.5, fall_every_s=2.0),
        json_schema_extra={"source": "own"},
    )
    """The limit rises at once, and falls slowly; in containers."""


def threshold(lengths: Sequence[int], cfg: QueueLength) -> int:
    """Return the longest queue that is wanted; lengths: of all nodes, at least one."""
    mean = sum(lengths) // len(lengths)
    sigma = math.floor(math.sqrt(sum((length - mean) ** 2 for length in lengths) / len(lengths)) + 0.5)
    return min(cfg.max_length, max(cfg.min_length, int(mean + cfg.sigma * sigma)))


def shed(nodes: Sequence[NodeView], cfg: QueueLength, now_s: float) -> Mapping[str, ShedTarget]:
    """Return one limit for all nodes."""
    if not nodes:
        return {}
    limit = threshold([node.queue_length for node in nodes], cfg)
    target = ShedTarget(
        max_queue=limit,
        reason=f"queue_length: mean + {cfg.sigma:g} sigma over {len(nodes)} nodes",
        max_sheds=cfg.max_sheds,
        max_share_ratio=cfg.max_share_ratio,
        settle_s=cfg.settle_s,
    )
    return dict.fromkeys([node.id for node in nodes], target)


POLICY = Policy("queue_length", QueueLength, shed, steady=True)
