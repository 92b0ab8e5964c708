"""Free resources go to those in service first, then to the next; nothing is ever taken back (Zoe, §2.2, §4.3).

First fit, as in the literature on malleable jobs: the next one starts when its core fits into what the others leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from policies.base import Policy
from policies.common.app_admission import AdmissionPlan, AppAdmission, entered, standing
from policies.requests import AppRequest, Assignment, Room


class Malleable(AppAdmission):
    """Settings of malleable."""


def assign(requests: Sequence[AppRequest], room: Room, cfg: AppAdmission, freed: bool, now_s: float) -> Assignment:
    """Return which applications are in service, and their elastic containers."""
    plan = AdmissionPlan(requests, room, cfg, now_s)
    served = sorted(plan.serving, key=lambda request: (request.entered_s or 0.0, plan.key(request)))
    for request in served:
        plan.desk.take(request.limits, request.core_size)
    shares = dict(plan.cascade(served, keep=True).shares)
    waiting = plan.possible(whole=False)
    for request in plan.heads(waiting, whole=False):
        plan.desk.take(request.limits, request.core_size)
        shares |= plan.cascade([replace(entered(request, now_s), granted={})], keep=False).shares
    plan.saturate([request for request in waiting if request.id not in shares])
    return Assignment(shares, plan.waits)


POLICY = Policy("malleable", Malleable, standing, assign=assign)
