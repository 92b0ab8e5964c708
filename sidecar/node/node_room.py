"""Free room of the node: unallocated resources, the proxy's limit to queueable containers, physical memory."""

from __future__ import annotations

import math
from dataclasses import replace

from policies.common.shrinking import Overcommit, Shrinking
from policies.model import Resources
from sidecar.node.container import FOREIGN, QUEUEABLE
from sidecar.node.node_state import NodeState


def overcommits(shrinking: Shrinking | None) -> bool:
    """Return whether guaranteed containers may take memory that is allocated and not used."""
    return shrinking is not None and shrinking.overcommit is Overcommit.MEASURED


class NodeRoom:
    """Answers questions about free room from the state of one node."""

    def __init__(self, state: NodeState) -> None:
        self.state = state

    def retune(self, shrinking: Shrinking) -> None:
        """Set the vcores of containers that may start beyond the node's own, shrunk, and what counts as free memory."""
        state = self.state
        if state.rules.shares_cpu:
            state.rules = replace(state.rules, extra_vcores=shrinking.extra, overcommit=overcommits(shrinking))

    def counted(self, amount: Resources) -> Resources:
        """Return an amount without the resources that the rules ignore."""
        return amount if self.state.rules.count_vcores else Resources(amount.memory_mb, 0)

    def short_for_guaranteed(self, room: Resources, need: Resources, now_s: float) -> Resources:
        """Return the part of `need` that `room` lacks, not below 0.

        Where running containers make room by shrinking, vcores lack only when the NodeManager believes so; memory may
        lack only there, too, while more than `need` is not used.
        """
        short = self.counted(need - room)
        if short.memory_mb > 0 and self.state.rules.overcommit:
            unmeasured_mb = 0 if self._unused(need.memory_mb, now_s) else min(short.memory_mb, need.memory_mb)
            short = Resources(max(unmeasured_mb, short.memory_mb - self._beyond_memory_mb()), short.vcores)
        if self.state.rules.shares_cpu:
            short = Resources(short.memory_mb, short.vcores - self._beyond_cores())
        return Resources(max(0, short.memory_mb), max(0, short.vcores))

    def free_for_queueable(self) -> Resources:
        """Return the unallocated room for queueable containers, including the extra vcores of shrunk ones."""
        free, rules = self.state.free(), self.state.rules
        if not rules.shares_cpu:
            return free
        return free + Resources(0, min(rules.extra_vcores, self._beyond_cores()))

    def _beyond_cores(self) -> float:
        """Return the vcores that the NodeManager believes to have beyond the node's."""
        rules = self.state.rules
        return (rules.nm_vcores or math.inf) - rules.capacity.vcores

    def _beyond_memory_mb(self) -> int:
        """Return the memory that the NodeManager believes to have beyond the node's capacity."""
        rules = self.state.rules
        return max(0, (rules.nm_memory_mb or 0) - rules.capacity.memory_mb)

    def _unused(self, memory_mb: int, now_s: float) -> bool:
        """Return whether a guaranteed container may take allocated memory, as by measurement nobody uses it."""
        state = self.state
        free_mb = None if state.squeezed else self.settled_physical_mb(now_s)
        return free_mb is not None and free_mb - state.rules.reserve_mb >= memory_mb

    def limit_q(self) -> Resources | None:
        """Return the proxy's limit to the sum of all queueable containers; None without a limit.

        Where containers share the cores, only memory is limited.
        """
        targets, rules = self.state.targets, self.state.rules
        if targets is None or targets.limit_q_mb is None:
            return None
        vcores = math.inf
        if targets.limit_q_vcores is not None and rules.count_vcores and not rules.shares_cpu:
            vcores = targets.limit_q_vcores
        return Resources(targets.limit_q_mb, vcores)

    def left_q(self) -> Resources | None:
        """Return the rest of the proxy's limit for further queueable containers; None without a limit.

        It may be below 0: running containers are not killed for it.
        """
        limit = self.limit_q()
        return None if limit is None else limit - self.state.used(QUEUEABLE, FOREIGN)

    def settled_physical_mb(self, now_s: float) -> int | None:
        """Return free physical memory, less that of containers too recent to show in the measurement."""
        state = self.state
        if state.free_physical_mb is None:
            return None
        settle_s = state.rules.settle_s
        young = (c for c in state.using() if c.sent_s is not None and now_s - c.sent_s < settle_s)
        return state.free_physical_mb - sum(c.start.resources.memory_mb for c in young)
