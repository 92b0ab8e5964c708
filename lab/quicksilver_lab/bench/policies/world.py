"""The workload of these benchmarks in the world of the production machines."""

from __future__ import annotations

from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver.simulator.world.production import World
from quicksilver.simulator.world.setup import Setup
from quicksilver_lab.bench.policies.jobs import BATCH, PRODUCTION, JobsPlan, draw

DRAIN_S = 900.0
"""A run ends at the latest so long after the arrivals."""
_ROOM_MB = 1024


def world(plan: JobsPlan, policies: Policies, seed: int, corrected: bool = True) -> World:
    """Return a world with the jobs of a plan. corrected: whether estimates learn from tasks that ended."""
    setup = Setup(
        nodes=plan.nodes,
        size=Resources(plan.cores * _ROOM_MB, plan.cores),
        queues=(BATCH, PRODUCTION),
        window_s=plan.arrivals_s,
        until_s=plan.arrivals_s + DRAIN_S,
        slow_nodes=plan.slow_nodes,
        slow_times=plan.slow_times,
        remote_times=plan.remote_times,
    )
    return World(setup, draw(plan, seed), policies, seed, corrected)
