"""The whole decision about one wanted container: its route, tokens, quotas, and windows that begin or end soon.

rm_proxy/attempt/routing/router.py asks for it once for each wanted container.
"""

from __future__ import annotations

from random import Random
from typing import Final

from policies.admission import Standing
from policies.config.policy_set import Policies, Rule
from policies.decisions.quotas import admission, exceeded_quota, refused
from policies.model import Ask, Kind, QueueView, Route
from policies.value_types import replace

_ADMIT: Final = "; admit: "
"""Stands in reasons between the route's own and that of the `admit` policy."""


def choose(
    policies: Policies, ask: Ask, queue: QueueView, rng: Random, now_s: float, rule: Rule | str | None = None
) -> Route:
    """Decide on one wanted container by its route, tokens, quotas and upcoming windows: the whole decision.

    rule: that of its application and priority, if it is known already.
    """
    return within_quota(policies, policies.route(ask, rng, rule), ask, queue, rng, now_s)


def within_quota(policies: Policies, route: Route, ask: Ask, queue: QueueView, rng: Random, now_s: float) -> Route:
    """Return the route of a container after tokens, quotas, and the windows that begin or end soon.

    With a token it goes guaranteed; quotas apply to containers without one.
    """
    if route.kind is Kind.QUEUEABLE:
        token = admission(policies, ask, queue) if policies.admits else None
        if token is not None:
            if token.standing is Standing.REGULAR:
                return Route(Kind.GUARANTEED, token.reason, "admit", policies.version)
            route = replace(route, reason=f"{route.reason.partition(_ADMIT)[0]}{_ADMIT}{token.reason}")
        over = refused(policies, ask, queue)
        soon = drained(policies, ask, queue, rng, now_s) if over is None and policies.later else None
        if over is not None or soon is not None:
            slot = "quota" if over is not None else "window"
            return Route(Kind.GUARANTEED, over or soon or "", slot, policies.version)
    return Route(route.kind, route.reason, route.slot, policies.version)


def drained(policies: Policies, ask: Ask, queue: QueueView, rng: Random, now_s: float) -> str | None:
    """Return why a container may not be queueable now that could be still, when a window begins or ends.

    A container that is expected to end before the window does is not concerned.
    """
    own = policies.for_app(ask.app)
    for change, then in policies.later:
        later = then.for_app(ask.app)
        if later is own or now_s + ask.expected_s <= change.at_s:
            continue
        why = _forbidden(own, later, ask, queue, rng)
        if why is not None:
            return f"{change} in {max(0.0, change.at_s - now_s):.0f} s and would not allow it: {why}"
    return None


def _forbidden(own: Policies, later: Policies, ask: Ask, queue: QueueView, rng: Random) -> str | None:
    """Return why `later` policies keep a container from being queueable, where they differ from `own`."""
    if own.mode(ask.app) == "active" and later.mode(ask.app) != "active":
        return f"{later.mode(ask.app)} mode"
    if own.differs(later, "route"):
        route = later.route(ask, rng)
        if route.kind is Kind.GUARANTEED:
            return route.reason
    return exceeded_quota(later, ask, queue) if own.differs(later, "quota") else None
