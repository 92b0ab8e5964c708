"""The policy calls of the node machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policies.model import ContainerView, Gap, Resources
from sidecar.node.queue.waiting_queue import BypassLimit, OrderKey, Steady

Victims = Callable[[Resources, Sequence[ContainerView], float], list[str]]
"""From the resources to free, the running queueable containers and the time to the ids to kill."""


@dataclass(frozen=True, slots=True)
class NodePolicies:
    """The policies of one node; steady: see `WaitingQueue`."""

    order_key: OrderKey
    victims: Victims
    bypass_limit: BypassLimit | None = None
    steady: Steady = lambda: None
    grace_s: Callable[[], float] = lambda: 0.0
    """Time that a guaranteed start waits for queueable containers that are about to end."""
    notice_s: Callable[[str], float] = lambda app_type: 0.0
    """Returns the time between the notice to an application master of a type and the kill of its container."""
    waits_by_size: Callable[[], bool] = lambda: False
    """Returns whether reports have waits by size."""
    fills: Callable[[], bool] = lambda: False
    """Returns whether `fill` has to be asked at all."""
    fill: Callable[[ContainerView, Gap], bool] = lambda waiting, gap: False
    """Returns whether a container that fits may start before the first of the queue, which does not."""
