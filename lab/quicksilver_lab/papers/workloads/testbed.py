"""The jobs of Kairos' test bed: WordCount in five sizes (thesis §4.5.2, Table 4.1).

A job is maps and then reduces. Of their durations the table has only how long a job takes alone on 120 cores: each wave
of tasks is taken to last equally long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import Final

CORES: Final = 120
"""30 nodes of 4."""


@dataclass(frozen=True, slots=True)
class Category:
    """A row of the table."""

    name: str
    maps: int
    reduces: int
    alone_s: float
    """How long a job takes that has the cluster to itself."""
    share: float
    """Of the jobs."""

    @property
    def durations_s(self) -> tuple[float, ...]:
        """How long the tasks run."""
        waves = ceil(self.maps / CORES) + ceil(self.reduces / CORES)
        return (round(self.alone_s / waves, 3),) * (self.maps + self.reduces)


HEAVY_TAILED: Final = (
    Category("1", 15, 15, 85, 0.32),
    Category("2", 15, 15, 201, 0.31),
    Category("3", 30, 30, 239, 0.31),
    Category("4", 112, 60, 308, 0.04),
    Category("5", 224, 60, 1175, 0.02),
)
UNIFORM: Final = (
    Category("1", 15, 15, 85, 0.35),
    Category("2", 15, 15, 201, 0.35),
    Category("3", 30, 30, 239, 0.3),
)
"""§4.5.3: nothing that least attained service would gain from."""


def stages(categories: tuple[Category, ...]) -> dict[str, tuple[int, ...]]:
    """Return maps and reduces of each category, by name."""
    return {category.name: (category.maps, category.reduces) for category in categories}


def mean_work_s(categories: tuple[Category, ...]) -> float:
    """Return task-seconds of a job on average."""
    return sum(category.share * sum(category.durations_s) for category in categories)


def shapes(categories: tuple[Category, ...], rng: Random) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield jobs without end."""
    shares = [category.share for category in categories]
    while True:
        (category,) = rng.choices(categories, shares)
        yield category.name, category.durations_s


def exact_shapes(categories: tuple[Category, ...], rng: Random) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield jobs without end, of which each hundred has as many of each category as the shares say, in random order."""
    hundred = [category for category in categories for _ in range(round(100 * category.share))]
    while True:
        rng.shuffle(hundred)
        yield from ((category.name, category.durations_s) for category in hundred)
