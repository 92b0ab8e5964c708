"""Flexible; an application more urgent than the last in service does not wait for a departure (Zoe, §3.3, Algorithm 2).

Elastic containers of the less urgent ones make way, cores never do. An urgent one that finds no room for its core goes
before all others that wait, and while it waits, nobody else of its YARN queues is admitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.admit.flexible import rebalance
from policies.base import Policy
from policies.common.app_admission import AdmissionPlan, AppAdmission, entered, standing
from policies.requests import AppRequest, Assignment, Room


class Preemptive(AppAdmission):
    """Settings of preemptive."""


def assign(requests: Sequence[AppRequest], room: Room, cfg: AppAdmission, freed: bool, now_s: float) -> Assignment:
    """Return which applications are in service, and their elastic containers."""
    plan = AdmissionPlan(requests, room, cfg, now_s)
    for request in plan.serving:
        plan.desk.take(request.limits, request.core_size)
    waiting = plan.possible(whole=False)
    tail = max((plan.key(request) for request in plan.serving), default=None)
    urgent = [request for request in waiting if tail is not None and plan.key(request) < tail]
    admitted: list[AppRequest] = []
    for request in plan.heads(urgent, whole=False):
        plan.desk.take(request.limits, request.core_size)
        admitted.append(entered(request, now_s))
    plan.serving = sorted([*plan.serving, *admitted], key=plan.key)
    entered_ids = {request.id for request in admitted}
    held_up = [request for request in urgent if request.id not in entered_ids]
    rest = [] if held_up else [request for request in waiting if request.id not in entered_ids]
    answer = rebalance(plan, rest, freed, now_s, bool(admitted))
    if held_up:
        plan.saturate([request for request in waiting if request.id not in answer.shares])
    return answer


POLICY = Policy("preemptive", Preemptive, standing, assign=assign)
