"""A set of policies as JSON, and remarks on settings that are allowed but probably not meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.config.registry import Bound
from policies.config.schema import Match, PoliciesSection
from policies.config.validation import plain

if TYPE_CHECKING:
    from policies.config.policy_set import Policies


def notes(policies: Policies) -> list[str]:
    """Return remarks on settings that are allowed but probably not meant, one line each."""
    queues, routes = policies.section.queues, policies.section.routes
    remarks = []
    if queues and not routes:
        remarks.append("queues are listed, but routes is empty: every container stays guaranteed")
    if routes and not queues and not any(other.section.queues for other in policies.alternatives.values()):
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


def describe(policies: Policies) -> dict[str, Any]:
    """Return the policies in force with all their settings, as JSON can hold it; infinity is the text `.inf`."""
    described: dict[str, Any] = policies.section.model_dump(mode="json")
    for slot, bound in policies.choices.items():
        described[slot] = _shown(bound)
    described["quota"] = [_shown(bound) for bound in policies.quotas]
    for rule, shown in zip(policies.rules, described["routes"], strict=True):
        shown.update(_shown(rule.bound))
    if isinstance(policies.section, PoliciesSection):
        alternatives = {name: describe(alternative) for name, alternative in policies.alternatives.items()}
        described["alternatives"] = {
            name: {key: alternatives[name][key] for key in own} for name, own in policies.section.alternatives.items()
        }
    return described


def _shown(bound: Bound) -> dict[str, Any]:
    return {"policy": bound.name, "package": bound.package, "settings": plain(bound.cfg.model_dump(mode="json"))}
