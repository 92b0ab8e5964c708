"""Send no probes: containers that wait may go to any node."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from policies.base import NoSettings, Policy
from policies.probes import NewTasks, ProbedNode


def probe(tasks: NewTasks, nodes: Sequence[ProbedNode], cfg: NoSettings, rng: Random) -> list[str]:
    """Return no node."""
    return []


POLICY = Policy("none", NoSettings, probe)
