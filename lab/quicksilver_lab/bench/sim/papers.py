"""Experiments of Hawk, Eagle and Kairos (one thesis: chapters 2, 3 and 4): what runs, on which jobs, beside what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from quicksilver.simulator.systems import load
from quicksilver.simulator.traces.generators import generator

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PaperWorkload:
    """Jobs of one kind, and what the papers set for them."""

    name: str
    """Of a generator, which knows the cut-off and the share of nodes kept for short jobs (§2.4.1)."""
    heartbeat_s: float
    """DLWL's reports (§3.6.2); Facebook's is not given."""
    quantum_s: float = 100.0
    """Kairos' W (§4.6.2)."""
    jobs: int | None = None
    """The first ones; None: as many as the paper has."""
    most_tasks: int | None = None
    """Jobs of more are left out."""
    node_slots: int = 1
    """Tasks that a node runs at once."""
    slots: float | None = None
    """How many the work keeps busy: arrivals come so much faster; None: as they are drawn."""

    @property
    def cutoff_s(self) -> float:
        """A job is long when its tasks are estimated to take longer, s."""
        cutoff_s = generator(self.name).cutoff_s
        assert cutoff_s is not None
        return cutoff_s

    def settings_of(self, system: str, extra: Settings) -> dict[str, Any]:
        """Return a system's settings for these jobs: those that it has, and `extra`."""
        own = {
            "cutoff_s": self.cutoff_s,
            "short_partition_ratio": generator(self.name).short_share or 0.0,
            "heartbeat_s": self.heartbeat_s,
            "quantum_s": self.quantum_s,
        }
        fields = load(system).Settings.model_fields
        return {name: value for name, value in own.items() if name in fields} | dict(extra)


@dataclass(frozen=True, slots=True)
class PaperVariant:
    """A system with settings other than the workload's."""

    system: str
    extra: Settings = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class PaperPart:
    """One experiment."""

    about: str
    workload: PaperWorkload
    variants: Mapping[str, PaperVariant]
    pairs: tuple[tuple[str, str], ...]
    """Labels of two variants: the first is divided by the second."""
    sizes: tuple[float, ...]
    """Above 3: numbers of nodes; else offered loads, for which the nodes are as many as each trace needs."""
    seeds: int = 1


YAHOO: Final = PaperWorkload("yahoo", 7.0)
GOOGLE: Final = PaperWorkload("google", 3.0, quantum_s=10_000.0, jobs=50_000)
CLOUDERA: Final = PaperWorkload("cloudera", 12.0, jobs=5_000)
FACEBOOK: Final = PaperWorkload("facebook", 7.0, jobs=50_000)
NO_GIANTS: Final = PaperWorkload("yahoo", 7.0, most_tasks=500, slots=3600.0)
TESTBED: Final = PaperWorkload("kairos_testbed", 3.0, quantum_s=50.0, node_slots=4)
EXAMPLE: Final = PaperWorkload("hawk_example", 7.0)
LOADS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
GOOGLE_NODES: Final = (15_000, 17_000, 19_000, 21_000, 23_000)
HAWK_NODES: Final = (10_000, 15_000, 20_000, 25_000, 40_000)
CONTACTS: Final = (1, 2, 5, 10, 15, 25, 50, 100, 250)
CUTOFFS: Final = (750.0, 1000.0, 1129.532, 1300.0, 1500.0, 2000.0)
RANGES: Final = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""By how much Hawk's estimates are wrong at most, either way (§2.4.8 names 0.9)."""
_NEVER: Final = 1_000_000
"""Quanta without running that no task comes to."""
LOW: Final = tuple((low, 1.0) for low in (0.9, 0.6, 0.3))
HIGH: Final = tuple((1.0, high) for high in (1.3, 1.6, 1.9))
"""Of Eagle's: x in 3, 6, 9 of [0.x, 1] and [1, 1.x] (§3.6.5)."""


def _plain(*systems: str) -> dict[str, PaperVariant]:
    return {name: PaperVariant(name) for name in systems}


def _against(base: str, variants: Mapping[str, PaperVariant], *, turned: bool = False) -> tuple[tuple[str, str], ...]:
    """Return each variant beside `base`; turned: `base` beside each."""
    others = [name for name in variants if name != base]
    return tuple((base, name) if turned else (name, base) for name in others)


def _all(about: str, workload: PaperWorkload, sizes: tuple[float, ...], seeds: int = 1) -> PaperPart:
    pairs = (("hawk", "sparrow"), ("eagle", "hawk"), ("eagle", "dlwl_srpt"))
    return PaperPart(about, workload, _plain("sparrow", "hawk", "eagle", "dlwl_srpt"), pairs, sizes, seeds)


def _breakdown(about: str, workload: PaperWorkload, sizes: tuple[float, ...], seeds: int = 1) -> PaperPart:
    variants = {
        "eagle": PaperVariant("eagle"),
        "without SSS": PaperVariant("eagle", {"sss": False}),
        "without least probes": PaperVariant("eagle", {"least_probes": 0}),
        "without SBP, SRPT": PaperVariant("eagle", {"sticky": False, "srpt": False}),
    }
    return PaperPart(about, workload, variants, _against("eagle", variants, turned=True), sizes, seeds)


