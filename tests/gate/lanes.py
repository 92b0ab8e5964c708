"""Which process of pytest-xdist runs which modules, and in which order: whoever shares a cluster runs in one process.

Two lanes, or as many as the step says, have all modules with clusters: so many clusters run at a time. The others,
longest first, go to the processes that are free. pytest-xdist has groups (`--dist loadgroup`), which do nothing under
pytest 9.2 (pytest-xdist 3.8, issue 1386).
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.paths import DATA

DURATIONS: Final = DATA / "durations.json"
CLUSTERS: Final = "QUICKSILVER_TEST_CLUSTERS"
"""Environment variable: lanes of modules with clusters, so clusters at a time, where that is not FEW."""
FEW: Final = 2
"""On two cores, a third makes all of them slow."""
DEFAULTS_S: Final = {"long": 120, "vm": 60, "hadoop": 60, "packages": 30, "docker": 20, "kerberos": 20, "browser": 10}
"""Of a module whose duration is not known, by its dearest marker; else a second."""
STEPS: Final = {"plain_cluster": 1, "hadoop_cluster": 2, "overlay_cluster": 3}
"""The cluster of the session is restarted once: tests that want it plain come first."""


@dataclass(frozen=True)
class Module:
    """What is known of a module before it runs; shared: what its tests share with those of other modules."""

    path: str
    markers: frozenset[str]
    shared: frozenset[str]
    duration_s: float

    @property
    def cluster(self) -> bool:
        return bool(self.markers & {"hadoop", "promise"})


@dataclass(frozen=True)
class Place:
    """Where a module runs: the unit of work, which one process runs, the group therein, and the number in the group."""

    unit: str
    group: int
    number: int


Group = tuple[Module, ...]


def groups(modules: Iterable[Module]) -> list[Group]:
    """Put modules together that share something, be it through others; longest groups first."""
    found: list[list[Module]] = []
    for module in modules:
        joined = [module]
        apart = []
        for group in found:
            if any(module.shared & other.shared for other in group):
                joined = group + joined
            else:
                apart.append(group)
        found = [*apart, joined]
    return sorted((tuple(sorted(group, key=lambda one: one.path)) for group in found), key=_rank)


def _rank(group: Group) -> tuple[float, str]:
    return -_duration_s(group), group[0].path


def _duration_s(group: Group) -> float:
    return sum(module.duration_s for module in group)


def places(modules: Iterable[Module], lanes: int = FEW) -> dict[str, Place]:
    """Return the place of each module, in the order in which they shall begin.

    Groups with a cluster are dealt to the lanes, longest first, each to the lane with the least so far.
    """
    dealt: list[list[Group]] = [[] for _ in range(lanes)]
    others = []
    for group in groups(modules):
        if any(module.cluster for module in group):
            min(dealt, key=lambda lane: sum(map(_duration_s, lane))).append(group)
        else:
            others.append(group)
    units = {f"lane {number}": lane for number, lane in enumerate(dealt)} | {group[0].path: [group] for group in others}
    ordered = [(unit, group) for unit, members in units.items() for group in members]
    return {
        module.path: Place(unit, number, place)
        for number, (unit, group) in enumerate(ordered)
        for place, module in enumerate(group)
    }


def known_durations() -> dict[str, float]:
    """Return the seconds of each module, as they were measured (`scripts/test --save-durations`)."""
    return dict(json.loads(DURATIONS.read_text())) if DURATIONS.exists() else {}


def module_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def shared_by(item: pytest.Item) -> frozenset[str]:
    """Return what a test shares with others: what fixtures of the session start for those with clusters or Docker.

    Who looks at all control groups shares them.
    """
    own = {mark.name for mark in item.iter_markers()}
    clusters = bool(own & {"hadoop", "promise"})
    fixtures = session_fixtures(item) if clusters or "docker" in own else frozenset()
    return fixtures | ({"cgroup"} if "cgroup" in own and not clusters else frozenset())


def modules_of(
    items: Iterable[pytest.Item], durations_s: Mapping[str, float]
) -> tuple[list[Module], dict[pytest.Item, str]]:
    """Return the modules of collected tests, and the one of each test.

    A module whose tests share different things counts as several, each with its part of the duration.
    """
    name_of: dict[pytest.Item, str] = {}
    sharing: dict[str, frozenset[str]] = {}
    markers: dict[str, set[str]] = defaultdict(set)
    for item in items:
        shared = shared_by(item)
        name = name_of[item] = " ".join([module_of(item.nodeid), *sorted(shared)])
        sharing[name] = shared
        markers[name] |= {mark.name for mark in item.iter_markers()}
    tests, of_module = Counter(name_of.values()), Counter(module_of(item.nodeid) for item in name_of)
    made = []
    for name, shared in sharing.items():
        path = name.partition(" ")[0]
        whole_s = durations_s.get(path)
        part_s = default_s(markers[name]) if whole_s is None else whole_s * tests[name] / of_module[path]
        made.append(Module(name, frozenset(markers[name]), shared, part_s))
    return made, name_of


def default_s(markers: Iterable[str]) -> float:
    return max((DEFAULTS_S.get(name, 1) for name in markers), default=1)


def session_fixtures(item: pytest.Item) -> frozenset[str]:
    """Return the fixtures of a test that live as long as the session, without those of pytest and its plugins."""
    info = getattr(item, "_fixtureinfo", None)
    definitions = info.name2fixturedefs.items() if info else ()
    return frozenset(
        name
        for name, made in definitions
        if made[-1].scope == "session" and not made[-1].func.__module__.startswith(("_pytest.", "xdist.", "anyio."))
    )


def arrange(items: list[pytest.Item]) -> dict[str, Place]:
    """Sort collected tests by unit of work and group; returns the place of each, by its nodeid."""
    modules, name_of = modules_of(items, known_durations())
    by_name = places(modules, int(os.environ.get(CLUSTERS, FEW)))
    found = {item.nodeid: by_name[name] for item, name in name_of.items()}

    def rank(item: pytest.Item) -> tuple[int, int, int]:
        place = found[item.nodeid]
        step = max((STEPS.get(name, 0) for name in getattr(item, "fixturenames", ())), default=0)
        return place.group, step, place.number

    items.sort(key=rank)
    return found


class Scheduler(LoadScopeScheduling):
    """Gives each process a unit of work at a time."""

    units: Mapping[str, str] = {}
    file: Path

    def schedule(self) -> None:
        self.units = json.loads(self.file.read_text())  # each process has collected, and written the same
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self.units[nodeid]
