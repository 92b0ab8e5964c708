"""Metrics by YARN queue and application type, within bounds: queues beyond a limit, and rare types, are `other`."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from policies.model import AppView, Kind
from quicksilver.common.messages import KILL_CAUSES, SHED_CAUSES, ContainerEvent, EventKind
from rm_proxy.domain import exit_codes
from rm_proxy.domain.records import CompletionRecord

T = TypeVar("T")
OTHER: Final = "other"
TYPES: Final = ("MAPREDUCE", "SPARK", "TEZ")
BY_YARN: Final = "yarn"
"""Cause of kills by YARN itself: its preemption, or its NodeManager that makes room."""
_CAUSES: Final = SHED_CAUSES | KILL_CAUSES
_STATUSES: Final = (exit_codes.PREEMPTED, exit_codes.KILLED_BY_CONTAINER_SCHEDULER)
_DELAY_S: Final = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)
MAX_ENDS: Final = 10_000
Labels = tuple[str, str]
"""Queue and type."""


class QueueMetrics:
    """Counts by queue and type; an application that is not known yet counts as `other`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.max_queues = 0
        """How many queues have labels of their own: the first ones that are met."""
        self._registry = registry
        self._queues: set[str] = set()
        self._killed: OrderedDict[str, Labels] = OrderedDict()
        """Containers that YARN killed and whose end has not been reported."""
        self._ended: OrderedDict[str, float] = OrderedDict()
        """Work of containers that ended and whose completion is not known yet."""
        by_type = ("queue", "type")
        self.grants = self._counter(
            "grants", "Containers allocated, by queue, type (MAPREDUCE, SPARK, TEZ, other) and kind.", *by_type, "kind"
        )
        self.allocation_s = self._histogram(
            "allocation_delay_seconds", "Time from the ask to the delivery, by queue and kind.", "queue", "kind"
        )
        self.queueing_s = self._histogram(
            "queueing_seconds",
            "Time that started queueable containers waited at their nodes, by queue and type.",
            *by_type,
        )
        self.kills = self._counter(
            "kills",
            "Containers killed, by queue, type and cause: room, memory, queued (its NodeManager queued it), admit, "
            "drain, proxy, yarn (YARN's preemption, or its NodeManager).",
            *by_type,
            "cause",
        )
        self.sheds = self._counter(
            "sheds", "Waiting containers that were shed, by queue, type and cause.", *by_type, "cause"
        )
        self.lost_s = self._counter(
            "lost_seconds",
            "Work of killed containers by queue, type and cause: CPU seconds, else seconds for which they ran.",
            *by_type,
            "cause",
        )
        self.work_s = self._counter(
            "work_seconds",
            "Work of all containers that ran and are over, killed ones too, by queue and type: lost_seconds are the "
            "part of it that is done twice.",
            *by_type,
        )
        self._grants_of, self._allocation_of = cache(self.grants.labels), cache(self.allocation_s.labels)
        self._work_of = cache(self.work_s.labels)
        self.saved_s = self._counter(
            "saved_seconds", "CPU seconds that kills in place of shrinks would have lost, by queue and type.", *by_type
        )

    def labels(self, app: AppView | None) -> Labels:
        """Return an application's labels."""
        if app is None:
            return OTHER, OTHER
        if app.queue not in self._queues and len(self._queues) < self.max_queues:
            self._queues.add(app.queue)
        queue = app.queue if app.queue in self._queues else OTHER
        return queue, app.type if app.type in TYPES else OTHER

    def granted(self, app: AppView | None, kind: Kind, delay_s: float) -> None:
        """Count a container that was delivered."""
        queue, type_ = self.labels(app)
        self._grants_of(queue, type_, kind).inc()
        self._allocation_of(queue, kind).observe(max(0.0, delay_s))

    def event(self, app: AppView | None, event: ContainerEvent) -> None:
        """Count an event of a container."""
        labels, cause = self.labels(app), event.cause if event.cause in _CAUSES else OTHER
        if event.kind in (EventKind.KILLED, EventKind.ENDED) and not event.am:
            self._work_of(*labels).inc(_work_s(event))
        if event.kind is EventKind.STARTED and event.waited_s > 0:
            self.queueing_s.labels(*labels).observe(event.waited_s)
        elif event.kind is EventKind.SHED:
            self.sheds.labels(*labels, cause).inc()
        elif event.kind is EventKind.KILLED:
            self.kills.labels(*labels, cause).inc()
            self.lost_s.labels(*labels, cause).inc(_work_s(event))
        elif event.kind is EventKind.ENDED:
            if event.saved_s:
                self.saved_s.labels(*labels).inc(event.saved_s)
            killed = self._killed.pop(event.container_id, None)
            if killed is not None:
                self.lost_s.labels(*killed, BY_YARN).inc(_work_s(event))
            else:
                _keep(self._ended, event.container_id, _work_s(event))

    def completed(self, app: AppView | None, record: CompletionRecord) -> None:
        """Count a container's completion: kills by YARN are known by nothing else."""
        status = record.exit_status if record.original_exit_status is None else record.original_exit_status
        work_s = self._ended.pop(record.container_id, None)
        if record.own or status not in _STATUSES:
            return
        labels = self.labels(app)
        self.kills.labels(*labels, BY_YARN).inc()
        if work_s is None:
            _keep(self._killed, record.container_id, labels)
        else:
            self.lost_s.labels(*labels, BY_YARN).inc(work_s)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"quicksilver_proxy_queue_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(f"quicksilver_proxy_queue_{name}", text, labels, buckets=_DELAY_S, registry=self._registry)


def _work_s(event: ContainerEvent) -> float:
    """Return the work of a container, as the ledger counts it: CPU seconds, or the time for which it ran."""
    return event.attained_s if event.attained_s is not None else event.ran_s or 0.0


def _keep(ends: OrderedDict[str, T], key: str, value: T) -> None:
    ends[key] = value
    while len(ends) > MAX_ENDS:
        ends.popitem(last=False)