def _wrong(system: str, low: float, high: float, **more: Any) -> PaperVariant:
    return PaperVariant(system, {"misestimate_low_ratio": low, "misestimate_high_ratio": high, **more})


def _misestimation() -> PaperPart:
    systems = ("eagle", "dlwl_srpt", "hawk")
    variants, pairs = _plain(*systems, "kairos_slots"), []
    for system in systems:
        for low, high in (*LOW, *HIGH):
            label = f"{system} {low:g} to {high:g}"
            variants[label] = _wrong(system, low, high)
            pairs.append((label, system))
    pairs += [("kairos_slots", "eagle")]
    return PaperPart("Eagle §3.6.5, Figure 3.8, for Yahoo-like jobs", YAHOO, variants, tuple(pairs), (0.7, 0.9), 3)


def _hawk_misestimation() -> PaperPart:
    variants = {"sparrow": PaperVariant("sparrow"), "hawk": PaperVariant("hawk")}
    for much in RANGES:
        label = f"hawk {1 - much:.1f} to {1 + much:.1f}"
        variants[label] = _wrong("hawk", 1 - much, 1 + much, misestimate_class=True)
    return PaperPart("Hawk §2.4.8, Figure 2.11", GOOGLE, variants, _against("sparrow", variants), (15_000,), 3)


def _cutoffs() -> PaperPart:
    pairs = tuple((f"hawk {cutoff_s:g} s", f"sparrow {cutoff_s:g} s") for cutoff_s in CUTOFFS)
    variants = {
        label: PaperVariant(label.split()[0], {"cutoff_s": cutoff_s})
        for pair, cutoff_s in zip(pairs, CUTOFFS, strict=True)
        for label in pair
    }
    return PaperPart("Hawk §2.4.7, Figure 2.10", GOOGLE, variants, pairs, (15_000,))


def _contacts() -> PaperPart:
    variants = {f"{cap}": PaperVariant("hawk", {"contacts": cap}) for cap in CONTACTS}
    return PaperPart("Hawk §2.4.9, Figure 2.12: contacts", GOOGLE, variants, _against("1", variants), (15_000,))


def _kairos(workload: PaperWorkload, sizes: tuple[float, ...], seeds: int, *extras: int) -> PaperPart:
    variants = {"eagle": PaperVariant("eagle")}
    variants |= {f"kairos, Q={extra}": PaperVariant("kairos_slots", {"extra": extra}) for extra in extras}
    about = "Kairos §4.6.3, Figures 4.8 and 4.9"
    return PaperPart(about, workload, variants, _against("eagle", variants), sizes, seeds)


def _kairos_google() -> PaperPart:
    variants = {"eagle": PaperVariant("eagle"), "kairos": PaperVariant("kairos_slots")}
    variants |= {
        f"kairos, W={quantum_s} s": PaperVariant("kairos_slots", {"quantum_s": quantum_s}) for quantum_s in (100, 1000)
    }
    about = "Kairos §4.6.3, Figure 4.8; and with a shorter W than its own"
    return PaperPart(about, GOOGLE, variants, _against("eagle", variants), GOOGLE_NODES)


def _kairos_settings() -> PaperPart:
    variants = {"default": PaperVariant("kairos_slots")}
    variants |= {f"Q={extra}": PaperVariant("kairos_slots", {"extra": extra}) for extra in (1, 4, 8, 20)}
    variants |= {
        f"W={quantum_s} s": PaperVariant("kairos_slots", {"quantum_s": quantum_s}) for quantum_s in (10, 50, 1000)
    }
    about = "Kairos §4.5.3 has W and Q on its test bed; here for Yahoo-like jobs"
    return PaperPart(about, YAHOO, variants, _against("default", variants), (0.7,), 3)


def _testbed() -> PaperPart:
    variants = {"Var, Q=4, W=50 s": PaperVariant("kairos_slots", {"extra": 4}), **_plain("yarn_fifo", "bigc")}
    variants |= {f"Q={extra}": PaperVariant("kairos_slots", {"extra": extra}) for extra in (2, 8)}
    variants |= {
        f"W={quantum_s} s": PaperVariant("kairos_slots", {"extra": 4, "quantum_s": quantum_s})
        for quantum_s in (10, 100)
    }
    variants |= {ties: PaperVariant("kairos_slots", {"extra": 4, "ties": ties}) for ties in ("sum", "random")}
    for label, extra in (("none starves", 4), ("none starves, Q=200", 200)):
        variants[label] = PaperVariant("kairos_slots", {"extra": extra, "starve_quanta": _NEVER})
    about = "Kairos §4.5.3, Figures 4.4, 4.6 and 4.7"
    return PaperPart(about, TESTBED, variants, _against("Var, Q=4, W=50 s", variants), (30,), 10)


