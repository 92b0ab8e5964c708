"""Remarks on settings that are allowed but probably not meant."""

from __future__ import annotations

from policies.config.policy_set import Policies
from policies.config.schema import Match, PoliciesSection


def notes(policies: Policies) -> list[str]:
    """Return remarks on settings that are allowed but probably not meant, one line each."""
    queues, routes = policies.section.queues, policies.section.routes
    remarks = []
    if queues and not routes:
        remarks.append("queues are listed, but routes is empty: every container stays guaranteed")
    if routes and not queues and not any(alternative.section.queues for alternative in policies.alternatives.values()):
        remarks.append("there are routes, but queues is empty: every container stays guaranteed")
    all_at = next((number for number, rule in enumerate(routes, 1) if rule.match == Match()), len(routes))
    remarks.extend(
        f"routes[{number}] is never reached: routes[{all_at - 1}] matches everything"
        for number in range(all_at, len(routes))
    )
    if isinstance(policies.section, PoliciesSection):
        rollouts, windows = policies.section.rollout, policies.windows
        used = {*policies.shadow, *(r.use for r in rollouts), *(w.use for w in windows)}
        remarks.extend(f"alternative {name} is used nowhere" for name in policies.alternatives if name not in used)
    return remarks
