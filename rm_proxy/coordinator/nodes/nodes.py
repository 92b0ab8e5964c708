"""The nodes as the coordinator knows them: YARN's record, the sidecar's last report, own placements on top."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, Final

from policies.model import NodeView, Resources
from policies.value_types import changer, replace, value_type
from quicksilver.common.messages import Report
from rm_proxy.attempt.asks.ask_entry import QPlacement
from rm_proxy.attempt.cluster_view import Away
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.domain.ids import app_of_container
from rm_proxy.yarn.models import YarnNode

MAX_OWN: Final = 10_000
"""Own containers that are counted at one node; of more the oldest are forgotten."""
MEMORY: Final = 50
"""Containers of a node after which one that was lost is nearly forgotten."""


class NodeReservation(StrEnum):
    """Whether a node takes queueable containers, and if not, whether that is meant."""

    USABLE = "usable"
    DRAINED = "drained"
    """By an order: drained, or decommissioning in YARN."""
    NO_SIDECAR = "no_sidecar"
    """Its sidecar has not reported since the proxy started: during a roll-out that is usual."""
    NOT_RUNNING = "not_running"
    """YARN does not run it: lost, unhealthy, shut down, or not listed."""
    UNUSABLE = "unusable"


@value_type
@dataclass(frozen=True, slots=True)
class Own:
    """A container that the node's sidecar has not mentioned yet, though it is on its way there."""

    resources: Resources
    expected_s: float
    reserved: bool = False
    """Room kept for a container that moves here; the part that reserved it gives it up."""
    ahead: bool = False
    """Whether it waits for a core here."""
    app_id: str = ""
    """Its application; "" where room is kept for a move."""


