"""Route everything guaranteed: only-G, fully centralized scheduling (Mercury, ATC '15, §5: td = inf, pq = 0 %)."""

from __future__ import annotations

from random import Random

from policies.base import NoSettings, Policy
from policies.model import Ask, Kind, Route


def route(ask: Ask, cfg: NoSettings, rng: Random) -> Route:
    """Return guaranteed, whatever is asked."""
    return Route(Kind.GUARANTEED, "only_g: everything is guaranteed")


POLICY = Policy("only_g", NoSettings, route, alike=True)
