"""Tokens of a YARN queue and its applications: what runs by right, and what more while there is room (Apollo §3.5).

A virtual cluster (here: a YARN queue) has tokens. Tasks with a token are regular (here: guaranteed containers). Beyond
them a job may have opportunistic ones (here: queueable containers) within an allowance.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from policies.base import PolicyConfig
from policies.model import AppView, QueueView, Resources

_LEAST: Final = 1
"""Tokens by which the allowance of an application is counted that has none yet: it could never begin else."""


class Tokens(PolicyConfig):
    """Settings of opportunistic tasks."""

    allowance_ratio: float = Field(1.0, ge=0, json_schema_extra={"source": "Apollo §3.5, c; figure own"})
    """Opportunistic tasks that a job may have out for each of its tokens; 0 for none."""


class TokenShare(PolicyConfig):
    """Settings of tokens: how many guaranteed containers an application and its YARN queue may have."""

    job_tokens: int = Field(0, ge=0, json_schema_extra={"unit": "containers", "source": "Apollo §3.5, n; figure own"})
    """Containers of one application that may have a token at a time; 0: no limit of its own, the queue's alone."""
    queue_ratio: float = Field(1.0, ge=0, json_schema_extra={"source": "Apollo §3.5: tokens of a virtual cluster; own"})
    """Tokens of a YARN queue, as a part of its guaranteed capacity; `.inf` for no limit."""
    count_vcores: bool = Field(True, json_schema_extra={"source": "own"})
    """Count vcores beside memory; off where the ResourceManager plans by memory alone (DefaultResourceCalculator)."""


def allowance(tokens: int, cfg: Tokens) -> int:
    """Return how many opportunistic tasks a job with so many tokens may have out."""
    return int(cfg.allowance_ratio * tokens)


def weight(tokens: int, out: int, cfg: Tokens) -> float:
    """Return the weight of each of a job's `out` opportunistic tasks, which together come to its allowance.

    So a job with few tasks left gets no smaller share than one with many. Never below 1: a job has no more out than it
    is allowed. Raises ValueError when it has more, or none.
    """
    allowed = allowance(tokens, cfg)
    if not 0 < out <= allowed:
        raise ValueError(f"{out} opportunistic tasks are out, of 1 to {allowed}")
    return allowed / out


def used_tokens(app: AppView) -> int:
    """Return how many tokens an application uses: guaranteed containers that it holds, or asked for."""
    return app.live_g + app.asked_g


def tokens_of(app: AppView, cfg: TokenShare) -> int:
    """Return the tokens of an application: its limit, or without one those that it uses, at least one."""
    return cfg.job_tokens or max(_LEAST, used_tokens(app))


def has_token(app: AppView, size: Resources, queue: QueueView, cfg: TokenShare) -> bool:
    """Return whether a token is free for one more container of this size, of the application and of its queue.

    A queue that is not known, or that is guaranteed nothing, limits nothing.
    """
    if cfg.job_tokens and used_tokens(app) >= cfg.job_tokens:
        return False
    if not queue.capacity.memory_mb:
        return True
    after = queue.used_g + app.asked_g_size + size
    if after.memory_mb > queue.capacity.memory_mb * cfg.queue_ratio:
        return False
    return not cfg.count_vcores or after.vcores <= queue.capacity.vcores * cfg.queue_ratio
