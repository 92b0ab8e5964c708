"""Distributions of completion time and slowdown, as in Kairos' Figures 4.4 and 4.5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from quicksilver_lab.bench import sizes
from quicksilver_lab.bench.emulator.model import JobRecord, JobSpec
from quicksilver_lab.bench.mixes.bound import Omniscient, Slots
from quicksilver_lab.bench.stats import percentile

PERCENTILES: Final = (10, 25, 50, 75, 90, 99)

Cdf = Mapping[str, Mapping[str, float]]
"""`latency_s` and `slowdown`, each by percentile (`p10`, ..)."""


def alone_s(jobs: Iterable[JobSpec], slots: Slots) -> dict[str, float]:
    """Return, by class, how long a job takes that has the slots to itself, with the protocol's own delays.

    Jobs of a class are taken to be alike.
    """
    first = {job.klass: job for job in reversed(list(jobs))}
    by_class: dict[str, float] = {}
    for klass, job in first.items():
        (record,) = Omniscient(slots).run([replace(job, arrives_s=0.0)])
        by_class[klass] = sizes.latency_s(record)
    return by_class


def cdf(ended: Sequence[JobRecord], alone: Mapping[str, float]) -> Cdf:
    """Return the percentiles of ended jobs; a slowdown is latency / latency of the class alone. Nothing of no jobs."""
    if not ended:
        return {}
    took = [sizes.latency_s(job) for job in ended]
    slow = [sizes.latency_s(job) / alone[job.klass] for job in ended]
    return {
        name: {f"p{q}": round(percentile(values, q), 3) for q in PERCENTILES}
        for name, values in (("latency_s", took), ("slowdown", slow))
    }


def mean_cdf(cdfs: Sequence[Cdf]) -> dict[str, dict[str, float]]:
    """Return the mean of each percentile over runs."""
    names = cdfs[0] if cdfs else {}
    return {
        name: {q: round(fmean(cdf[name][q] for cdf in cdfs), 3) for q in percentiles}
        for name, percentiles in names.items()
    }
