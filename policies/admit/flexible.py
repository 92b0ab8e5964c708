"""Few applications at a time, which use everything; elastic containers make way for the core of the next (Zoe, §3.2).

An application is admitted while those in service could not use the whole cluster, and its core fits beside their cores
(REBALANCE, Algorithm 1, lines 8-13); what the cores leave goes to elastic containers in cascade, to those first in
service first (14-21). An arrival is admitted at once only into unused room (line 3). Read otherwise than it is printed,
as in the replica of the paper's simulator: a core that fits exactly fits; of memory and vcores, either being
wanted entirely is enough to admit no more. YARN queues: an application whose queue is full holds up its queue alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import Policy
from policies.common.app_admission import AdmissionPlan, AppAdmission, entered, granted_size, standing
from policies.model import Resources, total
from policies.requests import AppRequest, Assignment, Room


class Flexible(AppAdmission):
    """Settings of flexible."""


def assign(requests: Sequence[AppRequest], room: Room, cfg: AppAdmission, freed: bool, now_s: float) -> Assignment:
    """Return which applications are in service, and their elastic containers."""
    plan = AdmissionPlan(requests, room, cfg, now_s)
    for request in plan.serving:
        plan.desk.take(request.limits, request.core_size)
    return rebalance(plan, plan.possible(whole=False), freed, now_s)


def rebalance(
    plan: AdmissionPlan, waiting: Sequence[AppRequest], freed: bool, now_s: float, changed: bool = False
) -> Assignment:
    """Admit from the waiting ones what fits, and share out the rest (Algorithm 1).

    freed: whether resources came free, so that elastic containers may make way; changed: whether somebody was admitted.
    """
    served = list(plan.serving)
    if freed or changed or _fits_unused(plan, waiting):
        demand = total(request.whole_size for request in served)
        for request in plan.heads(waiting, whole=False):
            if _saturated(demand, plan.room.total):
                break
            plan.desk.take(request.limits, request.core_size)
            demand += request.whole_size
            served.append(entered(request, now_s))
            changed = True
    admitted = {request.id for request in served}
    plan.saturate([request for request in waiting if request.id not in admitted])
    return plan.cascade(sorted(served, key=plan.key), keep=not (freed or changed))


def _fits_unused(plan: AdmissionPlan, waiting: Sequence[AppRequest]) -> bool:
    """Return whether the core of the first that waits fits beside all that was granted (Algorithm 1, line 3)."""
    unlimited = [request for request in waiting if not plan.desk.short(request.limits, request.core_size)]
    if not unlimited:
        return bool(waiting)  # each learns which limit it waits for
    unused = plan.desk.free - granted_size(plan.serving)
    fits = unlimited[0].core_size.fits(unused)
    if not fits:
        plan.hold_up(unlimited, unlimited[0].core_size, unused)
    return fits


def _saturated(demand: Resources, room: Resources) -> bool:
    return demand.memory_mb >= room.memory_mb or demand.vcores >= room.vcores


POLICY = Policy("flexible", Flexible, standing, assign=assign)
