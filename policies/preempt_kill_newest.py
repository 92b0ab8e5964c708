"""Kill the newest running queueable containers to make room for a guaranteed one.

Source: the container scheduler of the Hadoop 3 NodeManager; the newest has lost the least work. Mercury §3 settles G-Q
conflicts for G.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from policies.base import NoSettings, Policy
from policies.model import ContainerView, Kind, Resources


def _total(containers: Iterable[ContainerView]) -> Resources:
    return sum((c.resources for c in containers), Resources())


def _age_key(container: ContainerView) -> tuple[float, float, str]:
    started_s = container.arrived_s if container.started_s is None else container.started_s
    return started_s, container.arrived_s, container.id


def victims(need: Resources, running: Sequence[ContainerView], cfg: NoSettings, now_s: float) -> list[str]:
    """Return ids of queueable containers, newest first, whose resources together cover `need`.

    `need` is what must come free, in MB and vcores. Newest are taken until they suffice; then the oldest of them that
    turn out not to be needed are spared, so that no container of the answer could be left out. Empty when nothing is
    needed, or when even all of them would not suffice.
    """
    chosen: list[ContainerView] = []
    freed = Resources()
    for container in sorted((c for c in running if c.kind is Kind.QUEUEABLE), key=_age_key, reverse=True):
        if need.fits(freed):
            break
        chosen.append(container)
        freed = freed + container.resources
    if not need.fits(freed):
        return []
    for container in reversed(chosen.copy()):
        others = [c for c in chosen if c is not container]
        if need.fits(_total(others)):
            chosen = others
    return [c.id for c in chosen]


POLICY = Policy("kill_newest", NoSettings, victims)
