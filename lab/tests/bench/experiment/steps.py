"""Plans and steps of tests."""

from __future__ import annotations

from typing import Any

from quicksilver_lab.bench.experiment.plan import ExperimentPlan
from quicksilver_lab.bench.experiment.step import Offered, Step, offered


def plan_of(*mixes: str, **keys: Any) -> ExperimentPlan:
    """Return a plan of these mixes, by default under one competitor."""
    plan = {"about": "a test", "workloads": [{"mix": name} for name in mixes], "competitors": ["only_g_tuned"]}
    return ExperimentPlan.model_validate(plan | keys)


def step_of(mix: str, competitor: str, seed: int = 1, halved: bool = False, **cluster: float) -> Step:
    """Return one run of a mix. cluster: what differs from that of the mix."""
    plan = plan_of(mix, halved=halved, cluster=cluster)
    return plan.step(plan.workloads[0], competitor, seed)


def jobs_of(step: Step) -> Offered:
    """Return the jobs of a step as they are submitted."""
    return offered(step.mix, step.seed)
