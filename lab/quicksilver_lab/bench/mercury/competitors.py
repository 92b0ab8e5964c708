"""What is compared, as data: settings of the ResourceManager, of the masters' asks, and of quicksilver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from policies.config.presets import DEFAULT, PRESETS, PresetName

Site = Mapping[str, str]
Section = Mapping[str, Any]

_CAPACITY: Final = "yarn.scheduler.capacity."
_OPPORTUNISTIC: Final = "yarn.resourcemanager.opportunistic-container-allocation."
_QUEUING: Final = "yarn.resourcemanager.nm-container-queuing."

TUNED: Final[Site] = {
    f"{_CAPACITY}per-node-heartbeat.maximum-offswitch-assignments": "100",
    f"{_CAPACITY}schedule-asynchronously.enable": "true",
}
"""What admins set for short tasks: as shipped a node gets one container for anywhere per heartbeat."""
FAIR: Final[Site] = {
    "yarn.scheduler.fair.assignmultiple": "true",
    "yarn.scheduler.fair.dynamic.max.assign": "true",
}
"""dynamic.max.assign gives a node up to half of its free room per heartbeat."""
PREEMPTING: Final[Site] = {
    "yarn.scheduler.fair.preemption": "true",
    "yarn.scheduler.fair.preemption.cluster-utilization-threshold": "0.8",
    "yarn.scheduler.fair.waitTimeBeforeKill": "1000",
}
"""A container is killed 1 s after its master was asked for it: MapReduce's gives none back by itself."""
STARVED: Final[Site] = {"defaultFairSharePreemptionTimeout": "5", "defaultFairSharePreemptionThreshold": "0.5"}
"""Of fair-scheduler.xml: a queue with less than half of its fair share for 5 s has containers of others killed. As
shipped the timeout is without end."""


def _central(comparator: str, least: int, most: int) -> dict[str, str]:
    """Return the settings of Hadoop's own opportunistic containers; queue limits in containers."""
    return {
        f"{_OPPORTUNISTIC}enabled": "true",
        f"{_QUEUING}load-comparator": comparator,
        f"{_QUEUING}min-queue-length": str(least),
        f"{_QUEUING}max-queue-length": str(most),
    }


@dataclass(frozen=True, slots=True)
class Competitor:
    """One way to run the same jobs."""

    name: str
    kind: Literal["only_g", "opportunistic", "quicksilver"]
    note: str
    scheduler: Literal["capacity", "fair"] = "capacity"
    yarn_site: Site = field(default_factory=dict)
    """Beside hadoop-conf/, which is laid over it where quicksilver takes part."""
    scheduler_site: Site = field(default_factory=dict)
    """Of capacity-scheduler.xml."""
    fair_site: Site = field(default_factory=dict)
    """Of fair-scheduler.xml: elements beside the queues."""
    masters_s: float | None = None
    """Heartbeat of the masters, seconds; None: as that of the nodes."""
    opportunistic_percent: int = 0
    """Of the tasks that masters themselves ask for as opportunistic: mapreduce.job.num-opportunistic-maps-percent."""
    nm_queue_length: int = 0
    """yarn.nodemanager.opportunistic-containers-max-queue-length."""
    policies: Section | None = None
    """That section of quicksilver.yaml; None without quicksilver."""
    extra: int = 0
    """Containers beside the cores that a node may have shrunk (Q of Kairos)."""
    own_grants: bool | Literal["ahead"] = False
    """Whether the proxy grants queueable containers itself, and ahead of the ResourceManager."""

    @property
    def quicksilver(self) -> bool:
        """Whether proxy and sidecars take part."""
        return self.policies is not None


def _stock(name: str, note: str, **more: Any) -> Competitor:
    return Competitor(name, "only_g", note, **more)


_QUEUE_LENGTH: Final = 10_000
"""At a NodeManager under quicksilver, whose queue is the sidecar's: far above what ever waits."""


def _own(
    name: str, note: str, comparator: str = "QUEUE_LENGTH", percent: int = 100, least: int = 5, most: int = 15
) -> Competitor:
    return Competitor(
        name,
        "opportunistic",
        note,
        yarn_site=_central(comparator, least, most),
        scheduler_site=TUNED,
        opportunistic_percent=percent,
        nm_queue_length=most,
    )