@dataclass(slots=True)
class Node:
    """One node; `view` is what policies see."""

    id: str
    yarn: YarnNode | None = None
    report: Report | None = None
    reported_s: float = 0.0
    cut_s: float = -inf
    """When its sidecar's connection for reports was last cut; only a report since then shows that it still runs."""
    nm_down_s: float | None = None
    """Time since which its sidecar reports the NodeManager as down."""
    unusable: bool = False
    """Whether an answer of the ResourceManager reported it as unusable, and its REST has not been read again yet."""
    own: OrderedDict[QPlacement | str, Own] = field(default_factory=OrderedDict)
    """By placement, or by container id once it is granted."""
    view: NodeView = field(default_factory=lambda: NodeView(""))
    bare: NodeView = field(default_factory=lambda: NodeView(""))
    """The view without own containers."""
    limit_q: Resources | None = None
    """Limit of queueable containers here by the `police` policy."""
    slow_ratio: float = 1.0
    """How many times as long tasks take here as elsewhere."""
    yields_level: float = -1.0
    """Level of the work of the application whose container would give way here."""
    frees_s: float = inf
    """When the first container is expected to end here, seconds from the last report."""
    lost_ratio: float = 0.0
    """Part of its containers that were lost, of about the last MEMORY of them."""
    shown: NodeView | None = None
    """The view without own containers, as the worker of the proxy computed it to which the node reports; else None."""
    idle: tuple[object, ...] | None = None
    """What its last report said, if that was of no container and no event."""
    changed: tuple[dict[str, None], ...] = ()
    """Nodes whose views changed since somebody asked: of all nodes together, of each who asks."""

    def why_not(self, now_s: float, fresh_s: float) -> str | None:
        """Return why the node takes no queueable containers, None when it does."""
        if self.yarn is None:
            return "the ResourceManager does not list it"
        if not self.yarn.running:
            return f"its state is {self.yarn.state}"
        if self.unusable:
            return "the ResourceManager reported it as unusable"
        if self.report is None:
            return "its sidecar has never reported"
        if now_s - self.reported_s > fresh_s:
            return f"its sidecar's last report is {now_s - self.reported_s:.0f} s old"
        if self.report.nm_down:
            return f"its NodeManager takes no starts: {self.report.nm_down}"
        if not self.report.draining:
            return None
        left_s = self.report.empty_in_s
        limit = "" if left_s is None else f"; what still runs in {left_s:.0f} s is killed"
        return f"its sidecar is draining: {self.report.drain_reason}{limit}"

    def use(self, now_s: float, fresh_s: float) -> NodeReservation:
        """Return whether the node takes queueable containers, and if not, whether that is meant."""
        if self.view.usable and now_s - self.reported_s <= fresh_s and self.yarn and not self.yarn.decommissioning:
            return NodeReservation.USABLE  # as nearly always: each change is in the view
        if self.yarn is not None and self.yarn.decommissioning:
            return NodeReservation.DRAINED
        if self.yarn is None or not self.yarn.running:
            return NodeReservation.NOT_RUNNING
        if self.why_not(now_s, fresh_s) is None:
            return NodeReservation.USABLE
        if self.report is None:
            return NodeReservation.NO_SIDECAR
        silent = now_s - self.reported_s > fresh_s
        return NodeReservation.DRAINED if self.report.draining and not silent else NodeReservation.UNUSABLE

    def away(self, now_s: float, fresh_s: float) -> Away | None:
        """Return why granted containers do not start here now; None if they may, or the state is not known."""
        if self.report is None:
            return None
        silent_s = now_s - self.reported_s
        if silent_s > fresh_s:
            return Away(f"its sidecar is silent for {silent_s:.0f} s", silent_s, nm_down=False)
        if self.nm_down_s is None:
            return None
        return Away(f"its NodeManager is down: {self.report.nm_down}", now_s - self.nm_down_s, nm_down=True)

    def fences(self, now_s: float, fresh_s: float) -> bool:
        """Return whether its sidecar surely runs now, and holds starts of containers of our own."""
        report = self.report
        lately = self.reported_s > self.cut_s and now_s - self.reported_s <= fresh_s
        return report is not None and report.fences and lately

    def drain(self) -> str | None:
        """Return why YARN forbids holding starts here, "" if it allows it; None while its state is not known."""
        if self.yarn is None:
            return None
        if self.unusable:
            return "YARN: the ResourceManager reported it as unusable"
        return "" if self.yarn.running or self.yarn.state == "NEW" else f"YARN: its state is {self.yarn.state}"

    def listed(self, yarn: YarnNode) -> bool:
        """Store YARN's record; returns whether the view has to be computed anew."""
        before, self.yarn = self.yarn, yarn
        unusable, self.unusable = self.unusable, False
        if before is None or unusable:
            return True
        return _seen_of(before) != _seen_of(yarn)

    def refresh(self, now_s: float, fresh_s: float, holds: Callable[[str], bool]) -> None:
        """Compute the view anew, without own containers that will not come.

        holds: whether an application still holds a container that was granted.
        """
        if self.own:
            for key, own in list(self.own.items()):
                if not own.reserved and not (holds(key) if isinstance(key, str) else self._asks(key)):
                    del self.own[key]
        yarn, report = self.yarn, self.report
        if yarn is None or report is None:
            host = self.id.rpartition(":")[0]
            self.view = self.bare = NodeView(self.id, host=yarn.host if yarn else host, usable=False)
            self.note_change()
            return
        if self.shown is not None:
            usable = self.why_not(now_s, fresh_s) is None
            self.bare = self.shown if usable == self.shown.usable else replace(self.shown, usable=usable)
            self._recount()
            return
        capacity = Resources(report.memory_mb, report.vcores)
        apps = [c.app_id for c in report.containers if not c.am]
        self.bare = NodeView(
            id=self.id,
            host=yarn.host,
            rack=yarn.rack,
            label=yarn.label,
            usable=self.why_not(now_s, fresh_s) is None,
            capacity=capacity,
            used_g=Resources(report.used_g_mb, report.used_g_vcores),
            used_q=Resources(report.used_q_mb, report.used_q_vcores),
            queue_length=report.queue_length,
            ahead=report.ahead,
            queued_s=report.queued_s,
            remaining_s=report.remaining_s,
            since_queueable_s=report.since_queueable_s,
            containers=len(apps),
            apps=frozenset(apps),
            slots=report.slots,
            attained_sd_s=report.attained_sd_s,
            attained_sum_s=report.attained_sum_s,
            limit_q=self.limit_q,
            slow_ratio=self.slow_ratio,
            yields_level=self.yields_level,
            frees_s=self.frees_s,
            waits=[(Resources(cell.memory_mb, cell.vcores), cell.wait_s) for cell in report.waits],
            waits_s=self.reported_s if report.waits else 0.0,
            success_ratio=1 - self.lost_ratio,
        )
        self._recount()

    def _recount(self) -> None:
        view = self.bare
        for own in self.own.values():
            view = _with(view, own)
        self.view = view
        self.note_change()

    def note_change(self) -> None:
        """Note that its view changed, or that it is gone."""
        for changed in self.changed:
            changed[self.id] = None

    def show(self, view: NodeView) -> None:
        """Have the view of another worker of the proxy count from the next `refresh` on, with its limit and speed."""
        self.shown, self.limit_q, self.slow_ratio = view, view.limit_q, view.slow_ratio
        self.yields_level = view.yields_level

    def limit_to(self, limit_q: Resources | None) -> None:
        """Set the limit of queueable containers here, unless another worker does; None: what guaranteed ones leave."""
        if limit_q != self.limit_q and self.shown is None:
            self.limit_q = limit_q
            self._change(limit_q=limit_q)
            self.note_change()

    def answered(self, usable: bool) -> None:
        """Note whether an answer of the ResourceManager reported it as usable."""
        self.unusable = not usable
        self.view = replace(self.view, usable=self.view.usable and usable)
        self.bare = replace(self.bare, usable=self.view.usable)
        self.note_change()

    def slow_by(self, ratio: float) -> None:
        """Set how many times as long tasks take here as elsewhere, unless another worker does."""
        if ratio != self.slow_ratio and self.shown is None:
            self.slow_ratio = ratio
            self._change(slow_ratio=ratio)

    def ended(self, lost: bool) -> None:
        """Note that a container there ended, or was lost."""
        self.lost_ratio += (lost - self.lost_ratio) / MEMORY

    def yields(self, level: float) -> None:
        """Set the level of the work of the application whose container would give way here; -1 for none."""
        if level != self.yields_level:
            self.yields_level = level
            self._change(yields_level=level)

    def _change(self, **fields: Any) -> None:
        """Change fields of the view, with own containers and without."""
        bare, self.bare = self.bare, replace(self.bare, **fields)
        self.view = self.bare if self.view is bare else replace(self.view, **fields)

    @property
    def beyond(self) -> float:
        """Vcores in use beyond the node's, those on their way included, but none that wait for a core."""
        view = self.view
        return view.used_g.vcores + view.used_q.vcores - view.capacity.vcores

    def _asks(self, q: QPlacement) -> bool:
        return not q.over and q.node_id == self.id

    def count_asked(self, q: QPlacement) -> None:
        """Count a container that is being asked for here."""
        ask = q.ask
        self._count(q, Own(ask.resources, ask.expected_s * self.slow_ratio, False, q.placement.ahead, ask.app.id))

    def count_granted(self, live: HeldContainer, q: QPlacement | None) -> None:
        """Count a container that was granted here, once: as itself, no longer as what it was asked for as."""
        reservation = self.own.pop(q, None) if q is not None else None
        app_id = app_of_container(live.id) if q is None else q.ask.app.id
        own = Own(live.resources, live.expected_s, False, live.ahead, app_id)
        if reservation is None:
            self._count(live.id, own)
        else:
            self.own[live.id] = own

    def reserve(self, container_id: str, resources: Resources, expected_s: float) -> None:
        """Keep room for a container that is to move here."""
        self._count(container_id, Own(resources, expected_s, reserved=True))

    def unreserve(self, container_id: str) -> None:
        """Give up the reserved room."""
        if self.own.pop(container_id, None) is not None:
            self._recount()

    def replace_reserved(self, before: Iterable[str], now: Mapping[str, Own]) -> None:
        """Count containers that another worker of the proxy placed here, instead of those that it reported before."""
        counted = [key for key in before if self.own.pop(key, None) is not None]
        if not counted and not now:
            return  # the node has reported them
        self.own.update(now)
        while len(self.own) > MAX_OWN:
            self.own.popitem(last=False)
        self._recount()

    def _count(self, key: QPlacement | str, own: Own) -> None:
        self.own[key] = own
        if len(self.own) > MAX_OWN:
            self.own.popitem(last=False)
        self.note_change()
        self.view = _with(self.view, own)

    def confirm(self, report: Report, now_s: float) -> None:
        """Store a report; containers that it mentions are no longer counted on top."""
        self.report, self.reported_s, self.idle = report, now_s, None
        self.nm_down_s = (now_s if self.nm_down_s is None else self.nm_down_s) if report.nm_down else None
        if self.own:
            for container_id in [c.container_id for c in report.containers] + [e.container_id for e in report.events]:
                self.own.pop(container_id, None)


