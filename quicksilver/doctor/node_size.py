"""A node's own name and vcores in Hadoop's files, and the vcores that its NodeManager must be configured with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from policies.config.policy_set import Policies
from policies.config.presets import DEFAULT, PRESETS
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf
from quicksilver.doctor.model import NM, DoctorSettings, DoctorSite

VCORES: Final = "yarn.nodemanager.resource.cpu-vcores"
MEMORY: Final = "yarn.nodemanager.resource.memory-mb"
DETECT: Final = "yarn.nodemanager.resource.detect-hardware-capabilities"
ANY: Final = ("", "0.0.0.0", "::")
"""Host names that name no host."""
_VCORES_UNSET: Final = 8
_MEMORY_UNSET: Final = 8192
_NAMES: Final = ("yarn.nodemanager.address", "yarn.nodemanager.hostname", "yarn.nodemanager.webapp.address")


def node_name(conf: HadoopConf) -> str:
    """Return the host under which a NodeManager with these files registers, "" where they name none."""
    for name in _NAMES:
        try:
            host = conf.address(name).host if name.endswith("address") else conf.text(name) or ""
        except SettingsError:
            continue  # a finding of its own
        if host not in ANY:
            return host
    return ""


def believed(site: DoctorSite) -> tuple[int, int] | None:
    """Return the vcores and the MB that a NodeManager is configured with; None where it detects them by itself."""
    vcores, memory_mb = site.number(VCORES, _VCORES_UNSET), site.number(MEMORY, _MEMORY_UNSET)
    if (vcores <= 0 or memory_mb <= 0) and site.flag(DETECT):
        return None
    return vcores if vcores > 0 else _VCORES_UNSET, memory_mb if memory_mb > 0 else _MEMORY_UNSET


def own_vcores(conf: HadoopConf) -> int | None:
    """Return N, the vcores that a NodeManager with these files is configured with; None where it detects them."""
    size = believed(DoctorSite(NM, "", conf))
    return size[0] if size else None


def needed_vcores(base: float, extra: float, settings: DoctorSettings) -> int:
    """Return the vcores that a NodeManager must be configured with where containers share cores.

    base: N, the vcores that containers may use at a time; extra: how many more are started. With a relay that shows N
    to the ResourceManager, guaranteed containers run besides (docs/preemption.md).
    """
    relayed = settings.tracker.rm_vcores if settings.tracked and shrinks(settings) is not None else None
    return math.ceil(max(base, 2 * (relayed or 0)) + extra)


def needed_by_memory(rm: DoctorSite, memory_mb: int) -> int:
    """Return how many containers a ResourceManager may plan on a node by memory alone; 0 where it counts vcores."""
    return 0 if rm.counts_vcores else memory_mb // smallest_mb(rm)


def smallest_mb(rm: DoctorSite) -> int:
    """Return the memory of the smallest container, in MB."""
    return max(1, rm.number("yarn.scheduler.minimum-allocation-mb", 1024))


def beyond(settings: DoctorSettings) -> float | None:
    """Return how many vcores beyond a node's own any of the policies starts; None where containers share no cores."""
    return max((extra for extra in (shrinks(settings), shrinks_by_preset(settings)) if extra is not None), default=None)


def shrinks(settings: DoctorSettings) -> float | None:
    """Return how many vcores beyond a node's own are started where containers share them, None where they do not.

    A preset's own shrinking does not count: without what it needs it does without.
    """
    return _extra(each for each in every(settings.policies) if not _by_preset(each))


def shrinks_by_preset(settings: DoctorSettings) -> float | None:
    """Return the same where the default preset alone has containers share cores."""
    return _extra(each for each in every(settings.policies) if _by_preset(each))


def every(policies: Policies | None) -> tuple[Policies, ...]:
    """Return the policies and their alternatives; () without any."""
    return (policies, *policies.alternatives.values()) if policies else ()


def _extra(policies: Iterable[Policies]) -> float | None:
    extras = [shrinking.extra for each in policies if (shrinking := each.node.shrinking()) is not None]
    return max(extras, default=None)


def _by_preset(policies: Policies) -> bool:
    """Return whether the policies preempt as the default preset does, without a word of the admin."""
    section = policies.section
    return section.preset == DEFAULT and section.preempt.model_dump() == PRESETS[DEFAULT].section["preempt"]
