"""Route short tasks queueable in a share of the cases: hybrid-GQ (Mercury, ATC '15, §5)."""

from __future__ import annotations

from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.model import Ask, Kind, Route


class HybridGQ(PolicyConfig):
    """Settings of hybrid_gq; the defaults are <10sec-70%-Q, the best on both mixed workloads of the paper."""

    td_s: float = Field(10.0, ge=0, json_schema_extra={"source": "Mercury §5 (td), §7.4.1: <10sec-70%-Q"})
    """Tasks expected to run less than this may be queueable; .inf for all tasks."""
    pq: float = Field(70.0, ge=0, le=100, json_schema_extra={"unit": "%", "source": "Mercury §5 (pq), §7.4.1"})
    """Percent of those tasks that are queueable; below 100 a busy cluster does not starve the job."""


def route(ask: Ask, cfg: HybridGQ, rng: Random) -> Route:
    """Return queueable for `cfg.pq` percent of the tasks with an expected duration below `cfg.td_s`, else guaranteed.

    One number is drawn from `rng` for each task below the threshold, none for others.
    """
    if not ask.expected_s < cfg.td_s:
        return Route(Kind.GUARANTEED, f"hybrid_gq: expected {ask.expected_s:g} s, not below td {cfg.td_s:g} s")
    drawn = rng.random() * 100
    kind = Kind.QUEUEABLE if drawn < cfg.pq else Kind.GUARANTEED
    verdict = "below" if kind is Kind.QUEUEABLE else "not below"
    return Route(
        kind,
        f"hybrid_gq: expected {ask.expected_s:g} s < td {cfg.td_s:g} s, drew {drawn:.1f}, {verdict} pq {cfg.pq:g} %",
    )


POLICY = Policy("hybrid_gq", HybridGQ, route)
