"""Free room of the node: unallocated resources, the proxy's limit to queueable containers, physical memory."""

from __future__ import annotations

import math
from dataclasses import replace

from policies.common.shrinking import Shrinking
from policies.model import Resources
from sidecar.node.container import FOREIGN, QUEUEABLE
from sidecar.node.node_state import NodeState


class NodeRoom:
    """Answers questions about free room from the state of one node."""

    def __init__(self, state: NodeState) -> None:
        self.state = state

    def retune(self, shrinking: Shrinking) -> None:
        """Set the vcores of containers that may start beyond the node's own, shrunk."""
        state = self.state
        if state.rules.shares_cpu:
            state.rules = replace(state.rules, extra_vcores=shrinking.extra)

    def counted(self, amount: Resources) -> Resources:
        """Return an amount without the resources that the rules ignore."""
        return amount if self.state.rules.count_vcores else Resources(amount.memory_mb, 0)

    def short_for_guaranteed(self, room: Resources, need: Resources) -> Resources:
        """Return what `room` lacks of `need`, not below 0.

        Where running containers make room by shrinking, vcores lack only when the NodeManager believes so.
        """
        short = self.counted(need - room)
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

    def obstacle(self, need: Resources, now_s: float) -> str:
        """Return why a queueable container of this size cannot start now; "" when it can."""
        state = self.state
        if state.nm_down:
            return f"waits for the NodeManager: {state.nm_down}"
        free = self.free_for_queueable()
        if need.memory_mb > free.memory_mb:
            return f"waits for memory: {need.memory_mb} MB wanted, {max(0, free.memory_mb)} MB free"
        if state.rules.count_vcores and need.vcores > free.vcores:
            return f"waits for vcores: {need.vcores:g} wanted, {max(0, free.vcores):g} free"
        left = self.left_q() if state.targets is not None else None
        if left is not None and not self.counted(need).fits(left):
            return f"waits for {self.beyond(need, left)}"
        if state.squeezed:
            return f"waits for physical memory: {state.squeezed}"
        physical = self._physical_mb(now_s)
        if physical is not None and physical < need.memory_mb + state.rules.reserve_mb:
            reserve = state.rules.reserve_mb
            return f"waits for physical memory: {need.memory_mb} MB and {reserve} MB reserve wanted, {physical} MB free"
        return ""

    def beyond(self, need: Resources, left: Resources) -> str:
        """Return the text for a `need` that exceeds `left`, the rest of the proxy's limit."""
        wanted, there = f"{need.memory_mb} MB", f"{max(0, left.memory_mb)} MB"
        if left.vcores < math.inf:
            wanted, there = f"{wanted}, {need.vcores:g} vcores", f"{there}, {max(0, left.vcores):g} vcores"
        targets = self.state.targets
        reason = targets.limit_reason if targets is not None else ""
        return f"the share left to queueables: {wanted} wanted, {there} left{f' ({reason})' if reason else ''}"

    def _physical_mb(self, now_s: float) -> int | None:
        """Return free physical memory, less that of containers too recent to show in the measurement."""
        state = self.state
        if state.free_physical_mb is None:
            return None
        settle_s = state.rules.settle_s
        young = (c for c in state.using() if c.sent_s is not None and now_s - c.sent_s < settle_s)
        return state.free_physical_mb - sum(c.start.resources.memory_mb for c in young)
