"""The policies in force for the REST API: which, from where, when others come, and on whom they decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from policies.base import SLOTS
from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.config.schema import PoliciesSection, Rollout, Window, queue_test
from policies.model import AppView
from quicksilver.common.settings.calendar import Calendar
from rm_proxy.views.application_models import ApplicationEntry
from rm_proxy.views.delays import delays
from rm_proxy.views.service_models import (
    ActivePolicy,
    PoliciesInfo,
    RolloutArm,
    RolloutInfo,
    WindowInfo,
)


def policies_info(
    policies: Policies, registry: Registry, source: str, apps: Collection[AppView], now_s: float
) -> PoliciesInfo:
    """Return the policies in use. apps: those that run."""
    section, described = policies.section, policies.describe()
    below = preset_description(section.preset) if section.preset else {}
    deciding = Counter(policies.for_app(app).name for app in apps)
    return PoliciesInfo(
        active=_active(policies, described, below),
        available={slot: registry.names(slot) for slot in SLOTS},
        source=source,
        version=policies.version,
        windows_open=list(policies.hours.open),
        alternatives=list(policies.alternatives),
        preset=section.preset or "",
        mode=section.mode,
        queues=list(section.queues),
        time_zone=policies.time_zone,
        windows=_windows(policies, now_s),
        rollouts=[_rollout(rollout, apps) for rollout in _rollouts(policies)],
        shadow=list(policies.shadow),
        alternative_settings=described.get("alternatives", {}),
        deciding=dict(deciding),
    )


def _active(policies: Policies, described: Mapping[str, Any], below: Mapping[str, Any]) -> list[ActivePolicy]:
    active = [ActivePolicy(slot="route", name="by rules", rules=described["routes"])]
    for slot, choice in described.items():
        if isinstance(choice, dict) and "policy" in choice:
            active.append(ActivePolicy(slot=slot, name=choice["policy"], settings=choice["settings"]))
    active += [ActivePolicy(slot="quota", name=row["policy"], settings=row["settings"]) for row in described["quota"]]
    for policy in active:
        policy.origin = _origin(policies, "routes" if policy.slot == "route" else policy.slot, described, below)
    return active


def _origin(policies: Policies, key: str, described: Mapping[str, Any], below: Mapping[str, Any]) -> str:
    """Return where a slot's policy comes from: what is equal to the preset's counts as the preset's."""
    preset = policies.section.preset
    if preset:
        same = described[key] == below.get(key)
        return f"preset {preset}" if same else f"file over preset {preset}"
    return "file" if key in policies.section.model_fields_set else "built in"


@lru_cache(maxsize=32)
def preset_description(name: str) -> Mapping[str, Any]:
    """Return the settings of a preset alone."""
    return Policies.load({"preset": name}).describe()


def _rollouts(policies: Policies) -> Sequence[Rollout]:
    return policies.section.rollout if isinstance(policies.section, PoliciesSection) else ()


def _rollout(rollout: Rollout, apps: Collection[AppView]) -> RolloutInfo:
    in_queue = queue_test(rollout.queue)
    there = [app for app in apps if in_queue(app.queue)]
    taken = sum(rollout.takes(app.id) for app in there)
    queues = list(rollout.queue)
    return RolloutInfo(use=rollout.use, queues=queues, percent=rollout.percent, running=len(there), taken=taken)


@lru_cache(maxsize=8)
def _calendar(windows: tuple[Window, ...], time_zone: str) -> Calendar:
    return Calendar(windows, time_zone)


def _windows(policies: Policies, now_s: float) -> list[WindowInfo]:
    """Return the windows: open ones first, then as they come."""
    windows = tuple(policies.windows)
    spans = _calendar(windows, policies.time_zone).spans(now_s)
    infos = []
    for window in windows:
        span = spans.get(window.name)
        info = WindowInfo(
            name=window.name,
            use=window.use,
            queues=list(window.queue),
            cron=window.cron,
            length_s=window.length_s,
            drain_s=window.drain_s,
            open=window.name in policies.hours.open,
            begins_s=span.begins_s if span is not None else None,
            ends_s=span.ends_s if span is not None else None,
        )
        infos.append(info)
    return sorted(infos, key=lambda item: (not item.open, item.begins_s is None, item.begins_s or 0.0))


def rollout_arms(policies: Policies, apps: Collection[ApplicationEntry]) -> list[RolloutArm]:
    """Return how finished applications did by the alternative that the roll-outs give them; those of no roll-out's
    queues are left out. Windows do not count."""
    by_use: dict[str, list[ApplicationEntry]] = {}
    tests = [(queue_test(rollout.queue), rollout) for rollout in _rollouts(policies)]
    for app in apps:
        mine = [rollout for in_queue, rollout in tests if in_queue(app.queue)]
        if mine:
            use = next((rollout.use for rollout in mine if rollout.takes(app.id)), "")
            by_use.setdefault(use, []).append(app)
    return [_arm(use, by_use[use]) for use in sorted(by_use)]


def _arm(use: str, apps: Sequence[ApplicationEntry]) -> RolloutArm:
    elapsed = delays([app.elapsed_s for app in apps if app.elapsed_s is not None])
    rows = [app.ledger for app in apps if app.ledger is not None]
    started = sum(row.started_q for row in rows)
    return RolloutArm(
        use=use,
        applications=len(apps),
        elapsed_p50_s=elapsed.p50_s,
        elapsed_p95_s=elapsed.p95_s,
        containers_g=sum(row.containers_g for row in rows),
        containers_q=sum(row.containers_q for row in rows),
        queueing_mean_s=sum(row.queueing_s for row in rows) / started if started else None,
        kills=sum(row.kills for row in rows),
        lost_s=sum(row.lost_s for row in rows),
        work_s=sum(row.work_s for row in rows),
    )
