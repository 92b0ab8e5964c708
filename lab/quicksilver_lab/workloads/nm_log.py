"""Containers in a NodeManager's own log: when each was scheduled, started and ended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

_TRANSITION: Final = re.compile(
    r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}).*Container (container_\w+) transitioned from (\w+) to (\w+)$"
)
_OVER: Final = frozenset(
    {"EXITED_WITH_SUCCESS", "EXITED_WITH_FAILURE", "KILLING", "CONTAINER_CLEANEDUP_AFTER_KILL", "DONE"}
)


@dataclass(slots=True)
class Life:
    """One container at one node; Unix seconds, None where the log lacks it."""

    node: str
    running_s: float | None = None
    over_s: float | None = None
    killed: bool = False
    """Whether something else than its own exit ended it while it ran."""


def lives(node: str, log: str) -> dict[str, Life]:
    """Return the containers of a NodeManager's log, by id; `node` is its name."""
    by_id: dict[str, Life] = {}
    for line in log.splitlines():
        match = _TRANSITION.match(line)
        if match is None:
            continue
        at_s = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        life = by_id.setdefault(match[2], Life(node))
        if match[4] == "RUNNING":
            life.running_s = at_s
        elif match[4] in _OVER and life.over_s is None:
            life.over_s = at_s
            life.killed = (match[3], match[4]) == ("RUNNING", "KILLING")
    return by_id


def read_lives(logs: Iterable[tuple[str, Path]]) -> dict[str, Life]:
    """Return the containers of several NodeManagers' logs; each is (node, path)."""
    by_id: dict[str, Life] = {}
    for node, path in logs:
        by_id |= lives(node, path.read_text(errors="replace"))
    return by_id


def most_at_once(some: Iterable[Life]) -> int:
    """Return how many of these ran at the same time at most; one that is not over runs until the end."""
    steps = sorted(
        step
        for life in some
        if life.running_s is not None
        for step in ((life.running_s, 1), (life.over_s if life.over_s is not None else float("inf"), -1))
    )
    now = most = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most
