"""The nodes as the coordinator knows them: YARN's record, the sidecar's last report, own placements on top."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from policies.model import Ask, NodeView, Resources
from rm_proxy.yarn_json import YarnNode
from shell.messages import Report

UNCONFIRMED_S: Final = 5.0
"""How long a placement counts at a node whose sidecar has not mentioned the container yet."""
MAX_UNCONFIRMED: Final = 10_000


@dataclass(slots=True)
class Own:
    """A placement that the node's sidecar has not confirmed yet."""

    at_s: float
    app_id: str
    resources: Resources
    expected_s: float
    container_id: str | None = None


@dataclass(slots=True)
class Node:
    """One node; `view` is what policies see."""

    id: str
    yarn: YarnNode | None = None
    report: Report | None = None
    reported_s: float = 0.0
    unusable: bool = False
    """An answer of the ResourceManager said so, and its REST has not been read again yet."""
    own: deque[Own] = field(default_factory=lambda: deque(maxlen=MAX_UNCONFIRMED))
    view: NodeView = field(default_factory=lambda: NodeView(""))

    def why_not(self, now_s: float, fresh_s: float) -> str | None:
        """Return why the node takes no queueable containers, None when it does."""
        if self.yarn is None:
            return "the ResourceManager does not list it"
        if not self.yarn.running:
            return f"its state is {self.yarn.state}"
        if self.unusable:
            return "the ResourceManager said that it became unusable"
        if self.report is None:
            return "its sidecar has never reported"
        if now_s - self.reported_s > fresh_s:
            return f"its sidecar's last report is {now_s - self.reported_s:.0f} s old"
        return "its sidecar is draining" if self.report.draining else None

    def refresh(self, now_s: float, fresh_s: float) -> None:
        """Compute the view anew; placements that are too old to be unconfirmed are dropped."""
        while self.own and now_s - self.own[0].at_s > UNCONFIRMED_S:
            self.own.popleft()
        yarn, report = self.yarn, self.report
        if yarn is None or report is None:
            host = self.id.rpartition(":")[0]
            self.view = NodeView(self.id, host=yarn.host if yarn else host, usable=False)
            return
        capacity = Resources(report.memory_mb, report.vcores)
        view = NodeView(
            id=self.id,
            host=yarn.host,
            rack=yarn.rack,
            label=yarn.label,
            usable=self.why_not(now_s, fresh_s) is None,
            capacity=capacity,
            used_g=Resources(report.used_g_mb, report.used_g_vcores),
            used_q=Resources(report.used_q_mb, report.used_q_vcores),
            queue_length=report.queue_length,
            queued_s=report.queued_s,
            remaining_s=report.remaining_s,
            since_queueable_s=report.since_queueable_s,
            containers=sum(not c.am for c in report.containers),
            slots=report.slots,
            attained_sd_s=report.attained_sd_s,
        )
        for own in self.own:
            view = _with(view, own.resources, own.expected_s)
        self.view = view

    def place(self, ask: Ask, now_s: float) -> None:
        """Count a placement that has just been made."""
        self.own.append(Own(now_s, ask.app.id, ask.resources, ask.expected_s))
        self.view = _with(self.view, ask.resources, ask.expected_s)

    def name(self, app_id: str, container_id: str) -> None:
        """Note which container a placement became."""
        for own in self.own:
            if own.container_id is None and own.app_id == app_id:
                own.container_id = container_id
                return

    def confirm(self, report: Report, now_s: float) -> None:
        """Take in a report; placements that it mentions are no longer counted on top."""
        self.report, self.reported_s = report, now_s
        if self.own:
            mentioned = {c.container_id for c in report.containers} | {e.container_id for e in report.events}
            kept = [own for own in self.own if own.container_id not in mentioned]
            self.own = deque(kept, maxlen=MAX_UNCONFIRMED)


def _with(view: NodeView, resources: Resources, expected_s: float) -> NodeView:
    """Return the view with one more queueable container: started where there is room, else behind the queue.

    The queue moves as fast as the cores work, whether containers share them or not.
    """
    if view.queue_length == 0 and view.has_room(resources):
        return replace(view, used_q=view.used_q + resources, containers=view.containers + 1)
    by_memory = view.capacity.memory_mb / resources.memory_mb if resources.memory_mb else 1.0
    by_cpu = view.capacity.vcores / resources.vcores if resources.vcores else 1.0
    queued_s = view.queued_s + expected_s / max(1.0, min(by_memory, by_cpu))
    return replace(view, queue_length=view.queue_length + 1, queued_s=queued_s, containers=view.containers + 1)
