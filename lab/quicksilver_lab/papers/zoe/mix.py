"""Zoe's mix of applications ("Flexible Scheduling of Distributed Analytic Applications", §4.1, Figure 2).

The paper draws from empirical distributions of Google's traces and prints them as curves alone. From its text: 80 %
batch, of which 80 % are elastic and 20 % rigid, and 20 % interactive; inter-arrival times have two modes, fast bursts
and long gaps, and 80,000 applications come in about three months; runtimes go from some dozen seconds to several weeks;
a component has some millicores to 6 cores, some MB to some dozen GB; batch applications have few to tens of components,
up to thousands, interactive ones are smaller, with up to hundreds of elastic ones; core components are those of
frameworks, elastic ones follow the tasks of Google's jobs. The lognormal shapes between these ends are our own, and so
is the load, see `ZoeMix.load`. Of equal seeds, `elastic_core`, `together`, `burst` and `load` change nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Final

from pydantic import Field

from policies.settings_model import SettingsModel
from quicksilver.simulator.model import ApplicationJob
from quicksilver_lab.papers.zoe.model import BATCH_ELASTIC, BATCH_RIGID, INTERACTIVE

CORES: Final = 3200
MEMORY_MB: Final = 100 * 128 * 1024
"""Of the paper's cluster: 100 machines with 32 cores and 128 GB each (§4.1)."""
_GAP_RATIO: Final = 5000.0
Drawn = tuple[float, float, int, int, float, int, str]
"""Gap (before scaling), runtime in s, core, elastic, cores and MB of each component, class."""


class ZoeMix(SettingsModel):
    """What the mix is made of."""

    applications: int = Field(80_000, ge=1)
    interactive_ratio: float = Field(0.2, ge=0, le=1)
    """Of all (§4.1); 0 where batch applications are compared alone (§4.2, §4.3)."""
    rigid_ratio: float = Field(0.2, ge=0, le=1)
    """Of batch applications (§4.1)."""
    elastic_core: int = Field(3, ge=0)
    """Core components of an elastic batch application, as Spark has them: client, master, a worker (§2.1, §4.1, §6).
    0: drawn as the components of rigid ones are."""
    together: int = Field(1, ge=1)
    """Applications that come at the same instant."""
    burst: float = Field(200.0, gt=1)
    """Applications that come in one burst, on average; the gaps between bursts are 5,000 times those within. Own."""
    memory_median_mb: float = Field(1536.0, ge=8, le=40 * 1024)
    """Of a component. Own: memory is then nearly as short as cores are."""
    largest_ratio: float = Field(0.5, gt=0, le=1)
    """No application asks for more of the paper's cluster. Own: with all of it for one, a rigid scheduler stands
    still."""
    runtime_sigma: float = Field(2.0, gt=0)
    """Deviation of the logarithm of batch applications' runtimes. Own."""
    load: float = Field(1.0, gt=0)
    """What all applications ask for, by what the paper's cluster has from the first to the last arrival: of cores or
    memory, whichever is more. Own; see lab/docs/reproduction.md."""


def applications(mix: ZoeMix, seed: int) -> Iterator[ApplicationJob]:
    """Yield the applications by arrival; equal seeds give equal ones. Times are whole milliseconds.

    They are drawn twice: the first time for how long it takes that the load is what it should be.
    """
    cores_s = mb_s = gaps = 0.0
    for gap, runtime_s, core, elastic, cores, memory_mb, _ in _draw(mix, Random(seed)):
        gaps += gap
        cores_s += runtime_s * (core + elastic) * cores
        mb_s += runtime_s * (core + elastic) * memory_mb
    scale_s = max(cores_s / CORES, mb_s / MEMORY_MB) / mix.load / gaps
    now_s = 0.0
    for number, (gap, runtime_s, core, elastic, cores, memory_mb, klass) in enumerate(_draw(mix, Random(seed)), 1):
        now_s += gap * scale_s
        yield ApplicationJob(
            number,
            round(now_s, 3),
            (runtime_s,) * (core + elastic),
            runtime_s,
            name=klass,
            cores=cores,
            memory_mb=memory_mb,
            core=core,
            klass=klass,
        )


