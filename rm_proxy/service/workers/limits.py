"""What a proxy of several workers does not do yet: each is refused with the setting that asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from policies.config.policy_set import Policies
from quicksilver.common.errors import SettingsError
from quicksilver.common.http.security import Security
from rm_proxy.config import ProxySettings

WHOLE_CLUSTER: Final = ("probe", "steal", "correct", "classify", "partition", "promote")
"""Slots whose policies look at the applications of all workers, beside `admit` for whole applications."""


def unfit_policies(policies: Policies) -> list[str]:
    """Return the settings of policies that several workers cannot follow, and why."""
    variants: Iterable[Policies] = (policies, *policies.alternatives.values())
    slots = {
        slot: variant.policy_name(slot)
        for variant in variants
        for slot in WHOLE_CLUSTER
        if variant.policy_name(slot) != "none"
    }
    if any(variant.cluster.admission is not None for variant in variants):
        slots["admit"] = policies.policy_name("admit")
    faults = [f"policies.{slot}: {name} looks at the applications of all workers" for slot, name in slots.items()]
    return faults + (["policies.shadow compares decisions on the whole cluster"] if policies.shadow else [])


def check_workers(settings: ProxySettings, policies: Policies, security: Security) -> None:
    """Raise SettingsError if `proxy.workers` is more than 1 and other settings do not allow it."""
    faults = unfit_policies(policies)
    if security.settings.tls:
        faults.append("security.tls_cert: the process that accepts REST has to see the path of a call")
    if faults:
        raise SettingsError(
            f"{settings.workers} workers cannot serve with {'; '.join(faults)}",
            place="proxy.workers",
            remedy="set it to 1, or take these settings away",
        )
