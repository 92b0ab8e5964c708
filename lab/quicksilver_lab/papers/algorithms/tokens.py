"""How many tasks of a job run by right, and how many more while there is room (Apollo, OSDI '14, §3.5).

A job has tokens: so many of its tasks are regular at a time. Beyond them it may send opportunistic ones, up to its
allowance (`policies.common.tokens`). A server runs them at random while nothing regular waits there, and they give way
to regular ones; with a token that becomes free one of them is upgraded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from policies.model import Resources


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


def pick(waiting: Sequence[Extra], free: Resources, rng: Random) -> list[str]:
    """Return which opportunistic tasks a server starts, drawn by weight until no more fits into `free`.

    Asked only when nothing regular waits. When a task came does not matter, so that late jobs get their share at once.
    """
    tasks, picked = list(waiting), []
    while tasks:
        index = rng.choices(range(len(tasks)), [task.weight for task in tasks])[0]
        task = tasks.pop(index)
        if task.size.fits(free):
            picked.append(task.id)
            free = free - task.size
    return picked


def regular_next(wishes: Sequence[Wish], tokens: int, regular: int) -> list[str]:
    """Return which tasks of a job get its free tokens, the most urgent first.

    tokens, regular: what the job has, and how many of its regular tasks are out. Of equal urgency those that are out
    already go first (their files are there), then as they stand.
    """
    free = max(0, tokens - regular)
    ranked = sorted(wishes, key=lambda wish: (-wish.urgency, not wish.out))
    return [wish.id for wish in ranked[:free]]
