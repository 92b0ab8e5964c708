"""How many tasks of a job run by right, and how many more while there is room (Apollo, OSDI '14, §3.5).

A job has tokens: so many of its tasks are regular at a time. Beyond them it may send opportunistic ones, which a server
runs at random while nothing regular waits there, and which give way to regular ones; with a token that becomes free one
of them is upgraded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from pydantic import Field

from policies.base import PolicyConfig
from policies.model import Resources


class Tokens(PolicyConfig):
    """Settings of opportunistic tasks."""

    allowance_ratio: float = Field(1.0, ge=0, json_schema_extra={"source": "Apollo §3.5, c; figure own"})
    """Opportunistic tasks that a job may have out for each of its tokens; 0 for none."""


@dataclass(frozen=True, slots=True)
class Extra:
    """An opportunistic task that waits at a server."""

    id: str
    size: Resources
    weight: float = 1.0
    """One of weight 2 is twice as likely to be picked as one of weight 1."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A task that would be regular: one that is not out yet, or waits somewhere as an opportunistic one."""

    id: str
    urgency: float
    """The higher goes first: by stage on the critical path, then by input size (§3.3)."""
    out: bool = False
    """It waits at a server already."""


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


def pick(waiting: Sequence[Extra], free: Resources, rng: Random) -> list[str]:
    """Return which opportunistic tasks a server starts, drawn by weight until no more fits into `free`.

    Asked only when nothing regular waits. When a task came does not matter, so that late jobs get their share at once.
    """
    left, picked = list(waiting), []
    while left:
        chosen = rng.choices(range(len(left)), [one.weight for one in left])[0]
        one = left.pop(chosen)
        if one.size.fits(free):
            picked.append(one.id)
            free = free - one.size
    return picked


def regular_next(wishes: Sequence[Wish], tokens: int, regular: int) -> list[str]:
    """Return which tasks of a job get its free tokens, the most urgent first.

    tokens, regular: what the job has, and how many of its regular tasks are out. Of equal urgency those that are out
    already go first (their files are there), then as they stand.
    """
    free = max(0, tokens - regular)
    ranked = sorted(wishes, key=lambda wish: (-wish.urgency, not wish.out))
    return [wish.id for wish in ranked[:free]]
