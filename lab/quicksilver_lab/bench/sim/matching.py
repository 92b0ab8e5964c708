"""Apollo's simulation of matching (OSDI '14, §5.5, Figure 12): stable, one after the other, and the best there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean

from networkx import Graph
from networkx.algorithms.bipartite import hopcroft_karp_matching

from policies.common.stable_matching import Preference, greedy, match, preference

SERVERS = 100
"""Of one slot each (§5.5)."""


def workload(rng: Random, tasks: int, faster: float) -> list[Preference]:
    """Return tasks' offers: waits and run times exponential with mean 1, each task faster on a server of its own."""
    waits = [rng.expovariate(1) for _ in range(SERVERS)]
    offers = []
    for _ in range(tasks):
        run_s, own = rng.expovariate(1), rng.randrange(SERVERS)
        offers.append(
            preference({f"{n:02}": wait + run_s / (faster if n == own else 1) for n, wait in enumerate(waits)})
        )
    return offers


def finish(tasks: Sequence[Preference], servers: Sequence[str | None]) -> float:
    """Return when the last task is over."""
    times: list[Mapping[str, float]] = [{server: seconds for seconds, server in task} for task in tasks]
    return max(times[n][server] for n, server in enumerate(servers) if server is not None)


def soonest(tasks: Sequence[Preference]) -> float:
    """Return when the last task is over at best: the least time by which each task has a server of its own."""
    times = sorted({seconds for task in tasks for seconds, _ in task})
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        allowed = [[server for seconds, server in task if seconds <= times[middle]] for task in tasks]
        low, high = (low, middle) if _all_have_one(allowed) else (middle + 1, high)
    return times[low]


def _all_have_one(allowed: Sequence[Sequence[str]]) -> bool:
    """Return whether each task can have one of its servers, none two."""
    graph = Graph((task, server) for task, servers in enumerate(allowed) for server in servers)
    tasks = range(len(allowed))
    graph.add_nodes_from(tasks)
    matches = hopcroft_karp_matching(graph, tasks)
    return all(task in matches for task in tasks)


def compare(tasks: int, faster: float, draws: int) -> dict[str, float]:
    """Return when the last task is over, by when it could be at best: means over so many draws, seeds 0 and on."""
    stable, one_by_one = [], []
    for seed in range(draws):
        offers = workload(Random(seed), tasks, faster)
        best_s = soonest(offers)
        stable.append(finish(offers, match(offers)) / best_s)
        one_by_one.append(finish(offers, greedy(offers)) / best_s)
    return {"stable": fmean(stable), "greedy": fmean(one_by_one)}
