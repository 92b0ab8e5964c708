"""Applies tokens and quotas to a container that its route made queueable: it goes guaranteed, or waits, by them.

With a token (slot `admit`) it goes guaranteed; quotas are asked for those without one. rm_proxy/attempt/router.py
applies both to each wanted container, rm_proxy/attempt/steering.py tokens and the quotas `at_binding` to each container
that gets a node; rm_proxy/coordinator/settings_change.py applies all quotas to containers that wait at nodes when a
quota was lowered.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from policies.admission import Admission, Standing
from policies.config.guarded_call import call
from policies.config.registry import Bound
from policies.model import Ask, Kind, Placement, QueueView, Resources, Route

if TYPE_CHECKING:
    from policies.config.policy_set import Policies

_ADMIT: Final = "; admit: "
"""Stands in reasons between the route's own and that of the `admit` policy."""


def within_quota(policies: Policies, chosen: Route, ask: Ask, queue: QueueView, rng: Random, now_s: float) -> Route:
    """Return the route of a container after tokens, quotas, and the windows that begin or end soon."""
    if chosen.kind is Kind.QUEUEABLE:
        admission = _admission(policies, ask, queue)
        if admission is not None:
            if admission.standing is Standing.REGULAR:
                return Route(Kind.GUARANTEED, admission.reason, "admit", policies.version)
            chosen = replace(chosen, reason=f"{chosen.reason.partition(_ADMIT)[0]}{_ADMIT}{admission.reason}")
        over = _refused(policies, ask, queue)
        soon = policies.drained(ask, queue, rng, now_s) if over is None else None
        if over is not None or soon is not None:
            slot = "quota" if over is not None else "window"
            return Route(Kind.GUARANTEED, over or soon or "", slot, policies.version)
    return replace(chosen, version=policies.version)


def admits(policies: Policies) -> bool:
    """Return whether any of these policies, or of their alternatives, has tokens."""
    return any(one.chosen("admit") != "none" for one in (policies, *policies.alternatives.values()))


def not_admitted(policies: Policies, ask: Ask, queue: QueueView) -> Placement | None:
    """Return why a queueable container gets no node now by its tokens: it has one, or waits; None when it may get one.

    Containers of its application that have no node yet do not count in `ask.app.live_q`.
    """
    admission = _admission(policies, ask, queue)
    if admission is None or admission.standing is Standing.OPPORTUNISTIC:
        return None
    return Placement(None, reason=admission.reason, wait=admission.standing is Standing.WAITS, slot="admit")


def _admission(policies: Policies, ask: Ask, queue: QueueView) -> Admission | None:
    bound = policies.for_app(ask.app).choices["admit"]
    if bound.name == "none":
        return None
    answer: Admission | None = call(bound, Admission | None, ask, queue, bound.cfg)  # type: ignore[arg-type]
    return answer


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
