"""Applies the quotas: a container that its route made queueable goes guaranteed, or waits, when it exceeds one.

rm_proxy/attempt/router.py applies them to each wanted container, rm_proxy/attempt/steering.py those `at_binding` to
each container that gets a node; rm_proxy/coordinator/settings_change.py applies all to containers that wait at nodes
when a quota was lowered.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from policies.config.guarded_call import call
from policies.config.registry import Bound
from policies.model import Ask, Kind, QueueView, Resources, Route

if TYPE_CHECKING:
    from policies.config.policy_set import Policies


def within_quota(policies: Policies, chosen: Route, ask: Ask, queue: QueueView, rng: Random, now_s: float) -> Route:
    """Return the route of a container after the quotas, and after the windows that begin or end soon."""
    if chosen.kind is Kind.QUEUEABLE:
        over = _refused(policies, ask, queue)
        soon = policies.drained(ask, queue, rng, now_s) if over is None else None
        if over is not None or soon is not None:
            slot = "quota" if over is not None else "window"
            return Route(Kind.GUARANTEED, over or soon or "", slot, policies.version)
    return replace(chosen, version=policies.version)


def _refused(policies: Policies, ask: Ask, queue: QueueView) -> str | None:
    """Return why a container may not be queueable at all; None when it may, though it may have to wait.

    Quotas at binding are asked whether it would fit if nothing was used.
    """
    if ask.label and not queue.labels & {"*", ask.label}:
        return f"queue {queue.name} may not use the node label {ask.label}"
    unused: QueueView | None = None
    for bound in policies.for_app(ask.app).quotas:
        if bound.at_binding:
            unused = unused or _unused(queue)
        answer = _asked(bound, ask, queue if unused is None or not bound.at_binding else unused)
        if answer is not None:
            return answer
    return None


def over_at_binding(policies: Policies, ask: Ask, queue: QueueView) -> str | None:
    """Return why a queueable container may not get a node now, None when it may; it waits until it may."""
    for bound in policies.for_app(ask.app).quotas:
        answer = _asked(bound, ask, queue) if bound.at_binding else None
        if answer is not None:
            return answer
    return None


def exceeded_quota(policies: Policies, ask: Ask, queue: QueueView) -> str | None:
    """Return why a container may not be queueable, None when it may; the queue's labels are checked here too."""
    if ask.label and not queue.labels & {"*", ask.label}:
        return f"queue {queue.name} may not use the node label {ask.label}"
    for bound in policies.for_app(ask.app).quotas:
        answer = _asked(bound, ask, queue)
        if answer is not None:
            return answer
    return None


def _asked(bound: Bound, ask: Ask, queue: QueueView) -> str | None:
    answer: str | None = call(bound, str | None, ask, queue, bound.cfg)  # type: ignore[arg-type]
    return answer


def _unused(queue: QueueView) -> QueueView:
    """Return the queue as if neither it nor any above it was used."""
    none = Resources()
    return replace(
        queue,
        used_g=none,
        used_q=none,
        user_used_q={},
        user_used_g={},
        parents=tuple(replace(parent, used_g=none, used_q=none) for parent in queue.parents),
        cluster_used_q=none,
    )