MERCURY: Final[Section] = PRESETS["mercury"].section
"""Mercury as in §4: topk_wait, job_submission and mean_sigma with their defaults. The quota is off, as in the paper:
the default one lets no more wait than the queue may use."""


def _mercury(name: str, note: str, extra: int = 0, **changed: Any) -> Competitor:
    return Competitor(
        name,
        "quicksilver",
        note,
        scheduler_site=TUNED,
        nm_queue_length=_QUEUE_LENGTH,
        policies=dict(MERCURY) | changed,
        extra=extra,
    )


def _on_preset(competitor: str, preset: PresetName, note: str, extra: int, **changed: Any) -> Competitor:
    return Competitor(
        competitor,
        "quicksilver",
        note,
        scheduler_site=TUNED,
        nm_queue_length=_QUEUE_LENGTH,
        policies={"preset": preset} | changed,
        extra=extra,
    )


def _own_grants() -> tuple[Competitor, Competitor]:
    usual = _preset(DEFAULT)
    note = f"preset {DEFAULT}; the proxy grants queueable containers itself"
    own = replace(usual, name="quicksilver_own_grants", note=note, own_grants=True)
    return own, replace(
        own, name="quicksilver_own_grants_ahead", note=f"{note}, ahead of the ResourceManager", own_grants="ahead"
    )


def _extra(preset: PresetName) -> int:
    extra: int = PRESETS[preset].section.get("preempt", {}).get("settings", {}).get("extra", 0)
    return extra


def _preset(name: PresetName) -> Competitor:
    """Return a preset as it is; `default` is what quicksilver does by itself."""
    competitor = "quicksilver" if name == DEFAULT else f"quicksilver_{name}"
    return _on_preset(competitor, name, f"preset {name}: {PRESETS[name].doc}", _extra(name))


def _default(name: str, note: str, **changed: Any) -> Competitor:
    """Return the preset `default` with something changed."""
    preempt = changed.get("preempt", {})
    extra = 0 if preempt == {"policy": "none"} else preempt.get("settings", {}).get("extra", _extra(DEFAULT))
    return _on_preset(f"quicksilver_{name}", DEFAULT, f"preset {DEFAULT}, {note}", extra, **changed)


_HYBRID: Final = [{"policy": "hybrid_gq", "settings": {"td_s": 10.0, "pq": 70.0}}]
_PATIENT: Final = {"policy": "kill_newest", "settings": {"grace_s": 3.0}}
"""Guaranteed tasks of 50 s wait for queueable ones of 2 s, whose work would be lost else."""
_EXTRA: Final = 4
_FAST_S: Final = 0.2
"""yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms as a careful user may set it."""

_PROBING: Final[tuple[PresetName, ...]] = ("hawk", "eagle")

