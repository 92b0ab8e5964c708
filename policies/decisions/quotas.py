"""Tokens (slot `admit`) and quotas of a queueable container: those of its route, and those that apply at binding.

policies/decisions/choice.py applies those of the route; rm_proxy/attempt/routing/steering.py applies tokens and the
quotas `at_binding` to each container that gets a node; rm_proxy/coordinator/settings_change.py applies all quotas to
containers that wait at nodes when a quota was lowered.
"""

from __future__ import annotations

from typing import Final

from policies.admission import Admission, Standing
from policies.config.guarded_call import call
from policies.config.policy_set import Policies
from policies.config.registry import BoundPolicy
from policies.model import Ask, Placement, QueueView, Resources
from policies.value_types import changer, replace

_sized: Final = changer(Ask, "resources")


def not_admitted(policies: Policies, ask: Ask, queue: QueueView) -> Placement | None:
    """Return why a queueable container gets no node now by its tokens: it has one, or waits; None when it may get one.

    Containers of its application that have no node yet do not count in `ask.app.live_q`.
    """
    answer = admission(policies, ask, queue)
    if answer is None or answer.standing is Standing.OPPORTUNISTIC:
        return None
    return Placement(None, reason=answer.reason, wait=answer.standing is Standing.WAITS, slot="admit")


def admission(policies: Policies, ask: Ask, queue: QueueView) -> Admission | None:
    """Return what the `admit` policy decides about a container; None without such a policy."""
    bound = policies.for_app(ask.app).choices["admit"]
    if bound.name == "none":
        return None
    answer: Admission | None = call(bound, Admission | None, ask, queue, bound.cfg)  # type: ignore[arg-type]
    return answer


def refused(policies: Policies, ask: Ask, queue: QueueView) -> str | None:
    """Return why a container may not be queueable at all; None when it may, though it may have to wait.

    What a quota at binding refuses is refused here only if it would not fit if nothing was used either.
    """
    if ask.label and not queue.labels & {"*", ask.label}:
        return f"queue {queue.name} may not use the node label {ask.label}"
    for bound in policies.for_app(ask.app).quotas:
        answer = _refusal(bound, ask, queue)
        if answer is not None and bound.at_binding:
            answer = _refusal(bound, ask, _unused(queue))
        if answer is not None:
            return answer
    return None


def over_at_binding(policies: Policies, ask: Ask, queue: QueueView) -> str | None:
    """Return why a queueable container may not get a node now, None when it may; it waits until it may."""
    for bound in policies.for_app(ask.app).quotas:
        answer = _refusal(bound, ask, queue) if bound.at_binding else None
        if answer is not None:
            return answer
    return None


def all_within(policies: Policies, ask: Ask, count: int, queue: QueueView) -> bool:
    """Return whether so many containers may surely get nodes now, one after the other, with one look at the quotas."""
    size = ask.resources
    whole = _sized(ask, Resources(size.memory_mb * count, size.vcores * count))
    for bound in policies.for_app(ask.app).quotas:
        if bound.at_binding and (not bound.together or _refusal(bound, whole, queue) is not None):
            return False
    return True


def exceeded_quota(policies: Policies, ask: Ask, queue: QueueView) -> str | None:
    """Return why a container may not be queueable, None when it may; the queue's labels are checked here too."""
    if ask.label and not queue.labels & {"*", ask.label}:
        return f"queue {queue.name} may not use the node label {ask.label}"
    for bound in policies.for_app(ask.app).quotas:
        answer = _refusal(bound, ask, queue)
        if answer is not None:
            return answer
    return None


def _refusal(bound: BoundPolicy, ask: Ask, queue: QueueView) -> str | None:
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
