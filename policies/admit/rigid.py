"""All containers of an application at once, or none: schedulers that know no core and elastic ones (Zoe, §2.2).

The first of the line holds up those behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import Policy
from policies.common.app_admission import AdmissionPlan, AppAdmission, entered, standing
from policies.requests import AppRequest, Assignment, Room


class Rigid(AppAdmission):
    """Settings of rigid."""


def assign(requests: Sequence[AppRequest], room: Room, cfg: AppAdmission, freed: bool, now_s: float) -> Assignment:
    """Return which applications are in service: with all of their elastic containers."""
    plan = AdmissionPlan(requests, room, cfg, now_s)
    served = list(plan.serving)
    for request in served:
        plan.desk.take(request.limits, request.whole_size)
    waiting = plan.possible(whole=True)
    for request in plan.heads(waiting, whole=True):
        plan.desk.take(request.limits, request.whole_size)
        served.append(entered(request, now_s))
    shares = {request.id: {each.priority: each.count for each in request.elastic} for request in served}
    return Assignment(shares, plan.waits)


POLICY = Policy("rigid", Rigid, standing, assign=assign)
