"""The papers' workloads as generators: `quicksilver trace generators` lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Final

from quicksilver.simulator.traces.generators import Generator
from quicksilver_lab.papers.workloads import testbed
from quicksilver_lab.papers.workloads.clusters import CLOUDERA, FACEBOOK, YAHOO, Shape
from quicksilver_lab.papers.workloads.google import CUTOFF_S, Google
from quicksilver_lab.papers.workloads.mercury import SLOTS, TASKS, WORKLOADS, Workload, kinds

BUSY: Final = 0.9
"""Share of Mercury's slots that its open arrivals keep busy."""
_BLOCK: Final = 20


def _of_means(
    shapes: Callable[[Random], Iterator[Shape]],
) -> Callable[[Random], Iterator[tuple[str, tuple[float, ...], None]]]:
    return lambda rng: ((name, durations_s, None) for name, durations_s in shapes(rng))


def _example(rng: Random) -> Iterator[Shape]:
    """Of every 20 jobs one is long."""
    short, long = (100.0,) * 100, (20_000.0,) * 1000
    while True:
        place = rng.randrange(_BLOCK)
        for at in range(_BLOCK):
            yield ("long", long) if at == place else ("short", short)


def _mercury(workload: Workload) -> Generator:
    def shapes(rng: Random) -> Iterator[tuple[str, tuple[float, ...], float | None]]:
        for kind in kinds(workload, rng):
            draw = kind.draw
            durations_s = tuple(
                round(draw(rng) * (workload.straggler_times if rng.random() < workload.straggler_share else 1.0), 3)
                for _ in range(TASKS)
            )
            told_s = kind.mean_s * rng.uniform(1 - workload.error, 1 + workload.error) if workload.hints else None
            yield kind.name, durations_s, told_s

    work_s = TASKS * workload.mean_s
    about = "Mercury §7: 200 tasks a job, here as open arrivals for 8,192 slots that are 90 % busy"
    return Generator(f"mercury_{workload.name}", about, 1000, work_s / (SLOTS * BUSY), work_s, shapes)


_PAPERS: Final = (
    Generator(
        "hawk_example",
        "Hawk §2.2 (thesis §2.2.3): 95 % of 100 tasks x 100 s, 5 % of 1,000 tasks x 20,000 s; for 15,000 nodes",
        1000,
        50.0,
        0.95 * 100 * 100 + 0.05 * 1000 * 20_000,
        _of_means(_example),
        cutoff_s=10_000.0,
    ),
    Generator(
        "yahoo",
        "Yahoo-like, k-means clusters (Hawk §4.1); for 4,000 to 8,000 nodes",
        YAHOO.total,
        10.0,
        YAHOO.mean_work_s,
        _of_means(YAHOO.shapes),
        90.5811,
        0.02,
    ),
    Generator(
        "cloudera",
        "Cloudera-c-like, k-means clusters (Hawk §4.1); for 15,000 nodes",
        CLOUDERA.total,
        15.0,
        CLOUDERA.mean_work_s,
        _of_means(CLOUDERA.shapes),
        272.783,
        0.09,
    ),
    Generator(
        "facebook",
        "Facebook-2010-like, k-means clusters (Hawk §4.1); for 170,000 nodes",
        FACEBOOK.total,
        0.15,
        FACEBOOK.mean_work_s,
        _of_means(FACEBOOK.shapes),
        76.5951,
        0.02,
    ),
    Generator(
        "google",
        "Google-like: Table 2.1's shares, all else assumed; for 15,000 to 23,000 nodes",
        506_460,
        1.0,
        Google().mean_work_s,
        _of_means(Google().shapes),
        CUTOFF_S,
        0.17,
    ),
    Generator(
        "kairos_testbed",
        "Kairos' WordCounts (thesis Table 4.1), maps and then reduces; for 30 nodes of 4 slots",
        100,
        60.0,
        testbed.mean_work_s(testbed.HEAVY_TAILED),
        _of_means(partial(testbed.shapes, testbed.HEAVY_TAILED)),
        130.0,
        stages=testbed.stages(testbed.HEAVY_TAILED),
    ),
    Generator(
        "kairos_uniform",
        "the first three categories of them alone (thesis §4.5.3); for 30 nodes of 4 slots",
        100,
        30.0,
        testbed.mean_work_s(testbed.UNIFORM),
        _of_means(partial(testbed.shapes, testbed.UNIFORM)),
        110.0,
        stages=testbed.stages(testbed.UNIFORM),
    ),
    Generator(
        "kairos_table",
        "as kairos_testbed, with exactly the shares of Table 4.1 in each hundred jobs",
        100,
        60.0,
        testbed.mean_work_s(testbed.HEAVY_TAILED),
        _of_means(partial(testbed.exact_shapes, testbed.HEAVY_TAILED)),
        130.0,
        stages=testbed.stages(testbed.HEAVY_TAILED),
    ),
    Generator(
        "kairos_uniform_table",
        "as kairos_uniform, with exactly the shares of thesis §4.5.3 in each hundred jobs",
        100,
        30.0,
        testbed.mean_work_s(testbed.UNIFORM),
        _of_means(partial(testbed.exact_shapes, testbed.UNIFORM)),
        110.0,
        stages=testbed.stages(testbed.UNIFORM),
    ),
)
GENERATORS: Final[dict[str, Generator]] = {
    each.name: each for each in (*_PAPERS, *(_mercury(workload) for workload in WORKLOADS.values()))
}