ALL: Final = (
    _stock("only_g_shipped", "Capacity Scheduler as shipped"),
    _stock("only_g_tuned", "the same with 100 off-switch assignments, asynchronous scheduling", scheduler_site=TUNED),
    _stock("only_g_fair", "Fair Scheduler, assignmultiple with dynamic.max.assign", scheduler="fair", yarn_site=FAIR),
    _stock(
        "only_g_fair_preempt",
        "the same with preemption: below half of the fair share for 5 s",
        scheduler="fair",
        yarn_site={**FAIR, **PREEMPTING},
        fair_site=STARVED,
    ),
    _stock(
        "only_g_tuned_fast",
        "as only_g_tuned, masters' heartbeats of 0.2 s in place of 1 s",
        scheduler_site=TUNED,
        masters_s=_FAST_S,
    ),
    _stock(
        "only_g_fair_fast",
        "as only_g_fair, masters' heartbeats of 0.2 s in place of 1 s",
        scheduler="fair",
        yarn_site=FAIR,
        masters_s=_FAST_S,
    ),
    _own("opportunistic", "Hadoop's own: all opportunistic, QUEUE_LENGTH, limits of 5 to 15 as shipped"),
    _own(
        "opportunistic_resources",
        "the same by QUEUE_LENGTH_THEN_RESOURCES",
        "QUEUE_LENGTH_THEN_RESOURCES",
    ),
    _own("opportunistic_deep", "the same by QUEUE_LENGTH with queues of up to 1000", least=1000, most=1000),
    _own("opportunistic_half", "Hadoop's own: half of the tasks opportunistic, as opportunistic else", percent=50),
    _own(
        "opportunistic_half_deep",
        "Hadoop's own: half of the tasks opportunistic, as opportunistic_deep else",
        percent=50,
        least=1000,
        most=1000,
    ),
    *(_preset(name) for name in PRESETS),
    *_own_grants(),
    _on_preset(
        "quicksilver_probes",
        "hawk",
        "probes alone, as Sparrow has them: preset hawk without classes, kept nodes and stealing",
        0,
        classify={"policy": "none"},
        partition={"policy": "none"},
        steal={"policy": "none"},
    ),
    *(
        _on_preset(
            f"quicksilver_{preset}_shared",
            preset,
            f"preset {preset} with no node kept",
            0,
            partition={"policy": "none"},
        )
        for preset in _PROBING
    ),
    _on_preset(
        "quicksilver_apollo_places",
        "apollo",
        "preset apollo, but places in the proxy wait for the nodes, no containers",
        0,
        probe={"policy": "completion_time"},
        place={"settings": {"early": False, "ahead_s": 1.5}},
    ),
    _on_preset(
        "quicksilver_apollo_topk",
        "apollo",
        "preset apollo, placed by expected delay alone (`topk_wait`)",
        0,
        place={"policy": "topk_wait"},
    ),
    *(
        _default(f"within_{first}", f"of one level the {title} first", dispatch={"settings": {"within": first}})
        for first, title in (("age", "earliest submission"), ("shared", "fewest containers"))
    ),
    _default("without_late_binding", "tasks queue at nodes by expected delay", place={"policy": "topk_wait"}),
    _default("without_ahead", "no place ahead of a core that comes free", place={"settings": {"ahead_s": 0.0}}),
    _default("without_levels", "the central queue is a race of heartbeats", dispatch={"policy": "none"}),
    _default("without_front_places", "no place beyond the cores, nothing shrinks", preempt={"policy": "none"}),
    _default("without_front_gap", "a place beyond the cores for any job", place={"settings": {"front_gap": 0.0}}),
    _default("extra_2", "two places beyond the cores of a node", preempt={"settings": {"extra": 2}}),
    _default("without_by_job", "attained service by container", preempt={"settings": {"by_job": False}}),
    _default("without_shares", "no shares of queues and users", quota={"policy": "none"}),
    _mercury("quicksilver_only_g", "through quicksilver, all guaranteed", routes=[{"policy": "only_g"}]),
    _mercury("quicksilver_only_q", "through quicksilver, all queueable, shedding and reordering"),
    _mercury(
        "quicksilver_only_q_plain",
        "the same without shedding and reordering",
        shed={"policy": "none"},
        order={"policy": "fifo"},
    ),
    _mercury(
        "quicksilver_hybrid",
        "<10sec-70%-Q of Mercury, shedding and reordering, 3 s of grace for queueable tasks",
        routes=_HYBRID,
        preempt=_PATIENT,
    ),
    _mercury(
        "quicksilver_hybrid_plain",
        "the same without shedding and reordering",
        routes=_HYBRID,
        preempt=_PATIENT,
        shed={"policy": "none"},
        order={"policy": "fifo"},
    ),
    _mercury(
        "quicksilver_srpt",
        "quicksilver_only_q in the order of shortest remaining work, without shedding",
        order={"policy": "srpt"},
        shed={"policy": "none"},
    ),
    _mercury(
        "quicksilver_late",
        "all queueable, bound late: placed by variance with no place beyond the slots, without shedding",
        place={"policy": "variance"},
        shed={"policy": "none"},
    ),
    _mercury(
        "quicksilver_las",
        "all queueable, least attained service (Kairos), placed by variance; memory for as many as there are slots",
        _EXTRA,
        place={"policy": "variance"},
        preempt={"policy": "las", "settings": {"quantum_s": 1.0, "extra": _EXTRA}},
    ),
)
BY_NAME: Final = {competitor.name: competitor for competitor in ALL}
OWN_OPPORTUNISTIC: Final = tuple(competitor.name for competitor in ALL if competitor.kind == "opportunistic")
"""Of these the goals take the best by tasks per second, chosen after the first round."""


def sections_of(names: Iterable[str]) -> dict[str, Section]:
    """Return the section `policies` of quicksilver.yaml of those competitors that run quicksilver."""
    return {name: competitor.policies for name in names if (competitor := BY_NAME[name]).policies is not None}