def testbed(seed: int, load: float = 1.0) -> Iterator[ApplicationJob]:
    """Yield the 100 applications of the experiment on ten real servers (§6), 128 GB each; equal seeds give equal ones.

    Printed: 80 % elastic of two templates (3 core and 32 elastic components, 3 and 24; of 8 or 16 GB each), 20 % rigid
    (one component, or 15, of 16 GB each), gaps of 60 s with a deviation of 40 s; memory alone is partitioned. Not
    printed: how long they run. Here a lognormal deviation of 0.5, and runtimes such that memory is wanted at `load`.
    """
    rng, drawn, now_s = Random(seed), [], 0.0
    for number in range(1, 101):
        now_s += max(0.0, rng.gauss(60, 40))
        elastic = 0 if rng.random() < 0.2 else rng.choice((32, 24))
        core = 3 if elastic else rng.choice((1, 15))
        memory_mb = rng.choice((8, 16)) * 1024 if elastic else 16 * 1024
        drawn.append((number, now_s, core, elastic, memory_mb, rng.lognormvariate(0, 0.5)))
    wanted_mb_s = sum((core + elastic) * memory_mb * length for _, _, core, elastic, memory_mb, length in drawn)
    scale_s = load * now_s * 10 * 128 * 1024 / wanted_mb_s
    for number, at_s, core, elastic, memory_mb, length in drawn:
        runtime_s, klass = round(length * scale_s, 3), BATCH_ELASTIC if elastic else BATCH_RIGID
        yield ApplicationJob(
            number,
            round(at_s, 3),
            (runtime_s,) * (core + elastic),
            runtime_s,
            name=klass,
            cores=0.001,
            memory_mb=memory_mb,
            core=core,
            klass=klass,
        )


def _draw(mix: ZoeMix, rng: Random) -> Iterator[Drawn]:
    for number in range(mix.applications):
        gap = rng.expovariate(1.0) * (1.0 if rng.random() * mix.burst > 1 else _GAP_RATIO)
        cores = round(_between(rng, 0.5, 1.0, 0.05, 6.0), 3)
        memory_mb = round(_between(rng, mix.memory_median_mb, 1.2, 8, 40 * 1024))
        most = max(1, int(mix.largest_ratio * min(CORES / cores, MEMORY_MB / memory_mb)))
        if rng.random() < mix.interactive_ratio:
            klass, runtime_s = INTERACTIVE, _between(rng, 900, 1.5, 30, 86_400)
            core, elastic = rng.randint(1, 3), int(_between(rng, 4, 1.3, 0, 500))
        elif rng.random() < mix.rigid_ratio:
            klass, runtime_s = BATCH_RIGID, _between(rng, 1000, mix.runtime_sigma, 30, 1.8e6)
            core, elastic = int(_between(rng, 8, 1.2, 1, 1000)), 0
        else:
            klass, runtime_s = BATCH_ELASTIC, _between(rng, 1000, mix.runtime_sigma, 30, 1.8e6)
            core, elastic = int(_between(rng, 8, 1.2, 1, 1000)), int(_between(rng, 16, 1.4, 1, 5000))
            core = mix.elastic_core or core
        core = min(core, most)
        gap = 0.0 if number % mix.together else gap
        yield gap, round(runtime_s, 3), core, min(elastic, most - core), cores, memory_mb, klass


def _between(rng: Random, median: float, sigma: float, low: float, high: float) -> float:
    """Draw from a lognormal distribution, again until it lies in the range."""
    while True:
        drawn = rng.lognormvariate(math.log(median), sigma)
        if low <= drawn <= high:
            return drawn
