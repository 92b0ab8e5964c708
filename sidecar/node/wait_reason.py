"""Why a container waits: the obstacle to its start, in words for reports. Also why one is being killed or shrunk."""

from __future__ import annotations

import math
from functools import cache

from policies.model import Resources
from sidecar.node.container import Container
from sidecar.node.node_room import NodeRoom
from sidecar.node.phases import Phase


def obstacle(room: NodeRoom, need: Resources, now_s: float) -> str:
    """Return why a queueable container of this size cannot start now; "" when it can."""
    state = room.state
    if state.nm_down:
        return f"waits for the NodeManager: {state.nm_down}"
    free = room.free_for_queueable()
    if need.memory_mb > free.memory_mb:
        return f"waits for memory: {need.memory_mb} MB wanted, {max(0, free.memory_mb)} MB free"
    if state.rules.count_vcores and need.vcores > free.vcores:
        return f"waits for vcores: {need.vcores:g} wanted, {max(0, free.vcores):g} free"
    rest = room.left_q() if state.targets is not None else None
    if rest is not None and not room.counted(need).fits(rest):
        return f"waits for {beyond_limit(room, need, rest)}"
    if state.squeezed:
        return f"waits for physical memory: {state.squeezed}"
    physical = room.settled_physical_mb(now_s)
    if physical is not None and physical < need.memory_mb + state.rules.reserve_mb:
        reserve = state.rules.reserve_mb
        return f"waits for physical memory: {need.memory_mb} MB and {reserve} MB reserve wanted, {physical} MB free"
    return ""


def beyond_limit(room: NodeRoom, need: Resources, rest: Resources) -> str:
    """Return the text for a `need` that exceeds `rest`, the rest of the proxy's limit to queueable containers."""
    demand, there = f"{need.memory_mb} MB", f"{max(0, rest.memory_mb)} MB"
    if rest.vcores < math.inf:
        demand, there = f"{demand}, {need.vcores:g} vcores", f"{there}, {max(0, rest.vcores):g} vcores"
    targets = room.state.targets
    reason = targets.limit_reason if targets is not None else ""
    return f"the share left to queueables: {demand} wanted, {there} left{f' ({reason})' if reason else ''}"


class WaitReasons:
    """The reasons of all containers of a node at one moment."""

    def __init__(self, room: NodeRoom, now_s: float) -> None:
        self._state, self._now_s = room.state, now_s
        self._obstacle = cache(lambda need: obstacle(room, need, now_s))  # many have one size

    def of(self, container: Container, place: int | None) -> str:
        """Return why a container waits, is being killed or is shrunk, else ""; place: how many start before it."""
        match container.phase:
            case Phase.UNANNOUNCED:
                return f"opportunistic, waits {self._left_s(container):.1f} s more for a grant of the proxy"
            case Phase.ROOM | Phase.GRACE:
                return "waits for room: queueable containers are being killed for it"
            case Phase.KILLING | Phase.STRANDED | Phase.KILLING_AGAIN:
                return f"is being killed: {container.kill_reason}"
            case Phase.WAITING:
                head = f"{place} before it; " if place else ""
                reason = self._unknown(container) or self._obstacle(container.start.resources)
                why = reason or self._for_core(container) or "next to start"
                return f"{head}{why}; shed in {self._left_s(container):.0f} s"
            case Phase.RUNNING:
                share = self._state.sharing.share(container.id)
                return share.last_why if share is not None and share.cores is not None else ""
        return ""

    def _unknown(self, container: Container) -> str:
        return "waits until the ResourceManager knows it" if container.unknown else ""

    def _for_core(self, container: Container) -> str:
        """Return that a container waits for a core of its own, "" if it does not, or one is free."""
        ahead = container.grant is not None and container.grant.core_wait_s > 0
        return "waits for a core" if ahead and container.start.resources.vcores > self._state.free().vcores else ""

    def _left_s(self, container: Container) -> float:
        return max(0.0, container.until_s - self._now_s)
