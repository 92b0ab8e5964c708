"""Expected durations of tasks and jobs, learned from the containers that ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.model import AppView
from quicksilver.common.messages import ContainerEvent, EventKind, Report, Targets
from rm_proxy.attempt.effects import Estimated
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.job_outlook import JobOutlook
from rm_proxy.estimates.estimator import MIN_S, EstimateSource, Estimator, Expectation, worked_s
from rm_proxy.estimates.node_speeds import Speeds

_UNDER_WAY: Final = (EventKind.HELD, EventKind.STARTED)


class TaskDurations:
    """Ends of containers in, expectations out. `apps`: the applications that are known, by id."""

    def __init__(
        self, state: ClusterState, apps: Mapping[str, AppView], attempts: AttemptIndex, estimator: Estimator
    ) -> None:
        self._state, self._apps = state, apps
        self.estimator = estimator
        self.speeds = Speeds()
        self.outlook = JobOutlook(self._of_app, attempts.living_of)
        """Called with the run time of each container that ended."""

    def expected(self, app: AppView, priority: int, follows: str = "") -> Expectation:
        """Return how long a task is expected to run, with spread and source."""
        return self.estimator.expected(app, priority, self._state.policies, follows)

    def named(self, app_id: str, hints: Mapping[int, float]) -> None:
        """Handle durations (s) that requests of an application name, by priority."""
        self.estimator.named(app_id, hints)

    def job_remaining_s(self, app_id: str, now_s: float) -> float:
        """Return the estimated task-seconds that an application has left; at most a round old."""
        return self.outlook.job_remaining_s(app_id, now_s)

    def _of_app(self, app_id: str, priority: int) -> Expectation | None:
        app = self._apps.get(app_id)
        return self.expected(app, priority) if app is not None else None

    def observe(self, node_id: str, report: Report, now_s: float) -> None:
        """Learn from containers that outlive their estimates; the node's report has been confirmed."""
        state, elsewhere, containers = self._state, self.outlook.elsewhere, report.containers
        if elsewhere:
            containers = [c for c in containers if c.app_id not in elsewhere]
        slow_ratio = state.nodes[node_id].slow_ratio
        outlived = self.estimator.running(node_id, containers, self._apps, state.policies, slow_ratio)
        self.speeds.running(node_id, outlived, now_s)

    def learn(self, event: ContainerEvent, live: HeldContainer, app: AppView, node_id: str, now_s: float) -> None:
        """Learn the duration of a container that ended or was lost; one that was released early teaches nothing.

        The estimator gets what the task would have taken on a node that is as fast as most.
        """
        if event.kind in _UNDER_WAY:
            return
        took_s, slow_ratio = worked_s(event), self._state.nodes[node_id].slow_ratio
        if event.kind is EventKind.ENDED and took_s is not None and not live.released:
            policies = self._state.policies
            self._state.effects.append(Estimated(live.source, live.expected_s, took_s))
            known, limit = self.expected(app, live.priority), policies.for_nodes.section.estimate.node_tasks
            if known.source is not EstimateSource.DEFAULT and limit:
                self.speeds.observe(node_id, max(MIN_S, took_s), known.mean_s, limit, now_s)
            for step in self._state.hooks.worked:
                step(app.id, took_s / slow_ratio)
            self.estimator.observe(app, live.priority, took_s / slow_ratio, policies.estimate(app))
        elif event.kind in (EventKind.KILLED, EventKind.SHED, EventKind.LOST):
            self.estimator.lost(live.id, (took_s or 0.0) / slow_ratio, live.follows)

    def news(self, node_id: str, targets: Targets, report: Report, now_s: float) -> Targets:
        """Return a node's targets with the outlook of jobs that wait or run there."""
        state = self._state
        shrinking = state.policies.node.shrinking() if report.slots else None
        sharing = state.giving_way.at(node_id) if shrinking is not None and shrinking.by_job else ()
        slow_ratio = state.nodes[node_id].slow_ratio
        return self.outlook.news(targets, report, now_s, slow_ratio, sharing, state.giving_way.spares)

    def round(self, now_s: float) -> None:
        """Do the work of each second; update the speeds of nodes."""
        self.estimator.round()
        self.outlook.round()
        compared = self._state.policies.for_nodes.section.estimate.node_tasks > 0
        odd = self.speeds.round(now_s) if compared else self.speeds.clear()
        for node_id in odd:
            node = self._state.nodes.get(node_id)
            if node is not None:
                node.slow_by(self.speeds.of(node_id))

    def forget_node(self, node_id: str) -> None:
        """Forget a node that left the cluster."""
        self.estimator.forget_node(node_id)
        self.speeds.forget(node_id)
