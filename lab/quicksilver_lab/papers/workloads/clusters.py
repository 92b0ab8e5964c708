"""Yahoo-, Cloudera- and Facebook-like jobs, drawn from published k-means clusters as Hawk, Eagle and Kairos did.

Hawk, §4.1 (thesis §2.4.1): the first cluster are short jobs, all others long; a cluster's centroids, as the scales of
exponential distributions, give each job its number of tasks and their mean duration; tasks are normal around that mean,
without what is negative. Mappers alone count. Of each cluster the tables of Chen et al. (MASCOTS 2011 for Yahoo, VLDB
2012 for Cloudera-c and Facebook 2010) name the jobs, the duration of a job and the seconds of its maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, expm1, sqrt
from random import Random
from typing import Final, Literal

from quicksilver_lab.papers.workloads.draws import tasks_of

Shape = tuple[str, tuple[float, ...]]
"""What one job is called, and how long its tasks run."""
Law = Literal["variance", "deviation"]


@dataclass(frozen=True, slots=True)
class TraceCluster:
    """A row of the tables."""

    jobs: int
    duration_s: float
    """Of a job."""
    maps_s: float
    """Seconds of all its maps together."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """One workload of clusters."""

    clusters: tuple[TraceCluster, ...]
    """The first one are short jobs."""
    ratio: float
    """A task's mean duration by its job's duration. Hawk took it from another paper and prints no number; with these,
    as many jobs have a mean above the cut-off of Eagle's public traces as Table 2.1 has long ones, but for 0.2 %."""
    law: Law = "variance"
    """What of a job's task durations is twice their mean. The thesis says their standard deviation, the public traces
    have it as the variance."""

    @property
    def total(self) -> int:
        """Jobs of all clusters."""
        return sum(cluster.jobs for cluster in self.clusters)

    def centroid(self, cluster: TraceCluster) -> tuple[float, float]:
        """Return a cluster's number of tasks and their duration in seconds."""
        task_s = self.ratio * cluster.duration_s
        return max(1.0, cluster.maps_s / task_s), task_s

    @property
    def mean_work_s(self) -> float:
        """Task-seconds of a job on average, but for what is added by leaving out negative durations."""
        work_s = 0.0
        for cluster in self.clusters:
            tasks, task_s = self.centroid(cluster)
            work_s += cluster.jobs * _mean_count(tasks) * task_s
        return work_s / self.total

    def shapes(self, rng: Random) -> Iterator[Shape]:
        """Yield jobs without end."""
        weights = [cluster.jobs for cluster in self.clusters]
        centroids = [self.centroid(cluster) for cluster in self.clusters]
        places = range(len(centroids))
        while True:
            (place,) = rng.choices(places, weights)
            tasks, task_s = centroids[place]
            count = max(1, ceil(rng.expovariate(1 / tasks))) if tasks > 1 else 1
            mean_s = rng.expovariate(1 / task_s)
            deviation_s = sqrt(2 * mean_s) if self.law == "variance" else 2 * mean_s
            yield f"cluster {place + 1}", tuple(tasks_of(rng, count, mean_s, deviation_s))


def _mean_count(tasks: float) -> float:
    """Return the mean of an exponential distribution's values, rounded up."""
    return 1.0 if tasks <= 1 else -1 / expm1(-1 / tasks)


def _clusters(*rows: tuple[int, float, float]) -> tuple[TraceCluster, ...]:
    return tuple(TraceCluster(*row) for row in rows)


YAHOO: Final = Clustered(
    _clusters(
        (21981, 60, 412),
        (838, 2100, 270_376),
        (91, 2400, 983_998),
        (7, 9300, 257_567),
        (35, 13500, 4_481_926),
        (5, 30900, 33_606_055),
        (1303, 3600, 15_021),
        (2, 16800, 7_729_409),
    ),
    ratio=0.3117,
)
CLOUDERA: Final = Clustered(
    _clusters(
        (19975, 240, 10_933),
        (477, 2820, 1_927_432),
        (246, 15240, 569_391),
        (197, 3180, 1_895_403),
        (105, 7860, 14_865_972),
        (23, 61200, 9_779_062),
        (7, 18900, 66_839_710),
    ),
    ratio=0.2563,
)
FACEBOOK: Final = Clustered(
    _clusters(
        (1_145_663, 60, 48),
        (7911, 28800, 60_664),
        (779, 2700, 3_081_710),
        (670, 4800, 9_457_592),
        (104, 259_200, 198_436),
        (11491, 1800, 1_112_765),
        (1876, 7200, 1_618_792),
        (454, 3600, 1_795_682),
        (169, 7620, 2_862_726),
        (67, 64800, 1_545_220),
    ),
    ratio=0.2085,
)
