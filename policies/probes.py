"""Applications and nodes as the `probe` policies see them.

A probe is a place of an application in a node's queue. It names no task: when its turn comes, the node gets whichever
task the application starts next (late binding; Sparrow, SOSP '13, §3.5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from policies.model import AppView, NodeView


@dataclass(frozen=True, slots=True)
class NewTasks:
    """Tasks of one application that began to wait for places."""

    app: AppView
    tasks: int
    expected_s: float = 10.0
    """How long each is expected to run."""
    more: bool = False
    """Whether tasks of the application have probes already."""


@dataclass(frozen=True, slots=True)
class ProbedNode:
    """A node with its queue of probes."""

    node: NodeView
    slots_s: tuple[float, ...] = (0.0,)
    """When each of its slots is expected to be free for a task whose probe joins the queue now: seconds from now,
    ascending, shape (slots,). A slot is a core."""
    long_ahead: bool = False
    """Whether a probe that joins now would wait behind long tasks: one has a probe there, or they hold all slots."""
    in_partition: bool = False
    """Whether it is kept for short jobs."""


def without_long(nodes: Iterable[ProbedNode]) -> list[ProbedNode]:
    """Return the nodes where no long task is ahead."""
    return [node for node in nodes if not node.long_ahead]
