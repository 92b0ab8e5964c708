"""Start waiting containers in random order, so that late jobs get their share at once (Apollo, OSDI '14, §3.5).

Apollo draws anew at each start; here a container keeps its place, by a hash of its id, until it starts. Nothing else
counts but the limits of overtaking.
"""

from __future__ import annotations

from hashlib import blake2b

from pydantic import Field

from policies.base import Policy
from policies.common.overtaking import Bypassing
from policies.model import ContainerView


class RandomOrder(Bypassing):
    """Settings of random."""

    bypass_limit_s: float = Field(600.0, ge=0, json_schema_extra={"source": "own; Apollo has no limit"})
    """Work that may overtake a waiting container, however short it is; the higher of the two limits counts; `.inf` for
    no limit."""


def key(waiting: ContainerView, cfg: RandomOrder, now_s: float) -> tuple[float, ...]:
    """Return (number,), at least 0 and below 1, that depends on the container's id alone."""
    return (int.from_bytes(blake2b(waiting.id.encode(), digest_size=6).digest()) / 2**48,)


POLICY = Policy("random", RandomOrder, key, steady=True)
