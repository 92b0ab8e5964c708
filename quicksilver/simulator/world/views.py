"""What schedulers know in the papers and not in production: estimates that never learn, views that are old or wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from policies.config.policy_set import Policies
from policies.config.schema import Estimate
from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, Placement
from policies.value_types import replace
from quicksilver.common.messages import ContainerReport, Report
from rm_proxy.coordinator.placement import Placer
from rm_proxy.estimates.estimator import Estimator


class FixedEstimates(Estimator):
    """Estimates that never learn: what masters said stays."""

    def observe(self, app: AppView, priority: int, ran_s: float, estimate: Estimate) -> None:
        """Leave a task that ended."""

    def lost(self, container_id: str, ran_s: float, follows: str = "") -> None:
        """Leave a task that was lost."""

    def running(
        self,
        node_id: str,
        containers: Iterable[ContainerReport],
        apps: Mapping[str, AppView],
        policies: Policies,
        slow_ratio: float = 1.0,
    ) -> list[float]:
        """Leave what runs."""
        return []


class ReportedPlacer(Placer):
    """Mercury's own schedulers (§6.3): many, which know the nodes by their last reports and nothing of each other.

    No placements are counted on top of the reports, one's own neither. That a report takes another heartbeat from the
    ResourceManager to the schedulers is left out.
    """

    def place(self, ask: Ask, avoid: Set[str], follows: str = "") -> Placement:
        """Choose a node according to the last reports."""
        nodes, policies, rng = self.state.nodes, self.state.policies, self.state.rng
        views = [node.bare for node in nodes.values() if node.bare.usable and node.id not in avoid]
        try:
            placement = policies.place(ask, views, rng)
        except PolicyFaultError as error:
            return Placement(None, reason=f"a policy failed: {error}")
        if placement.node is None:
            return placement
        return replace(placement, wait_s=nodes[placement.node].bare.wait_s, version=policies.version)


def understated(report: Report, times: float) -> Report:
    """Return a report of waits that are so many times longer than it says."""
    return report.model_copy(update={"queued_s": report.queued_s / times, "remaining_s": report.remaining_s / times})
