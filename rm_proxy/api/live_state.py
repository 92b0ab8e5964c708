"""The coordinator's current state, as models of the REST API."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from policies.config.registry import Registry
from policies.model import AppView, Kind, Resources
from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.api.admission_views import admission_info
from rm_proxy.api.policy_views import policies_info, rollout_arms
from rm_proxy.api.queue_views import all_queues, one_queue, queue_tree
from rm_proxy.api.waiting_reasons import waits_now
from rm_proxy.api.yarn_pages import YarnPages
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.domain.records import AppRecord
from rm_proxy.history.open_waits import open_waits
from rm_proxy.views.admission_models import AdmissionInfo
from rm_proxy.views.application_models import ApplicationEntry
from rm_proxy.views.cluster_models import ApplicationInfo, NodeDetail, NodeInfo, QueueDetail, QueueInfo
from rm_proxy.views.container_models import LiveContainer
from rm_proxy.views.delays import OpenWaits
from rm_proxy.views.queue_models import QueueTree
from rm_proxy.views.service_models import ComparisonInfo, Difference, PoliciesInfo, RolloutArm
from rm_proxy.views.waiting_models import WaitsNow


class LiveState:
    """Answers from memory, in the event loop.

    report_fresh_s: age from which on a report makes its node unusable; source: returns the settings file in use;
    rm_web: URL of the ResourceManager's web server, for links to its pages.
    """

    def __init__(
        self, coordinator: Coordinator, report_fresh_s: float, source: Callable[[], str], rm_web: str = ""
    ) -> None:
        self._pages = YarnPages(rm_web)
        self._coordinator, self._report_fresh_s, self._source = coordinator, report_fresh_s, source
        self._registry = Registry()

    def nodes(self) -> Sequence[NodeInfo]:
        """Return all nodes, ordered by id."""
        return [NodeInfo(**fields) for fields in self.each_node()]

    def each_node(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of `NodeInfo` of the nodes that are known now, ordered by id, not validated again.

        The caller may do other things meanwhile.
        """
        for _, node in sorted(self._coordinator.nodes.items()):
            yield self._node(node)

    def node(self, node_id: str) -> NodeDetail | None:
        """Return a node with its containers; None when it is unknown."""
        node = self._coordinator.nodes.get(node_id)
        if node is None:
            return None
        return NodeDetail(**self._node(node), containers=node.report.containers if node.report else [])

    def _node(self, node: Node) -> dict[str, Any]:
        now_s = time.time()
        view, report, yarn = node.view, node.report, node.yarn
        fresh_s = self._report_fresh_s
        containers = report.containers if report else []
        return {
            **{name: getattr(view, name) for name in NodeInfo.model_fields if hasattr(view, name)},
            "container_count": view.containers,
            "count_g": sum(c.kind == Kind.GUARANTEED and c.state is not ContainerState.WAITING for c in containers),
            "count_q": sum(c.kind == Kind.QUEUEABLE and c.state is not ContainerState.WAITING for c in containers),
            "shrunk": sum(c.state is ContainerState.SHRUNK for c in containers),
            "id": node.id,
            "state": yarn.state if yarn else "UNKNOWN",
            "why_unusable": node.why_not(now_s, fresh_s) or "",
            "capacity": view.capacity if report else yarn.capacity if yarn else Resources(),
            "free_physical_mb": report.free_physical_mb if report else None,
            "draining": report.draining if report else False,
            "report_age_s": now_s - node.reported_s if report else None,
            "sidecar_url": report.sidecar_url if report else "",
            "nm_page": self._pages.node(yarn.web_address) if yarn else "",
            "version": report.version if report else "",
            "limits": report.limits if report else [],
            "targets": self._coordinator.targets.of(node.id),
            "settings_version": report.settings_version if report else "",
        }

    def applications(self) -> Sequence[ApplicationInfo]:
        """Return the applications that live now, ordered by id."""
        latest: dict[str, Attempt] = {}
        for attempt in self._coordinator.attempts.values():
            if not attempt.finished:
                latest[attempt.app_id] = attempt
        return [self._application(app_id, attempt) for app_id, attempt in sorted(latest.items())]

    def application(self, app_id: str) -> ApplicationInfo | None:
        """Return an application that lives now; None when there is no such one."""
        live = self._coordinator.attempts.living_of(app_id)
        return self._application(app_id, live[-1]) if live else None

    def queue_names(self) -> Collection[str]:
        """Return the full paths of all YARN queues."""
        return self._coordinator.queues

    def _application(self, app_id: str, attempt: Attempt) -> ApplicationInfo:
        coordinator = self._coordinator
        record: AppRecord | None = coordinator.inventory.records.get(app_id)
        view = coordinator.apps.app(app_id)
        live = attempt.live
        known = {name: getattr(record, name) for name in ApplicationInfo.model_fields if hasattr(record, name)}
        return ApplicationInfo(
            **(known | {"id": app_id, "tags": list(record.tags) if record else []}),
            mode=coordinator.modes.mode(view) if view else "active",
            mode_reason=coordinator.modes.why_bypass(app_id)
            if view
            else "the ResourceManager's REST has not reported it yet: all is guaranteed",
            attempt_id=attempt.id,
            wanted_g=sum(entry.g_share for entry in attempt.entries),
            wanted_q=sum(entry.q_wanted + len(entry.pending) for entry in attempt.entries),
            waits=coordinator.features.prober.why(attempt.id, time.time()),
            live_g=len(live) - live.count_q,
            live_q=live.count_q,
            used_g=live.used_g,
            used_q=live.used_q,
            rm_page=self._pages.application(app_id),
        )

    def queues(self) -> Sequence[QueueInfo]:
        """Return the leaf queues, ordered by name."""
        return all_queues(self._coordinator, self._pages)

    def queue(self, name: str) -> QueueDetail | None:
        """Return a queue with its users; None when it is unknown."""
        return one_queue(self._coordinator, name, self._pages)

    def queue_tree(self) -> QueueTree:
        """Return all queues, parents too."""
        return queue_tree(self._coordinator)

    def policies(self) -> PoliciesInfo:
        """Return the policies in use."""
        return policies_info(self._coordinator.policies, self._registry, self._source(), self._running(), time.time())

    def rollout_arms(self, apps: Collection[ApplicationEntry]) -> list[RolloutArm]:
        """Return how finished applications did by the alternative that the roll-outs give them."""
        return rollout_arms(self._coordinator.policies, apps)

    def _running(self) -> list[AppView]:
        coordinator = self._coordinator
        ids = dict.fromkeys(attempt.app_id for attempt in coordinator.attempts.living())
        return [app for app_id in ids if (app := coordinator.apps.app(app_id)) is not None]

    def comparisons(self) -> Sequence[ComparisonInfo]:
        """Return how alternatives compare, by name and slot."""
        shadow = self._coordinator.shadow
        return [
            ComparisonInfo(
                **{name: getattr(t, name) for name in ("alternative", "slot", "policy", "active", "since_s")},
                decisions=t.decisions,
                differ=t.differ,
                differ_percent=100 * t.differ / max(1, t.decisions),
                wait_less_s=t.wait_less_s / t.compared if t.compared else None,
                faults=t.faults,
                left_out=shadow.left_out.get("route" if t.slot in ("quota", "admit") else t.slot, 0),
                examples=[Difference(**asdict(example)) for example in reversed(t.examples)],
            )
            for _, t in sorted(shadow.tallies.items())
        ]

    def admission(self) -> AdmissionInfo:
        """Return which applications are in service as a whole, and which wait."""
        return admission_info(self._coordinator)

    def waits(self, app_id: str, now_s: float) -> WaitsNow | None:
        """Return what an application waits for; None when it does not live."""
        live = self._coordinator.attempts.living_of(app_id)
        return waits_now(self._coordinator, live[-1], now_s) if live else None

    def shrinks_now(self, app_id: str | None = None) -> int:
        """Return how often the containers that run now were shrunk, those of an application or all."""
        nodes = self._coordinator.nodes.values()
        reported = (c for node in nodes if node.report is not None for c in node.report.containers)
        return sum(c.times_shrunk for c in reported if app_id in (None, c.app_id))

    def open_waits(self, now_s: float, app_id: str | None = None) -> OpenWaits:
        """Return the waits so far of an application's containers, or of all."""
        return open_waits(self._coordinator, now_s, app_id)

    def containers_of(self, app_id: str) -> dict[str, ContainerReport]:
        """Return the containers of an application as the last reports have them, by id."""
        nodes = self._coordinator.nodes.values()
        reported = (c for node in nodes if node.report is not None for c in node.report.containers)
        return {c.container_id: c for c in reported if c.app_id == app_id}

    def container(self, container_id: str) -> LiveContainer | None:
        """Return a container as the last report of its node has it."""
        now_s = time.time()
        for node in self._coordinator.nodes.values():
            for container in node.report.containers if node.report else ():
                if container.container_id == container_id:
                    age_s = now_s - node.reported_s
                    return LiveContainer(node_id=node.id, report_age_s=age_s, container=container)
        return None
