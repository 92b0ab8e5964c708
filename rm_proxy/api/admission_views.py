"""The admission of whole applications, as a model of the REST API."""

from __future__ import annotations

from math import isinf

from policies.common.app_admission import AppAdmission
from policies.model import Resources, total
from rm_proxy.admission.governed_apps import GovernedApp
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.views.admission_models import AdmissionInfo, AdmittedApplication


def admission_info(coordinator: Coordinator) -> AdmissionInfo:
    """Return the admission as it is now."""
    admissions, reclaimer = coordinator.admissions, coordinator.features.reclaimer
    settings = admissions.settings
    known = sorted(admissions.apps.values(), key=lambda app: (app.entered_s is None, app.app.submitted_s, app.app.id))
    items = [_item(app, settings) for app in known] if settings is not None else []
    served = [item.core_size for item in items if item.entered_s is not None]
    return AdmissionInfo(
        policy=coordinator.policies.for_nodes.policy_name("admit"),
        room=admissions.room.total if settings is not None else Resources(),
        core_size=total(served),
        reclaimed=reclaimer.reclaimed,
        idle=reclaimer.idled,
        applications=items,
    )


def _item(known: GovernedApp, settings: AppAdmission) -> AdmittedApplication:
    app, tags = known.app, known.tags
    request = known.request(settings, 0.0)
    return AdmittedApplication(
        id=app.id,
        name=app.name,
        queue=app.queue,
        user=app.user,
        type=app.type,
        state="waiting" if known.entered_s is None else "in service",
        submitted_s=app.submitted_s,
        entered_s=known.entered_s,
        why=known.why if known.entered_s is None else "",
        core=sum(each.count for each in request.core),
        core_held=sum(at.held_g for at in known.demand.values()),
        core_size=request.core_size,
        elastic=sum(each.count for each in request.elastic),
        elastic_share=sum(known.shares.values()),
        elastic_held=sum(at.held_q for at in known.demand.values()),
        runtime_s=request.runtime_s,
        priority=request.priority,
        interactive=tags.interactive,
        idle_until_s=None if isinf(known.idle_until_s) else known.idle_until_s,
    )
