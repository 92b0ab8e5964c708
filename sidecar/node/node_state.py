"""What the node machine knows: its containers, who waits, what was announced, and the sums over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from policies.common.shrinking import Shrinking
from policies.model import Resources, total
from quicksilver.common.messages import ContainerEvent, ContainerState, EventKind, Expected, Grant, Targets
from sidecar.node.container import FOREIGN, QUEUEABLE, USING, Entry, Phase, Rules
from sidecar.node.events import Command, Tell
from sidecar.node.sharing import Sharing
from sidecar.node.waiting_queue import BypassLimit, OrderKey, Steady, WaitingQueue

_TAKING = USING | {Phase.ROOM}
"""Phases in which a container takes room, or is about to."""


class Book:
    """The state of one node; `node.Node` writes it, everybody may read it."""

    def __init__(
        self,
        rules: Rules,
        order_key: OrderKey,
        sharing: Sharing | None = None,
        bypass_limit: BypassLimit | None = None,
        steady: Steady = lambda: None,
    ) -> None:
        self.rules = rules
        self.sharing = sharing or Sharing()
        self.queue = WaitingQueue(order_key, rules.queue_max_length, rules.queue_max_bytes, bypass_limit, steady)
        self.entries: dict[str, Entry] = {}
        self.announced: dict[str, tuple[Grant, float]] = {}
        self.unwanted: dict[str, tuple[Grant, str, float]] = {}
        """Announced, and dropped before their start came: with the reason and the time."""
        self.sessions: set[str] = set()
        """Attempts whose containers can be stopped."""
        self.free_physical_mb: int | None = None
        self.drains: dict[str, str] = {}
        """Why nothing is held, by who wants it so."""
        self.nm_down = ""
        """Why the NodeManager takes no starts; "" when it does."""
        self.squeezed = ""
        """Why no container is started although there would be room; "" when physical memory is well."""
        self.targets: Targets | None = None
        """What the proxy wants of this node; None before it said so, and when it has said nothing for too long."""
        self.targets_s = 0.0
        """When the proxy said so."""
        self.last_queueable_s: float | None = None
        """When a queueable container last ran."""
        self.over: dict[str, float] = {}
        """Queueable containers whose end was told without their having run, with the time: they do not start again."""
        self.seq = 0
        self._changed: dict[str, None] = {}
        self._out: list[Command] = []

    @property
    def draining(self) -> str:
        """Why nothing is held; "" when not draining."""
        return next(iter(self.drains.values()), "")

    def take_changed(self) -> list[str]:
        """Return the containers of which a journal has to know more than at the last call, in order."""
        changed, self._changed = list(self._changed), {}
        return changed

    def using(self) -> Iterator[Entry]:
        """Yield the containers that use the node."""
        return (e for e in self.entries.values() if e.phase in USING)

    def used(self, *kinds: str) -> Resources:
        """Return what containers of these kinds (all when none is named) use, by allocation."""
        return total([e.start.resources for e in self.using() if not kinds or e.kind in kinds])

    def leaving(self) -> Resources:
        """Return what is used by those that are being killed, or whose end somebody waits for."""
        going = (e for e in self.using() if e.phase is Phase.KILLING or e.kill_reason or e.awaited_by)
        return total([e.start.resources for e in going])

    def free(self) -> Resources:
        """Return the room that is left by allocation, guaranteed starts on their way included."""
        counted = [e.start.resources for e in self.entries.values() if e.phase in _TAKING]
        return self.rules.capacity - total(counted)

    def retune(self, shrinking: Shrinking) -> None:
        """Take over how many containers may be started to stand still."""
        if self.rules.shares_cpu:
            self.rules = replace(self.rules, extra_vcores=shrinking.extra)

    def counted(self, amount: Resources) -> Resources:
        """Return the part of an amount that the rules count."""
        return amount if self.rules.count_vcores else Resources(amount.memory_mb, 0)

    def short_for_guaranteed(self, room: Resources, need: Resources) -> Resources:
        """Return what `room` lacks of `need`, not below 0.

        Where running containers make room by shrinking, vcores lack only when the NodeManager believes so.
        """
        short = self.counted(need - room)
        if self.rules.shares_cpu:
            beyond = (self.rules.nm_vcores or math.inf) - self.rules.capacity.vcores
            short = Resources(short.memory_mb, short.vcores - beyond)
        return Resources(max(0, short.memory_mb), max(0, short.vcores))

    def free_for_queueable(self) -> Resources:
        """Return the room for queueable containers by allocation, what may be started to stand still included."""
        free = self.free()
        if not self.rules.shares_cpu:
            return free
        beyond = (self.rules.nm_vcores or math.inf) - self.rules.capacity.vcores
        return free + Resources(0, min(self.rules.extra_vcores, beyond))

    def whole_for_queueable(self) -> Resources | None:
        """Return what the proxy's limit allows all queueable containers together; None without a limit.

        Where containers share the cores only memory is limited.
        """
        targets = self.targets
        if targets is None or targets.limit_q_mb is None:
            return None
        vcores = math.inf
        if targets.limit_q_vcores is not None and self.rules.count_vcores and not self.rules.shares_cpu:
            vcores = targets.limit_q_vcores
        return Resources(targets.limit_q_mb, vcores)

    def left_for_queueable(self) -> Resources | None:
        """Return what the proxy's limit leaves to further queueable containers; None without a limit.

        It may be below 0: what runs is not killed for it.
        """
        whole = self.whole_for_queueable()
        return None if whole is None else whole - self.used(QUEUEABLE, FOREIGN)

    def targets_until_s(self) -> float | None:
        """Return when the targets are too old to hold; None when there are none, or they limit nothing."""
        limits = ("max_wait_s", "max_queue", "limit_q_mb", "limit_q_vcores")
        if self.targets is None or all(getattr(self.targets, name) is None for name in limits):
            return None
        return self.targets_s + self.rules.targets_keep_s

    def obstacle(self, need: Resources, now_s: float) -> str:
        """Return why a queueable container of this size cannot start now; "" when it can."""
        if self.nm_down:
            return f"waits for the NodeManager: {self.nm_down}"
        free = self.free_for_queueable()
        if need.memory_mb > free.memory_mb:
            return f"waits for memory: {need.memory_mb} MB wanted, {max(0, free.memory_mb)} MB free"
        if self.rules.count_vcores and need.vcores > free.vcores:
            return f"waits for vcores: {need.vcores:g} wanted, {max(0, free.vcores):g} free"
        share = self._beyond_share(need)
        if share:
            return share
        if self.squeezed:
            return f"waits for physical memory: {self.squeezed}"
        physical = self._physical(now_s)
        if physical is not None and physical < need.memory_mb + self.rules.reserve_mb:
            reserve = self.rules.reserve_mb
            return f"waits for physical memory: {need.memory_mb} MB and {reserve} MB reserve wanted, {physical} MB free"
        return ""

    def _beyond_share(self, need: Resources) -> str:
        """Return why a container does not fit what is left to queueable ones; "" when it does."""
        left = self.left_for_queueable()
        if left is None or self.counted(need).fits(left):
            return ""
        return f"waits for {self.beyond(need, left)}"

    def beyond(self, need: Resources, left: Resources) -> str:
        """Say that `need` is more than `left` of what the proxy's limit allows."""
        wanted, there = f"{need.memory_mb} MB", f"{max(0, left.memory_mb)} MB"
        if left.vcores < math.inf:
            wanted, there = f"{wanted}, {need.vcores:g} vcores", f"{there}, {max(0, left.vcores):g} vcores"
        reason = self.targets.limit_reason if self.targets is not None else ""
        return f"the share left to queueables: {wanted} wanted, {there} left{f' ({reason})' if reason else ''}"

    def expect(self, news: Iterable[Expected]) -> None:
        """Take in how long tasks are expected to run by now, those that run and wait here."""
        by_stage = {(each.app_id, each.priority): each for each in news}
        for entry in self.entries.values() if by_stage else ():
            told = by_stage.get((entry.start.app_id, entry.priority))
            if told is not None:
                entry.told = told
                self.queue.expect(entry.id, entry.expected_s, entry.spread_s)

    def state(self, container_id: str) -> ContainerState | None:
        """Return WAITING or STARTING while calls about a held start cannot go to the NodeManager; else None."""
        entry = self.entries.get(container_id)
        if entry is None or entry.kind != QUEUEABLE or entry.phase not in (Phase.WAITING, Phase.STARTING):
            return None
        return entry.state

    def was_answered(self, container_id: str) -> bool:
        """Tell whether a start was answered, or may have been, before: that it runs already is no failure then."""
        entry = self.entries.get(container_id)
        return entry is not None and (entry.taken_over or entry.kind == QUEUEABLE)

    def held_by(self, attempt_id: str) -> Iterator[tuple[str, Resources]]:
        """Yield id and size of the attempt's held starts, those on their way to the NodeManager included."""
        for entry in self.entries.values():
            if entry.start.attempt_id == attempt_id and self.state(entry.id) is not None:
                yield entry.id, entry.start.resources

    def needs_session(self, attempt_id: str) -> bool:
        """Tell whether queueable containers of the attempt wait or run here."""
        return any(e.kind == QUEUEABLE and e.start.attempt_id == attempt_id for e in self.entries.values())

    def deadline_s(self) -> float | None:
        """Return when the machine wants a Tick at the latest."""
        phases = (Phase.WAITING, Phase.UNANNOUNCED, Phase.ROOM)
        return min((e.until_s for e in self.entries.values() if e.phase in phases), default=None)

    def _mark(self, container_id: str) -> None:
        self._changed[container_id] = None

    def _physical(self, now_s: float) -> int | None:
        """Return physical memory that is free, less what was started so lately that it does not show yet."""
        if self.free_physical_mb is None:
            return None
        young = (e for e in self.using() if e.sent_s is not None and now_s - e.sent_s < self.rules.settle_s)
        return self.free_physical_mb - sum(e.start.resources.memory_mb for e in young)

    def _tell(self, entry: Entry, kind: EventKind, reason: str, now_s: float, cause: str = "") -> None:
        self.seq += 1
        begun_s = entry.sent_s if entry.sent_s is not None else now_s
        over = kind in (EventKind.ENDED, EventKind.KILLED) and entry.started_s is not None
        share = self.sharing.share(entry.id) if over else None
        self._out.append(
            Tell(
                ContainerEvent(
                    seq=self.seq,
                    container_id=entry.id,
                    kind=kind,
                    am=entry.start.am,
                    at_s=now_s,
                    reason=reason,
                    cause=cause or (share.last_by if share is not None and kind is EventKind.ENDED else ""),
                    waited_s=max(0.0, begun_s - entry.arrived_s),
                    ran_s=max(0.0, now_s - (entry.started_s or now_s)) if over else None,
                    attained_s=round(share.attained_s, 3) if share is not None else None,
                    times_shrunk=share.times_shrunk if share is not None else 0,
                    saved_s=round(share.saved_s, 3) if share is not None and kind is EventKind.ENDED else 0.0,
                )
            )
        )
