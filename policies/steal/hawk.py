"""An idle node takes over short tasks that wait behind a long one (Hawk; thesis of its authors, §2.3.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from pydantic import Field

from policies.base import Policy
from policies.common.move_limits import Moving
from policies.model import ContainerView, JobClass, NodeQueue, NodeView


class Hawk(Moving):
    """Settings of hawk."""

    max_contacts: int = Field(10, ge=1, json_schema_extra={"unit": "nodes", "source": "Hawk, thesis §2.4.1, §2.4.9"})
    """Nodes that an idle node looks at, at random; it takes from the first that has something for it."""
    short_s: float = Field(
        30.0, gt=0, json_schema_extra={"source": "own; in Hawk by the workload, not critical (§2.4.7)"}
    )
    """A task that is expected to run less is short, where its job has no class; only short ones are taken."""
    behind_long: bool = Field(True, json_schema_extra={"source": "Hawk, thesis §2.3.6"})
    """Take only containers behind a long task; off: the first short ones of any queue."""
    max_taken: int = Field(10, ge=1, json_schema_extra={"unit": "containers", "source": "own; no limit in Hawk"})
    """Containers that are taken at once; never more than the idle node has room for."""
    min_wait_s: float = Field(5.0, ge=0, json_schema_extra={"source": "own: what it takes to move one"})
    """Containers that are expected to start sooner than this stay where they are."""
    idle_s: float = Field(1.0, ge=0, json_schema_extra={"source": "own"})
    """How long a node must have had room, and nothing waiting, before it takes over."""


def short_runs(long: bytes, held_up: bool) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of each group of consecutive short tasks that comes behind a long one (§2.3.6).

    long: 1 for each long one of those that wait, 0 for a short one, in the order of the queue. held_up: whether a long
    one that runs counts.
    """
    at = 0 if held_up else long.find(1)
    while at >= 0:
        begin = long.find(0, at)
        if begin < 0:
            return
        at = long.find(1, begin)
        yield begin, at if at >= 0 else len(long)


def first_group(queue: NodeQueue, cfg: Hawk) -> list[ContainerView]:
    """Return the first consecutive short tasks that come behind a long one and may go, in the order of the queue.

    A long task that runs counts when no short one runs beside it: with one slot this is Hawk's rule, with several
    whoever waits first is held up only then. So it is where guaranteed containers alone keep the queue waiting.
    """
    held_up = not cfg.behind_long or all(_is_long(task, cfg) for task in queue.running)
    for begin, end in short_runs(bytes(_is_long(task, cfg) for task in queue.waiting), held_up):
        group = [task for task in queue.waiting[begin:end] if _may_go(task, cfg)]
        if group:
            return group
    return []


def _is_long(task: ContainerView, cfg: Hawk) -> bool:
    return task.job_class is JobClass.LONG if task.job_class else task.expected_s >= cfg.short_s


def _may_go(task: ContainerView, cfg: Hawk) -> bool:
    return task.movable and (task.starts_in_s is None or task.starts_in_s >= cfg.min_wait_s)


def steal(thief: NodeView, others: Sequence[NodeQueue], cfg: Hawk, rng: Random, now_s: float) -> list[str]:
    """Choose the containers that the idle node takes over, from the first of `max_contacts` random nodes with some."""
    if thief.idle_s < cfg.idle_s:
        return []
    for at in rng.sample(range(len(others)), min(cfg.max_contacts, len(others))):
        group = first_group(others[at], cfg)
        if group:
            return [task.id for task in group[: cfg.max_taken]]
    return []


POLICY = Policy("hawk", Hawk, steal)
