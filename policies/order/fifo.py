"""Start waiting containers in the order of their arrival at the node, as the NodeManager of Hadoop 3 does.

Nothing but arrival counts, not even `ContainerView.precedence`: that an application's urgent container is not stuck
behind its own others is the proxy's part, which asks for such a container as guaranteed.
"""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.model import ContainerView


def key(waiting: ContainerView, cfg: NoSettings, now_s: float) -> tuple[float, ...]:
    """Return (arrival,): the lowest starts first."""
    return (waiting.arrived_s,)


POLICY = Policy("fifo", NoSettings, key, steady=True)
