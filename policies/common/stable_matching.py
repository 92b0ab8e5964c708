"""Which task of a batch goes to which server, at most one to each (Apollo, OSDI '14, §3.3, "Stable Matching").

Each task proposes to the server where it would be over first. Of several that want one server it takes that which would
lose most elsewhere; the others propose again, to the servers that are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

Preference = Sequence[tuple[float, str]]
"""A task's candidates as (seconds until it is over there, server), best first."""


def preference(completion_s: Mapping[str, float]) -> Preference:
    """Return the candidates of a task by its completion time, ties by the server's id."""
    return sorted((seconds, server) for server, seconds in completion_s.items())


def match(tasks: Sequence[Preference], max_rounds: int | None = None) -> list[str | None]:
    """Return the server of each task; None for one whose candidates are all taken, or not yet its own by `max_rounds`.

    Ties go to the task that stands earlier in `tasks`. Takes O(candidates) for each task in all, and a look at the two
    best that are left in each round.
    """
    servers: list[str | None] = [None] * len(tasks)
    taken: set[str] = set()
    at = [0] * len(tasks)
    suitors = list(range(len(tasks)))
    rounds = 0
    while suitors and rounds != max_rounds:
        rounds += 1
        best: dict[str, tuple[float, int]] = {}
        proposed = []
        for task in suitors:
            at[task] = _free(tasks[task], at[task], taken)
            if at[task] == len(tasks[task]):
                continue
            proposed.append(task)
            server, loss_s = tasks[task][at[task]][1], _loss_s(tasks[task], at[task], taken)
            if server not in best or loss_s > best[server][0]:
                best[server] = loss_s, task
        for server, (_, task) in best.items():
            servers[task] = server
        taken.update(best)
        suitors = [task for task in proposed if servers[task] is None]
    return servers


def _free(candidates: Preference, begin: int, taken: set[str]) -> int:
    while begin < len(candidates) and candidates[begin][1] in taken:
        begin += 1
    return begin


def _loss_s(candidates: Preference, best: int, taken: set[str]) -> float:
    """Return how much later a task would be over if it did not get its best server."""
    second = _free(candidates, best + 1, taken)
    return candidates[second][0] - candidates[best][0] if second < len(candidates) else inf


def greedy(tasks: Sequence[Preference]) -> list[str | None]:
    """Return the server of each task when they choose one after the other: the comparison of §3.3."""
    servers: list[str | None] = []
    taken: set[str] = set()
    for candidates in tasks:
        best = next((server for _, server in candidates if server not in taken), None)
        servers.append(best)
        if best is not None:
            taken.add(best)
    return servers


def dispatch_order(servers: Sequence[str | None], wait_s: Mapping[str, float]) -> list[int]:
    """Return the matched tasks in the order of dispatch: those that wait least first, ties as they stand (§3.3)."""
    matched = [(wait_s[server], task) for task, server in enumerate(servers) if server is not None]
    return [task for _, task in sorted(matched)]
