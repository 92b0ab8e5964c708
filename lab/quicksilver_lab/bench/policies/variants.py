"""What is compared: a baseline without any of the policies, each of them alone, all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from policies.base import SLOTS
from policies.config.registry import Registry
from quicksilver_lab.bench.policies.jobs import BATCH

Section = Mapping[str, Any]

BASE: Final[Section] = {
    "queues": [BATCH],
    "routes": [{"policy": "only_q"}],
    "place": {"policy": "random"},
    "order": {"policy": "fifo"},
    "quota": {"policy": "none"},
}
"""All else at its default: no shedding, stealing, correction, policing or promotion; the newest is killed for room."""


@dataclass(frozen=True, slots=True)
class PolicyVariant:
    """One way to run. section: what it changes of BASE, or of that of `against`; corrected: estimates learn."""

    name: str
    section: Section = field(default_factory=dict)
    against: str = "baseline"
    """What it is compared with; itself: with nothing."""
    plan: Section = field(default_factory=dict)
    """What it changes of the plan."""
    corrected: bool = True

    @property
    def policies(self) -> dict[str, Any]:
        """The `policies:` section of quicksilver.yaml."""
        return {**BASE, **self.section}

    def choices(self) -> Iterable[tuple[str, str]]:
        """Yield (slot, policy) of what it names."""
        for slot in SLOTS:
            choice = self.section.get(slot)
            for entry in choice if isinstance(choice, list) else [choice] if choice else []:
                yield slot, entry["policy"]


G_HEAVY: Final[Section] = {"nodes": 50, "cores": 16, "g_share": 0.6, "g_task_s": 6.0, "load": 0.6}
"""For policies that leave room to guaranteed containers: these are more than half of the load, on large nodes.
`all` is run there, too."""


def _alone(slot: str, policy: str, **settings: Any) -> PolicyVariant:
    choice: dict[str, Any] = {"policy": policy}
    if settings:
        choice["settings"] = settings
    name = f"{slot}_{policy}"
    return (
        PolicyVariant(name, {slot: choice}, "g_heavy", G_HEAVY)
        if slot in ("police", "promote")
        else PolicyVariant(name, {slot: choice})
    )


ALONE: Final = (
    _alone("place", "topk_wait"),
    _alone("order", "job_submission"),
    _alone("order", "srpt"),
    _alone("order", "sjf"),
    _alone("order", "hrrn"),
    _alone("shed", "mean_sigma"),
    _alone("shed", "queue_length"),
    _alone("steal", "hawk", short_s=7.5),
    _alone("correct", "apollo"),
    _alone("quota", "absolute", max_q=20),
    _alone("quota", "relative"),
    _alone("police", "history"),
    _alone("police", "memory_limit"),
    _alone("promote", "on_start", min_remaining_s=2.0),
    _alone("promote", "when_room", min_ran_s=1.0, min_remaining_s=2.0),
)
TOGETHER: Final = ("place_topk_wait", "order_job_submission", "shed_mean_sigma", "steal_hawk", "correct_apollo")
"""What moves load between nodes: together as `mercury`."""
ALL: Final = (*TOGETHER, "police_history", "promote_on_start")
"""Policing and promotion too, as `all`; no quota, which is there to hold back."""
ERRORS: Final = (0.3, 0.6, 0.9)
"""As in Eagle's experiments with estimates that are wrong."""


def _estimates(error: float) -> tuple[PolicyVariant, PolicyVariant]:
    exact, learnt = f"told_{error}", f"estimates_{error}"
    section = {"place": {"policy": "topk_wait"}, "order": {"policy": "fifo"}}
    plan = {"error": error}
    return PolicyVariant(exact, section, exact, plan, corrected=False), PolicyVariant(learnt, section, exact, plan)


def available(registry: Registry) -> tuple[list[PolicyVariant], list[str]]:
    """Return the baseline and all that can be compared with what is installed, and the names of what cannot."""
    variants, absent = (
        [PolicyVariant("baseline", against="baseline"), PolicyVariant("g_heavy", {}, "g_heavy", G_HEAVY)],
        [],
    )
    for variant in ALONE:
        there = all(name in registry.names(slot) for slot, name in variant.choices())
        variants.append(variant) if there else absent.append(variant.name)
    by_name = {variant.name: variant for variant in variants}
    for name, parts, against, plan in (("mercury", TOGETHER, "baseline", {}), ("all", ALL, "g_heavy", G_HEAVY)):
        sections = [by_name[part].section for part in parts if part in by_name]
        together = {slot: choice for section in sections for slot, choice in section.items()}
        variants.append(PolicyVariant(name, together, against, plan))
    for error in ERRORS:
        variants.extend(_estimates(error))
    return variants, absent
