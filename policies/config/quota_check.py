"""Applies the quotas: a container that its route made queueable goes guaranteed when it exceeds one.

rm_proxy/attempt/router.py applies them to each wanted container; rm_proxy/coordinator/settings_change.py applies them
again to containers that wait when a quota was lowered.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from policies.config.guarded_call import call
from policies.model import Ask, Kind, QueueView, Route

if TYPE_CHECKING:
    from policies.config.policy_set import Policies


def within_quota(policies: Policies, chosen: Route, ask: Ask, queue: QueueView, rng: Random, now_s: float) -> Route:
    """Return the route of a container after the quotas, and after the windows that begin or end soon."""
    if chosen.kind is Kind.QUEUEABLE:
        over = exceeded_quota(policies, ask, queue)
        soon = policies.drained(ask, queue, rng, now_s) if over is None else None
        if over is not None or soon is not None:
            slot = "quota" if over is not None else "window"
            return Route(Kind.GUARANTEED, over or soon or "", slot, policies.version)
    return replace(chosen, version=policies.version)


def exceeded_quota(policies: Policies, ask: Ask, queue: QueueView) -> str | None:
    """Return why a container may not be queueable, None when it may; the queue's labels are checked here too."""
    if ask.label and not queue.labels & {"*", ask.label}:
        return f"queue {queue.name} may not use the node label {ask.label}"
    for bound in policies.for_app(ask.app).quotas:
        answer: str | None = call(bound, str | None, ask, queue, bound.cfg)  # type: ignore[arg-type]
        if answer is not None:
            return answer
    return None
