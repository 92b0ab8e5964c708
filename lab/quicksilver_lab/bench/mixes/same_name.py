"""Jobs of one name whose tasks take seconds or more than a minute, so that the estimate by name is wrong by far.

Small jobs come first and teach the name. Then a long job of the same name fills the cluster, another user's job comes
in a second queue, and small jobs follow while both run. Guaranteed containers in the place of two application masters
take the cores of the first node, the last of them when the long job already has containers there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from quicksilver_lab.bench.emulator.model import MAP, REDUCE, JobSpec, TaskSpec
from quicksilver_lab.bench.emulator.nodes.nodes import host_of

NAME: Final = "pi"
MASTERS: Final = "masters"
"""Queue and class of the containers in the place of masters."""
QUEUES: Final[Mapping[str, int]] = {"default": 45, "batch": 45, MASTERS: 10}
LATER: Final = 10
"""Small jobs that come while the long one runs."""
_LONG_AT_S: Final = 20.0
_BATCH_AT_S: Final = _LONG_AT_S + 8.0
_SHORT_AT_S: Final = _LONG_AT_S + 18.0
_SHORT_EVERY_S: Final = 14.0
_EARLY_S: Final = (0.0, 7.0)
_SHORT_S: Final = (2.0, 3.0)
_LONG_S: Final = (66.0, 73.0)
_BATCH_S: Final = (32.0, 36.0)
_REDUCE_S: Final = 1.0
_SHORT_MAPS: Final = 3
_LONG_WAVES: Final = 14 / 6
_BATCH_WAVES: Final = 8 / 6
"""Maps for each slot of the cluster: 14 and 8 on three nodes of two cores."""
_MASTER_S: Final = 120.0
_MASTER_BEFORE_S: Final = 2.0
"""A master is there before its job asks."""
_PHASE_S: Final = 1.0
"""A seed moves each arrival by up to so much: the phase of heartbeats."""


def jobs(slots: int, cores: int, seed: int, later: int = LATER) -> list[JobSpec]:
    """Return the jobs of a seed by arrival, for a cluster of so many slots, `cores` on each node.

    later: how many small jobs follow the long one.
    """
    rng = Random(f"same name {seed}")

    def job(klass: str, at_s: float, maps: int, between_s: tuple[float, float], queue: str = "default") -> JobSpec:
        tasks = (*(TaskSpec(rng.uniform(*between_s), MAP) for _ in range(maps)), TaskSpec(_REDUCE_S, REDUCE))
        return JobSpec(0, at_s + rng.uniform(0.0, _PHASE_S), klass, tasks, queue, queue, name=NAME)

    specs = [job("early", at_s, _SHORT_MAPS, _SHORT_S) for at_s in _EARLY_S]
    specs.append(job("long", _LONG_AT_S, round(slots * _LONG_WAVES), _LONG_S))
    specs.append(job("batch", _BATCH_AT_S, round(slots * _BATCH_WAVES), _BATCH_S, "batch"))
    specs += [job("short", _SHORT_AT_S + n * _SHORT_EVERY_S, _SHORT_MAPS, _SHORT_S) for n in range(later)]
    master = TaskSpec(_MASTER_S, hosts=(host_of(0),))
    specs += [
        JobSpec(0, at_s - _MASTER_BEFORE_S, MASTERS, (master,) * count, MASTERS, MASTERS)
        for at_s, count in ((_LONG_AT_S, 1), (_BATCH_AT_S, cores - 1))
        if count
    ]
    specs.sort(key=lambda spec: spec.arrives_s)
    return [replace(spec, number=number) for number, spec in enumerate(specs, start=1)]
