"""Route short tasks queueable in a share of the cases: hybrid-GQ (Mercury, ATC '15, §5)."""

from __future__ import annotations

from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.model import Ask, Kind, Route


class HybridGQ(PolicyConfig):
    """Settings of hybrid_gq; the defaults are <10sec-70%-Q, the best on both mixed workloads of the paper."""

    td_s: float = Field(10.0, ge=0, json_schema_extra={"source": "Mercury §5 (td), §7.4.1: <10sec-70%-Q"})
    """Tasks expected to run no longer than this may be queueable; .inf for all tasks."""
    pq: float = Field(70.0, ge=0, le=100, json_schema_extra={"unit": "%", "source": "Mercury §5 (pq), §7.4.1"})
    """Percent of those tasks that are queueable; below 100 a busy cluster does not starve the job."""
    unknown: Kind = Field(Kind.QUEUEABLE, json_schema_extra={"source": "own"})
    """Tasks about whose duration nothing is known: Q routes them as short ones, G makes them guaranteed."""


def route(ask: Ask, cfg: HybridGQ, rng: Random) -> Route:
    """Return queueable for `cfg.pq` percent of the tasks that are expected to run `cfg.td_s` at most, else guaranteed.

    A duration that is not known counts as `cfg.unknown` says. One number is drawn from `rng` for each task that may be
    queueable, none for others.
    """
    if ask.known:
        text = f"expected {ask.expected_s:g} s"
        if ask.expected_s > cfg.td_s:
            return Route(Kind.GUARANTEED, f"hybrid_gq: {text}, above td {cfg.td_s:g} s")
        text += f", not above td {cfg.td_s:g} s"
    elif cfg.unknown is Kind.GUARANTEED:
        return Route(Kind.GUARANTEED, "hybrid_gq: its duration is not known")
    else:
        text = f"its duration is not known, taken for not above td {cfg.td_s:g} s"
    drawn = rng.random() * 100
    kind = Kind.QUEUEABLE if drawn < cfg.pq else Kind.GUARANTEED
    verdict = "below" if kind is Kind.QUEUEABLE else "not below"
    return Route(kind, f"hybrid_gq: {text}, drew {drawn:.1f}, {verdict} pq {cfg.pq:g} %")


POLICY = Policy("hybrid_gq", HybridGQ, route)
