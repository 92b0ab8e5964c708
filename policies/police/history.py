"""Leave to queueable containers the room that guaranteed ones will not need, by history (Mercury §4.3, §7.2.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common.damping import Damping
from policies.model import Limit, NodeUse, Resources


class HistoricalUse(PolicyConfig):
    """Settings of history."""

    horizon_s: float = Field(900.0, ge=0, le=14_400, json_schema_extra={"source": "own; Mercury §4.3: a given period"})
    """How far ahead the use by guaranteed containers is predicted; about as long as queueable tasks run."""
    recent_s: float = Field(300.0, ge=0, le=3600, json_schema_extra={"source": "own"})
    """Window whose peak usage is also taken into account."""
    peak_ratio: float = Field(0.5, ge=0, le=1, json_schema_extra={"source": "own"})
    """The usual use: 0 the mean of that quarter of an hour in the weeks before, 1 its peak, between them a mix."""
    min_weeks: int = Field(1, ge=1, json_schema_extra={"unit": "weeks", "source": "own"})
    """A quarter of an hour seen in fewer weeks is left out of account."""
    margin_ratio: float = Field(0.05, ge=0, le=1, json_schema_extra={"source": "own"})
    """Part of the node that is kept free beyond the prediction."""
    damping: Damping = Field(
        Damping(round_to=0.01, rise_beyond_ratio=0.05, rise_part_ratio=0.25, rise_every_s=30.0),
        json_schema_extra={"source": "own"},
    )
    """The limit falls at once, and rises slowly; as a part of the node."""


def _most(parts: Sequence[Resources]) -> Resources:
    return Resources(max([p.memory_mb for p in parts]), max([p.vcores for p in parts]))


def _usual(use: NodeUse, cfg: HistoricalUse, now_s: float) -> list[Resources]:
    """Return the usual use in each quarter of an hour from now to the horizon."""
    amounts = []
    for usual in use.usual:
        if usual.weeks >= cfg.min_weeks and usual.begins_s <= now_s + cfg.horizon_s and usual.ends_s > now_s:
            mean, peak = usual.mean, usual.peak
            memory_mb = mean.memory_mb + cfg.peak_ratio * max(0, peak.memory_mb - mean.memory_mb)
            vcores = mean.vcores + cfg.peak_ratio * max(0.0, peak.vcores - mean.vcores)
            amounts.append(Resources(math.ceil(memory_mb), vcores))
    return amounts


def police(use: NodeUse, cfg: HistoricalUse, now_s: float) -> Limit | None:
    """Return the room beside the highest of: the use now, the recent peak, and the usual use until the horizon."""
    recent = _most((use.used_g, *use.recent[: math.ceil(cfg.recent_s / 60)]))
    usual = _usual(use, cfg, now_s) if use.usual else []
    need = _most((recent, *usual)) if usual else recent
    room = use.capacity - need
    memory_mb = room.memory_mb - cfg.margin_ratio * use.capacity.memory_mb
    vcores = room.vcores - cfg.margin_ratio * use.capacity.vcores
    known = f"usual {_most(usual).memory_mb} MB" if usual else "nothing known of this time of the week"
    why = (
        f"history: guaranteed ones used up to {recent.memory_mb} MB lately, {known} until {cfg.horizon_s:g} s from now"
    )
    return Limit(Resources(max(0, int(memory_mb)), max(0.0, vcores)), why)


POLICY = Policy("history", HistoricalUse, police)
