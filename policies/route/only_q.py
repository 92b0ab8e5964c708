"""Route everything queueable: only-Q, fully distributed scheduling (Mercury, ATC '15, §5: td = inf, pq = 100 %)."""

from __future__ import annotations

from random import Random

from policies.base import NoSettings, Policy
from policies.model import Ask, Kind, Route


def route(ask: Ask, cfg: NoSettings, rng: Random) -> Route:
    """Return queueable, whatever is asked."""
    return Route(Kind.QUEUEABLE, "only_q: everything is queueable")


POLICY = Policy("only_q", NoSettings, route, alike=True)
