"""Chooses the containers to kill for room, in order and no more than needed; shared by the `preempt` policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from pydantic import Field

from policies.base import PolicyConfig
from policies.model import ContainerView, Kind, Resources

SortKey = tuple[float | str, ...]


class Killing(PolicyConfig):
    """Settings of a policy that makes room by killing."""

    grace_s: float = Field(0.0, ge=0, le=60, json_schema_extra={"source": "own; 0 is Mercury §3: killed at once"})
    """Time that a guaranteed container waits for queueable ones that are expected to end within it, so that none of
    their work is lost. Those that do not end are killed then; all others at once."""


class Victims(StrEnum):
    """In which order running queueable containers are killed."""

    LEAST_WORK = "least_work"
    """Those that lose the least work first: CPU seconds where they are measured, else time since the start."""
    NEWEST = "newest"
    """Those that were started last first."""
    LOWEST_PRIORITY = "lowest_priority"
    """First the lowest YARN priority (queue, then application), then those that their application needs last."""


def since_s(container: ContainerView) -> float:
    """Return when it was started, else when it arrived; Unix seconds."""
    return container.arrived_s if container.started_s is None else container.started_s


def work_s(container: ContainerView, now_s: float) -> float:
    """Return the work lost if the container is killed: CPU seconds, else wall time since its start."""
    return container.attained_s if container.attained_s is not None else now_s - since_s(container)


def _newest(container: ContainerView) -> SortKey:
    return since_s(container), container.arrived_s, container.id


def _sorted(running: Iterable[ContainerView], order: Victims, now_s: float) -> list[ContainerView]:
    """Return the containers, the first to be killed first: protected ones last, and of the others first those of
    applications beyond their shares.
    """
    return sorted(_ordered(running, order, now_s), key=lambda c: (c.protected, not c.over_share))


def _ordered(running: Iterable[ContainerView], order: Victims, now_s: float) -> list[ContainerView]:
    """Return the containers in `order`; equal ones by id, of the newest the higher id."""
    match order:
        case Victims.LEAST_WORK:
            return sorted(running, key=lambda c: (work_s(c, now_s), c.id))
        case Victims.NEWEST:
            return sorted(running, key=_newest, reverse=True)
        case Victims.LOWEST_PRIORITY:
            newest_first = sorted(running, key=_newest, reverse=True)
            return sorted(newest_first, key=lambda c: (c.queue_priority, c.app_priority, -c.precedence, -c.priority))


def fewest(need: Resources, running: Sequence[ContainerView], order: Victims, now_s: float) -> list[str]:
    """Return ids of queueable containers of `running` that together free `need` (MB and vcores), in the order of death.

    Taken in `order` until they suffice; then those that turn out not to be needed are spared, the last
    first, so that none of the answer could be left out. Empty when nothing is needed, or when even all of them would
    not suffice.
    """
    victims: list[ContainerView] = []
    freed = Resources()
    for container in _sorted((c for c in running if c.kind is Kind.QUEUEABLE), order, now_s):
        if need.fits(freed):
            break
        victims.append(container)
        freed = freed + container.resources
    if not need.fits(freed):
        return []
    for container in victims[::-1]:
        if need.fits(freed - container.resources):
            victims.remove(container)
            freed = freed - container.resources
    return [c.id for c in victims]