def _seen_of(yarn: YarnNode) -> tuple[str, str, str, str]:
    """Return what views have of YARN's record."""
    return yarn.host, yarn.rack, yarn.label, yarn.state


def _with(view: NodeView, own: Own) -> NodeView:
    """Return the view with one more queueable container: started where there is room, else behind the queue.

    The queue moves as fast as the cores work, whether containers share them or not.
    """
    resources = own.resources
    by_memory = view.capacity.memory_mb / resources.memory_mb if resources.memory_mb else 1.0
    by_cpu = view.capacity.vcores / resources.vcores if resources.vcores else 1.0
    more_s = own.expected_s / max(1.0, min(by_memory, by_cpu))
    apps = view.apps if not own.app_id or own.app_id in view.apps else view.apps | {own.app_id}
    count, unreported_s = view.containers + 1, view.unreported_s + more_s
    if not own.ahead and view.queue_length == view.ahead and view.has_room(resources):
        return _with_running(view, count, apps, unreported_s, view.used_q + resources, 0.0)
    ahead, queued_s = view.ahead + own.ahead, view.queued_s + more_s
    return _with_waiting(view, count, apps, unreported_s, view.queue_length + 1, ahead, queued_s)


_SEEN: Final = "containers", "apps", "unreported_s"
_with_running: Final = changer(NodeView, *_SEEN, "used_q", "since_queueable_s")
_with_waiting: Final = changer(NodeView, *_SEEN, "queue_length", "ahead", "queued_s")
