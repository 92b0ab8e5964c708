"""Presets: whole sets of policies that go together, over which single settings lie (`policies: {preset: NAME}`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

PresetName = Literal[
    "default", "mixed", "mercury", "kairos", "hawk", "eagle", "apollo", "zoe", "opportunistic", "stock"
]
DEFAULT: Final = "default"
"""The preset of a settings file whose section `policies:` is empty or missing."""
_CHOICES: Final = ("settings", "policy")
_LATE: Final = {"policy": "late", "settings": {"ahead_s": 1.5}}
_BY_JOB: Final = {"extra": 1, "quantum_s": 10, "by_job": True}
_CLASSES: Final = {"classify": {"policy": "task_time"}, "partition": {"policy": "short_only"}}
_ALL_Q: Final = {"policy": "only_q"}
_MEASURED: Final = ({"type": "MAPREDUCE"}, {"type": "YARN", "name": "DistributedShell*"})
"""Applications that were measured as queueable ones; all others stay guaranteed. YARN is also the type of applications
that name none, services among them: of those only the distributed shell counts."""
_NONE: Final = {"policy": "none"}


@dataclass(frozen=True, slots=True)
class Preset:
    """A set of policies with what an admin has to know before choosing it."""

    doc: str
    good_for: str
    bad_for: str
    section: Mapping[str, Any]
    """As in the section `policies:`; what it does not name is as the slots have it without any setting."""


PRESETS: Final[Mapping[PresetName, Preset]] = {
    "default": Preset(
        doc="Queueable containers wait at the proxy and go to a node that starts them at once; short work goes first.",
        good_for="mixes of short and long jobs without tuning or estimates; clusters of several YARN queues and users",
        bad_for="MapReduce jobs whose tasks cannot do with less CPU for a while: route them only_g",
        section={
            "queues": "*",
            "routes": [{"match": match, **_ALL_Q} for match in _MEASURED],
            "dispatch": {"policy": "levels"},
            "place": _LATE,
            "order": {"policy": "srpt"},
            "preempt": {"policy": "las", "settings": _BY_JOB},
            "headroom": {"policy": "by_framework"},
            "quota": {"policy": "queue_share", "settings": {"user_ratio": 1}},
            "shed": _NONE,
            "steal": _NONE,
            "correct": _NONE,
            "police": _NONE,
            "promote": _NONE,
        },
    ),
    "mixed": Preset(
        doc="Tasks known to be long stay guaranteed, others are queueable and shrink for them while memory allows it.",
        good_for="long tasks that must keep YARN's guarantees beside short ones, on nodes whose NodeManager has memory"
        " beyond the sidecar's",
        bad_for="nodes without such memory: there a guaranteed container kills queueable ones, as under mercury",
        section={
            "queues": "*",
            "routes": [{"match": match, "policy": "hybrid_gq"} for match in _MEASURED],
            "dispatch": {"policy": "levels"},
            "place": _LATE,
            "order": {"policy": "srpt"},
            "preempt": {"policy": "las", "settings": {**_BY_JOB, "overcommit": "measured"}},
            "headroom": {"policy": "by_framework"},
            "quota": {"policy": "queue_share", "settings": {"user_ratio": 1}},
        },
    ),
    "mercury": Preset(
        doc="Mercury (ATC '15, §4): tasks queue at nodes by expected delay, the earlier job first, up to a limit.",
        good_for="many short tasks of known durations, on nodes that must never wait for a heartbeat",
        bad_for="unknown or uneven durations: tasks bound early wait behind long ones; no quota limits a YARN queue",
        section={
            "queues": "*",
            "routes": [_ALL_Q],
            "place": {"policy": "topk_wait"},
            "order": {"policy": "job_submission"},
            "shed": {"policy": "mean_sigma"},
            "quota": _NONE,
            "preempt": {"policy": "kill_newest"},
        },
    ),
    "kairos": Preset(
        doc="Kairos on its test bed (thesis §4.5.2): least attained service, up to four shrunk containers a node.",
        good_for="heavy tails of unknown durations, on nodes with memory for four more containers",
        bad_for="wide jobs, whose tasks stand still while others run; nodes without a resizer; there is no quota",
        section={
            "queues": "*",
            "routes": [_ALL_Q],
            "dispatch": {"policy": "las"},
            "place": {"policy": "variance"},
            "order": {"policy": "fifo"},
            "shed": _NONE,
            "quota": _NONE,
            "preempt": {"policy": "las", "settings": {"quantum_s": 50, "extra": 4, "starve_quanta": 3}},
        },
    ),
    "hawk": Preset(
        doc="Hawk (ATC '15; thesis §2.3): long jobs where they wait least, short ones by probes, idle nodes steal.",
        good_for="few long jobs that bring most of the work beside many short ones, of known durations",
        bad_for="nodes that nobody probed stay idle until they steal; unknown durations; there is no quota",
        section={
            "queues": "*",
            "routes": [_ALL_Q],
            **_CLASSES,
            "probe": {"policy": "batch"},
            "place": _LATE,
            "order": {"policy": "fifo"},
            "steal": {"policy": "hawk", "settings": {"idle_s": 0.0}},
            "shed": _NONE,
            "quota": _NONE,
            "preempt": {"policy": "kill_newest"},
        },
    ),
    "eagle": Preset(
        doc="Eagle (SoCC '16; thesis §3): as hawk, but no short task waits behind long ones; least work first.",
        good_for="few long jobs that bring most of the work beside many short ones, of known durations",
        bad_for="unknown durations; there is no quota",
        section={
            "queues": "*",
            "routes": [_ALL_Q],
            **_CLASSES,
            "probe": {"policy": "succinct"},
            "place": _LATE,
            "order": {"policy": "srpt"},
            "steal": {"policy": "hawk", "settings": {"idle_s": 0.0, "behind_long": False}},
            "shed": _NONE,
            "quota": _NONE,
            "preempt": {"policy": "kill_newest"},
        },
    ),
    "apollo": Preset(
        doc="Apollo (OSDI '14, §3): tasks queue where they should end first, and move when that was wrong.",
        good_for="nodes of different speed, tasks of different sizes and known durations",
        bad_for="unknown or uneven durations: tasks bound early wait behind long ones; there is no quota",
        section={
            "queues": "*",
            "routes": [_ALL_Q],
            "place": {"policy": "completion_time"},
            "match": {"policy": "stable"},
            "order": {"policy": "fifo"},
            "fill": {"policy": "backfill"},
            "correct": {"policy": "apollo"},
            "straggler_ratio": 2,
            "shed": _NONE,
            "quota": _NONE,
            "preempt": {"policy": "kill_newest"},
        },
    ),
    "zoe": Preset(
        doc="Zoe (§3): applications are admitted whole; core containers are guaranteed, elastic ones fill the rest.",
        good_for="applications that need several containers to begin: Spark, Flink, notebooks, distributed training",
        bad_for="many small jobs that could share the cluster: those that are not admitted wait; there is no quota",
        section={
            "queues": "*",
            "routes": [_ALL_Q],
            "admit": {"policy": "flexible"},
            "place": {"policy": "late"},
            "order": {"policy": "fifo"},
            "shed": _NONE,
            "quota": _NONE,
            "preempt": {"policy": "las", "settings": {"extra": 0, "quantum_s": 10, "by_type": {}}},
            "retries_to_g": 1000,
        },
    ),
    "opportunistic": Preset(
        doc="Hadoop 3's own opportunistic containers: one of the ten shortest queues, first come first served.",
        good_for="comparing with what stock YARN does when all containers are opportunistic",
        bad_for="mixes of short and long tasks; clusters with guaranteed work, for which it kills the newest",
        section={
            "queues": "*",
            "routes": [_ALL_Q],
            "place": {"policy": "least_queue", "settings": {"k": 10}},
            "order": {"policy": "fifo"},
            "shed": {"policy": "queue_length", "settings": {"max_sheds": 1000, "settle_s": 0}},
            "quota": _NONE,
            "preempt": {"policy": "kill_newest"},
            "retries_to_g": 1000,
        },
    ),
    "stock": Preset(
        doc="Everything stays guaranteed: the ResourceManager schedules as without quicksilver.",
        good_for="the first days after the installation, and a quick roll-back; nothing is held or killed",
        bad_for="getting any gain",
        section={"queues": []},
    ),
}
"""By name; those after a paper or Hadoop have the settings of their source, but for the central queue of `kairos` (it
gives places by least attained service, and Algorithm 3 of the thesis in the order of arrival) and the idle nodes of
`eagle`, which take over reservations (probes) from any queue: those that were made while long tasks held every node
wait at the few nodes that are kept."""
NAMES: Final[tuple[str, ...]] = get_args(PresetName)


def laid_over(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `policies:` section with its preset's settings where it has none of its own; as it is without a preset.

    A slot that names another policy replaces the preset's; with the same policy, or with settings alone, the settings
    are merged one by one. Lists, such as routes, are replaced as a whole. An unknown preset has no settings.
    """
    preset = next((known for name, known in PRESETS.items() if name == raw.get("preset")), None)
    if preset is None:
        return dict(raw)
    merged = dict(preset.section)
    for key, own in raw.items():
        merged[key] = _merged(merged.get(key), own)
    return merged


def _merged(below: object, own: object) -> object:
    """Return one choice over a preset's, or the own value where either is no choice."""
    if not (
        isinstance(below, Mapping) and "policy" in below and isinstance(own, Mapping) and set(own) <= set(_CHOICES)
    ):
        return own
    if not own or own.get("policy", below["policy"]) != below["policy"]:
        return own
    settings = own.get("settings", {})
    if not isinstance(settings, Mapping):
        return {**below, **own}
    return {**below, "settings": {**below.get("settings", {}), **settings}}