def _hawk_parts() -> PaperPart:
    variants = {
        "hawk": PaperVariant("hawk"),
        "without central": PaperVariant("hawk", {"central": False}),
        "without partition": PaperVariant("hawk", {"short_partition_ratio": 0.0}),
        "without stealing": PaperVariant("hawk", {"contacts": 0}),
    }
    return PaperPart("Hawk §2.4.4, Figure 2.7", GOOGLE, variants, _against("hawk", variants), (15_000,))


def _beside(about: str, base: str, name: str, than: PaperVariant, sizes: tuple[float, ...], **extra: Any) -> PaperPart:
    system = base.split()[0]
    variants = {base: PaperVariant(system, extra), name: than}
    return PaperPart(about, GOOGLE, variants, ((base, name),), sizes)


def _heartbeats() -> PaperPart:
    variants = {f"{beat} s": PaperVariant("dlwl_srpt", {"heartbeat_s": beat}) for beat in (3, 5, 7)}
    variants["eagle"] = PaperVariant("eagle")
    pairs = (("5 s", "3 s"), ("7 s", "3 s"), ("eagle", "3 s"))
    return PaperPart("Eagle §3.6.2, Figure 3.4: DLWL+SRPT's heartbeat", GOOGLE, variants, pairs, (15_000,), 3)


PARTS: Final[Mapping[str, PaperPart]] = {
    "example": PaperPart(
        "Hawk §2.2.3",
        EXAMPLE,
        {"sparrow": PaperVariant("sparrow", {"distinct": True}), **_plain("hawk", "eagle")},
        (("hawk", "sparrow"), ("eagle", "hawk")),
        (15_000,),
        5,
    ),
    "yahoo": _all("Hawk Figure 2.6, Eagle Figures 3.2 and 3.3, by load", YAHOO, LOADS, 5),
    "yahoo-nodes": _all("the same, by nodes; Table 3.2", YAHOO, (4000, 6000, 8000), 5),
    "google": _all("Hawk Figure 2.5, Eagle Figures 3.2 and 3.3, Table 3.2", GOOGLE, GOOGLE_NODES),
    "google-hawk": PaperPart(
        "Hawk §2.4.2, Figure 2.5", GOOGLE, _plain("sparrow", "hawk"), (("hawk", "sparrow"),), HAWK_NODES
    ),
    "cloudera": _all("Hawk Figure 2.6, Eagle Figures 3.2 and 3.3, Table 3.2", CLOUDERA, (0.7, 0.9)),
    "facebook": PaperPart(
        "Hawk §2.4.3, Figure 2.6", FACEBOOK, _plain("sparrow", "hawk"), (("hawk", "sparrow"),), (0.7, 0.9)
    ),
    "hawk-parts": _hawk_parts(),
    "hawk-central": _beside(
        "Hawk §2.4.5, Figure 2.8",
        "hawk",
        "all central",
        PaperVariant("clwl", {"short_partition_ratio": 0.0}),
        (*HAWK_NODES, 50_000),
    ),
    "hawk-split": _beside(
        "Hawk §2.4.6, Figure 2.9", "hawk", "split", PaperVariant("hawk", {"split": True, "contacts": 0}), HAWK_NODES
    ),
    "hawk-cutoff": _cutoffs(),
    "hawk-misestimation": _hawk_misestimation(),
    "hawk-contacts": _contacts(),
    "eagle-parts-google": _breakdown("Eagle §3.6.3, Figure 3.5", GOOGLE, GOOGLE_NODES),
    "eagle-parts-yahoo": _breakdown("Eagle §3.6.3, Figure 3.6", YAHOO, (0.5, 0.7, 0.9), 3),
    "eagle-partition": _beside(
        "Eagle §3.6.3: 20 % kept for short jobs",
        "eagle of 0.2",
        "without SSS",
        PaperVariant("eagle", {"sss": False, "short_partition_ratio": 0.2}),
        (15_000,),
        short_partition_ratio=0.2,
    ),
    "eagle-omniscient": _beside(
        "Eagle §3.6.4, Figure 3.7",
        "eagle without SBP, SRPT",
        "clwl",
        PaperVariant("clwl"),
        GOOGLE_NODES,
        sticky=False,
        srpt=False,
    ),
    "eagle-heartbeat": _heartbeats(),
    "misestimation": _misestimation(),
    "kairos": _kairos(YAHOO, (0.5, 0.7, 0.8, 0.9), 5, 2, 20),
    "kairos-no-giants": PaperPart(
        "the same without jobs of more than 500 tasks; short ones are 7 % of the work left",
        NO_GIANTS,
        {**_plain("eagle", "kairos_slots"), "eagle of 0.1": PaperVariant("eagle", {"short_partition_ratio": 0.1})},
        (("kairos_slots", "eagle"), ("kairos_slots", "eagle of 0.1")),
        (4000,),
        2,
    ),
    "kairos-google": _kairos_google(),
    "kairos-testbed": _testbed(),
    "kairos-settings": _kairos_settings(),
}
"""By name."""
