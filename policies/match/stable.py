"""Give a node that several containers want to the one that would lose most elsewhere (Apollo, OSDI '14, §3.3)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.common import stable_matching
from policies.model import Candidates


class Stable(PolicyConfig):
    """Settings of stable."""

    max_rounds: int = Field(10, ge=1, json_schema_extra={"unit": "rounds", "source": "Apollo §3.3; figure own"})
    """Rounds of proposals; containers without a node by then choose one after the other."""


def match(tasks: Sequence[Candidates], cfg: Stable) -> list[str | None]:
    """Return the node of each container, or None; no node twice."""
    return stable_matching.match([[(score, node) for node, score in choices] for choices in tasks], cfg.max_rounds)


POLICY = Policy("stable", Stable, match)
