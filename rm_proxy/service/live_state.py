"""What the running proxy knows, in the form of the REST API."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, Protocol

from policies.base import SLOTS
from policies.config.registry import Registry
from policies.model import Resources
from quicksilver.common.http.rest import ApiError
from quicksilver.common.messages import Ack, ContainerState, Draining, ReloadAnswer, ReloadRequest, Report
from quicksilver.common.process.version import version
from quicksilver.common.settings.reload import How
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.config import Endpoints, ProxySettings
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import Order
from rm_proxy.coordinator.nodes import Node
from rm_proxy.domain.records import AppRecord, DecisionRecord
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.am_connections import AmConnection
from rm_proxy.service.bypass_control import BypassControl
from rm_proxy.service.decision_sampling import Decisions
from rm_proxy.service.node_drain import NodeDrain
from rm_proxy.service.queue_views import all_queues, one_queue
from rm_proxy.service.reload import ProxyReloader
from rm_proxy.service.yarn_poller import YarnPoller
from rm_proxy.store.queries import History
from rm_proxy.store.store import Store
from rm_proxy.store.writer import Writer
from rm_proxy.views.models import (
    ActivePolicy,
    ApplicationInfo,
    BypassInfo,
    Comparison,
    Difference,
    Health,
    LiveContainer,
    NodeDetail,
    NodeInfo,
    PoliciesInfo,
    QueueDetail,
    QueueInfo,
)

_ENCRYPTED_S: Final = 600.0
"""For so long after an encrypted connection this is said."""
_ENCRYPTED: Final = (
    "signed or encrypted connections of application masters pass unread, so that nothing of theirs becomes queueable: "
    "let this port speak hadoop.rpc.protection=authentication (docs/security.md)"
)


class Running(Protocol):
    """The running proxy, as far as its REST tells of it."""

    settings: ProxySettings
    endpoints: Endpoints
    coordinator: Coordinator
    metrics: ProxyMetrics
    store: Store
    writer: Writer
    poller: YarnPoller
    open_connections: set[AmConnection]
    started_s: float
    upstream_down: str | None
    encrypted_s: float
    reloader: ProxyReloader
    decisions: Decisions
    bypass: BypassControl
    node_drain: NodeDrain

    def report(self, node_id: str, report: Report) -> Ack:
        """Take in a sidecar's report."""


