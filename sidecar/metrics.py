"""Metrics of the sidecar, in a registry of its own; every name begins with `quicksilver_sidecar_`."""

from __future__ import annotations

import math
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest

from policies.model import Resources
from quicksilver.common.messages import Targets

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_QUEUE_S: Final = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
_RESIZE_S: Final = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 1)
_ROOM_S: Final = (0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_P: Final = "quicksilver_sidecar_"


class SidecarMetrics:
    """All metrics of one sidecar; labels are few and bounded, never ids."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        ProcessCollector(namespace="quicksilver_sidecar", registry=self.registry)
        self._connections()
        self._containers()
        self._resizes()
        self._surroundings()

    def exposition(self) -> bytes:
        """Return the text of `/metrics`, of type CONTENT_TYPE."""
        return generate_latest(self.registry)

    def set_use(self, capacity: Resources, guaranteed: Resources, queueable: Resources) -> None:
        """Set the gauges of memory and vcores."""
        for kind, amount in (("capacity", capacity), ("G", guaranteed), ("Q", queueable)):
            self.memory_mb.labels(kind).set(amount.memory_mb)
            self.vcores.labels(kind).set(amount.vcores)

    def set_stalls(self, memory: float | None, cpu: float | None) -> None:
        """Set the gauges of stalls; None where the kernel does not report them."""
        for resource, ratio in (("memory", memory), ("cpu", cpu)):
            if ratio is not None:
                self.stall_ratio.labels(resource).set(ratio)

    def set_targets(self, targets: Targets | None) -> None:
        """Set the gauges of the proxy's targets for this node."""
        gauges = (("max_wait_s", self.max_wait_s), ("max_queue", self.max_queue), ("limit_q_mb", self.limit_q_mb))
        for name, gauge in gauges:
            limit = getattr(targets, name, None)
            gauge.set(math.nan if limit is None else limit)

    def _connections(self) -> None:
        self.connections = self._gauge("connections", "Connections of application masters that are open now.")
        self.journal_failures = self._gauge("journal_failures", "Writes of the journal that failed since the start.")
        self.taken_over = self._gauge(
            "taken_over_containers", "Containers that were known from the journal at the start."
        )
        self.sessions = self._gauge("sessions_kept", "NodeManager sessions kept open after their client closed.")
        self.certificate_ends_s = self._gauge(
            "certificate_ends_seconds", "When the certificate of REST ends, Unix time; NaN without one."
        )
        self.auth_failures = self._counter(
            "auth_failures",
            "REST calls refused, by reason (none: no credentials, token: unknown, "
            "role, host: not this server's name, tls).",
            "reason",
        )
        self.connections_opened = self._counter("connections_opened", "Connections of application masters accepted.")
        self.connections_refused = self._counter(
            "connections_refused", "Connections closed at once, by reason (limit, upstream, handshake).", "reason"
        )
        self.encrypted_connections = self._counter(
            "encrypted_connections", "Connections relayed unread because their SASL session signs or encrypts."
        )
        self.protocol_errors = self._counter("protocol_errors", "Connections closed for bytes out of form.", "side")

    def _containers(self) -> None:
        self.starts = self._counter("starts", "Starts by action (held, forwarded).", "action")
        self.events = self._counter("container_events", "Events of containers by kind.", "kind")
        self.sheds = self._counter("sheds", "Waiting containers that were shed, by cause.", "cause")
        self.max_wait_s = self._gauge("max_wait_seconds", "Longer waits are shed; NaN without a limit.")
        self.max_queue = self._gauge("max_queue", "Longer queues are shed; NaN without a limit.")
        self.limit_q_mb = self._gauge("limit_q_mb", "Memory that is left to queueable containers; NaN without a limit.")
        self.queueing_s = self._histogram(
            "queueing_seconds", "Time that started queueable containers waited here.", _QUEUE_S
        )
        self.room_s = self._histogram(
            "room_seconds", "Time from the decision to kill a container to its end in the NodeManager.", _ROOM_S
        )
        self.queue_length = self._gauge("queue_length", "Starts that wait.")
        self.queue_bytes = self._gauge("queue_bytes", "Bytes of the starts that wait.")
        self.running = self._gauge("containers", "Containers that use the node, by kind (G, Q, O).", "kind")
        self.memory_mb = self._gauge("memory_mb", "Memory by allocation: capacity, G, Q.", "what")
        self.vcores = self._gauge("vcores", "Vcores by allocation: capacity, G, Q.", "what")
        self.free_physical_mb = self._gauge("free_physical_mb", "Physical memory that is free.")

    def _resizes(self) -> None:
        self.attached = self._counter("attached", "Attached containers by resizer.", "resizer")
        self.resizes = self._counter(
            "resizes", "Resizes by resizer and action (shrink, freeze, restore).", "resizer", "action"
        )
        self.resize_s = self._histogram("resize_seconds", "Time of a resize.", _RESIZE_S, "resizer", "action")
        self.resize_failures = self._counter("resize_failures", "Refused resizes.", "resizer", "action")
        self.reasserts = self._counter("reasserts", "Limits that somebody else had rewritten.", "resizer")
        self.preemptions = self._counter("preemptions", "Preempted containers, by how (shrink, freeze, kill).", "way")
        self.work_saved_s = self._counter(
            "work_saved_seconds",
            "CPU seconds that kills would have lost in place of shrinks: attained since the one before.",
        )
        self.shrunk = self._gauge("shrunk", "Throttled containers that live.")
        self.squeezed = self._gauge(
            "memory_squeezed", "1 while physical memory is short: nothing is started or resumed."
        )
        self.memory_kills = self._counter(
            "memory_kills", "Containers killed as the last resort against a lack of memory."
        )
        self.stall_ratio = self._gauge(
            "stall_ratio", "Part of the last 10 s that was stalled (PSI; memory, cpu).", "what"
        )
        self.attained_sd_s = self._gauge("attained_sd_seconds", "Standard deviation of attained service.")

    def _surroundings(self) -> None:
        self.reports = self._counter(
            "reports", "Reports to the proxy, by outcome (taken, unreachable, refused).", "outcome"
        )
        self.events_dropped = self._counter("events_dropped", "Events that were given up because the proxy took none.")
        self.ends = self._counter("ends", "Ends of containers, by how they were noticed (process, nodemanager).", "by")
        self.nm_errors = self._counter("nodemanager_errors", "Calls of the NodeManager's REST that failed.")
        self.reloads = self._counter(
            "reloads",
            "Settings read, by how (start, sighup, rest, command, window) and result (ok, refused).",
            "how",
            "result",
        )
        self.settings = Info(_P + "settings", "The version of the settings in use.", registry=self.registry)
        self.policy_faults = self._counter("policy_faults", "Faults of policies, by slot.", "slot")

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(_P + name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(_P + name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(_P + name, text, labels, registry=self.registry, buckets=buckets)