class LiveState:
    """Answers from memory, in the event loop; `history` asks the store in worker threads."""

    def __init__(self, proxy: Running) -> None:
        self._proxy = proxy
        self._history = History(proxy.store)
        self._registry = Registry()

    @property
    def history(self) -> History:
        """The store's queries."""
        return self._history

    @property
    def metrics(self) -> ProxyMetrics:
        """What `/metrics` shows."""
        return self._proxy.metrics

    def nodes(self) -> Sequence[NodeInfo]:
        """Return all nodes, ordered by id."""
        return [NodeInfo(**self._node(node)) for _, node in sorted(self._proxy.coordinator.nodes.items())]

    def node(self, node_id: str) -> NodeDetail | None:
        """Return a node with its containers; None when it is unknown."""
        node = self._proxy.coordinator.nodes.get(node_id)
        if node is None:
            return None
        return NodeDetail(**self._node(node), containers=node.report.containers if node.report else [])

    def _node(self, node: Node) -> dict[str, object]:
        now_s = time.time()
        view, report, yarn = node.view, node.report, node.yarn
        fresh_s = self._proxy.settings.report_fresh_s
        containers = report.containers if report else []
        return {
            **{name: getattr(view, name) for name in NodeInfo.model_fields if hasattr(view, name)},
            "container_count": view.containers,
            "shrunk": sum(c.state is ContainerState.SHRUNK for c in containers),
            "id": node.id,
            "state": yarn.state if yarn else "UNKNOWN",
            "why_unusable": node.why_not(now_s, fresh_s) or "",
            "capacity": view.capacity if report else yarn.capacity if yarn else Resources(),
            "free_physical_mb": report.free_physical_mb if report else None,
            "draining": report.draining if report else False,
            "report_age_s": now_s - node.reported_s if report else None,
            "sidecar_url": report.sidecar_url if report else "",
            "limits": report.limits if report else [],
            "targets": self._proxy.coordinator.targets.of(node.id),
            "settings_version": report.settings_version if report else "",
        }

    def applications(self) -> Sequence[ApplicationInfo]:
        """Return the applications that live now, ordered by id."""
        latest: dict[str, Attempt] = {}
        for attempt in self._proxy.coordinator.attempts.values():
            if not attempt.finished:
                latest[attempt.app_id] = attempt
        return [self._application(app_id, attempt) for app_id, attempt in sorted(latest.items())]

    def _application(self, app_id: str, attempt: Attempt) -> ApplicationInfo:
        coordinator = self._proxy.coordinator
        record: AppRecord | None = coordinator.records.get(app_id)
        view = coordinator.app(app_id)
        live = attempt.live
        known = {name: getattr(record, name) for name in ApplicationInfo.model_fields if hasattr(record, name)}
        return ApplicationInfo(
            **(known | {"id": app_id, "tags": list(record.tags) if record else []}),
            mode=coordinator.mode(view) if view else "active",
            mode_reason=coordinator.why_bypass(app_id)
            if view
            else "the ResourceManager's REST has not told about it yet: all is guaranteed",
            attempt_id=attempt.id,
            wanted_g=sum(entry.g_share for entry in attempt.entries),
            wanted_q=sum(entry.q_wanted + len(entry.pending) for entry in attempt.entries),
            live_g=len(live) - live.count_q,
            live_q=live.count_q,
            used_g=live.used_g,
            used_q=live.used_q,
        )

    def queues(self) -> Sequence[QueueInfo]:
        """Return the leaf queues, ordered by name."""
        return all_queues(self._proxy.coordinator)

    def queue(self, name: str) -> QueueDetail | None:
        """Return a queue with its users; None when it is unknown."""
        return one_queue(self._proxy.coordinator, name)

    def policies(self) -> PoliciesInfo:
        """Return the policies in use."""
        policies = self._proxy.coordinator.policies
        described = policies.describe()
        active = [
            ActivePolicy(slot=slot, name=chosen["policy"], settings=chosen["settings"])
            for slot, chosen in described.items()
            if isinstance(chosen, dict) and "policy" in chosen
        ]
        active += [
            ActivePolicy(slot="quota", name=chosen["policy"], settings=chosen["settings"])
            for chosen in described["quota"]
        ]
        active.insert(0, ActivePolicy(slot="route", name="by rules", rules=described["routes"]))
        available = {slot: self._registry.names(slot) for slot in SLOTS}
        return PoliciesInfo(
            active=active,
            available=available,
            source=self._proxy.reloader.source,
            version=policies.version,
            windows_open=list(policies.hours.open),
            alternatives=list(policies.alternatives),
        )

    def comparisons(self) -> Sequence[Comparison]:
        """Return how alternatives compare, by name and slot."""
        shadow = self._proxy.coordinator.shadow
        return [
            Comparison(
                **{name: getattr(t, name) for name in ("alternative", "slot", "policy", "active", "since_s")},
                decisions=t.decisions,
                differ=t.differ,
                differ_percent=100 * t.differ / max(1, t.decisions),
                wait_less_s=t.wait_less_s / t.compared if t.compared else None,
                faults=t.faults,
                left_out=shadow.left_out.get("route" if t.slot == "quota" else t.slot, 0),
                examples=[Difference(**asdict(example)) for example in reversed(t.examples)],
            )
            for _, t in sorted(shadow.tallies.items())
        ]

    async def reload(self, who: str, how: How, request: ReloadRequest) -> ReloadAnswer:
        """Read the settings anew. Raises ReloadRefusedError."""
        return await self._proxy.reloader.reload(who, how, request)

    async def drain(self, node_id: str, wanted: Draining, who: str) -> None:
        """Have a node hold nothing, or hold starts again. Raises ApiError when its sidecar cannot be told."""
        await self._proxy.node_drain.drain(node_id, wanted, who)

    def recent(self) -> Sequence[DecisionRecord]:
        """Return the last decisions beside those of delivered containers, the newest first."""
        return self._proxy.decisions.recent()

    def health(self) -> Health:
        """Return whether all is well."""
        proxy = self._proxy
        nodes = proxy.coordinator.nodes.values()
        usable = sum(1 for node in nodes if node.view.usable)
        down = proxy.poller.failures
        problems = [f"the ResourceManager's REST: {why}" for why in dict.fromkeys(down.values())]
        if proxy.upstream_down is not None:
            problems.append(f"the ResourceManager's scheduler cannot be reached: {proxy.upstream_down}")
        if proxy.writer.outage is not None:
            problems.append(f"the store takes nothing: {proxy.writer.outage}")
        if time.time() - proxy.encrypted_s < _ENCRYPTED_S:
            problems.append(_ENCRYPTED)
        problems += proxy.bypass.problems()
        now_s = time.time()
        for node in nodes:
            why = node.why_not(now_s, proxy.settings.report_fresh_s)
            if why is not None and node.yarn is not None and node.yarn.running:
                problems.append(f"node {node.id} takes no queueable containers: {why}")
        endpoints = proxy.endpoints
        return Health(
            status="degraded" if problems else "ok",
            version=version(),
            settings_version=proxy.coordinator.policies.version,
            started_s=proxy.started_s,
            mode=proxy.coordinator.policies.section.mode,
            listen=str(endpoints.listen),
            upstream=str(endpoints.upstream),
            rm_web=endpoints.rm_web,
            rm_reachable=proxy.upstream_down is None and not down,
            nodes=len(nodes),
            nodes_usable=usable,
            connections=len(proxy.open_connections),
            attempts=sum(1 for a in proxy.coordinator.attempts.values() if not a.finished),
            store=proxy.store.name,
            store_backlog=proxy.writer.backlog,
            problems=problems[:50],
        )

    def bypass(self) -> BypassInfo:
        """Return who is in bypass, and why."""
        return self._proxy.bypass.info()

    def order_bypass(self, order: Order, who: str) -> BypassInfo:
        """Take an admin's order."""
        return self._proxy.bypass.order(order, who)

    def container(self, container_id: str) -> LiveContainer | None:
        """Return a container as the last report of its node has it."""
        now_s = time.time()
        for node in self._proxy.coordinator.nodes.values():
            for container in node.report.containers if node.report else ():
                if container.container_id == container_id:
                    age_s = now_s - node.reported_s
                    return LiveContainer(node_id=node.id, report_age_s=age_s, container=container)
        return None

    def report(self, node_id: str, report: Report) -> Ack:
        """Take a sidecar's report."""
        if not self._proxy.coordinator.takes_report(node_id):
            raise ApiError(503, "too-many-nodes", f"the ResourceManager lists no {node_id}, nor others that report")
        return self._proxy.report(node_id, report)
