"""The node machine's policy calls: a failed policy is counted, and a default answer is used."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import ContainerView, Gap, Resources
from quicksilver.common.process.logs import get_logger
from sidecar.metrics import SidecarMetrics
from sidecar.shadow.node_shadow import NodeShadow

log = get_logger(__name__)


CpuTimes = Callable[[Collection[str]], Mapping[str, float]]
"""From ids of containers to their CPU time in seconds; those that cannot be measured are left out."""


class GuardedPolicies:
    """The policies of one node; `current` is replaced when the settings are read again."""

    def __init__(self, current: Policies, metrics: SidecarMetrics, clock: Callable[[], float] = time.time) -> None:
        self.current, self._metrics, self._clock = current, metrics, clock
        self.shadow = NodeShadow(lambda: self.current)
        self.cpu_times: CpuTimes = lambda container_ids: {}
        """Measures containers whose CPU time nothing else measures."""

    def order_key(self, waiting: ContainerView, now_s: float) -> tuple[float, ...]:
        """Return the sort key of a waiting container; order of arrival when the policy fails."""
        try:
            return self.current.node.order_key(waiting, now_s)
        except PolicyFaultError as error:
            self._fault("order", error)
            return ()

    def order_steady(self) -> object:
        """Return a token that changes whenever keys of waiting containers may have changed."""
        return self.current.node.order_steady()

    def bypass_limit_s(self, waiting: ContainerView) -> float | None:
        """Return how long a container waits before others may no longer overtake it."""
        return self.current.node.bypass_limit_s(waiting)

    def waits_by_size(self) -> bool:
        """Return whether the `place` policy looks at waits by size."""
        return self.current.node.waits_by_size

    def fills(self) -> bool:
        """Return whether any container may start before the first of the queue where that one does not fit."""
        return self.current.node.fills or self.shadow.looks_for_gaps(self._clock())

    def fill(self, waiting: ContainerView, gap: Gap) -> bool:
        """Return whether a container may start before the first of the queue; not when the policy fails."""
        try:
            answer = self.current.node.fill(waiting, gap)
        except PolicyFaultError as error:
            self._fault("fill", error)
            return False
        self.shadow.fill(waiting, gap, answer, self._clock())
        return answer

    def victims(self, need: Resources, running: Sequence[ContainerView], now_s: float) -> list[str]:
        """Return the containers to preempt for `need`; none when the policy fails."""
        try:
            measured = self._measured([self._marked(container, now_s) for container in running])
            victims = self.current.node.victims(need, measured, now_s)
        except PolicyFaultError as error:
            self._fault("preempt", error)
            return []
        self.shadow.preempt(need, measured, victims, now_s)
        return victims

    def _marked(self, container: ContainerView, now_s: float) -> ContainerView:
        """Return a container with whether it is protected."""
        protected = self.protects(container.queue, container.started_s, now_s)
        return replace(container, protected=True) if protected else container

    def protects(self, queue: str, started_s: float | None, now_s: float) -> bool:
        """Return whether a container of a YARN queue has run for less than `policies.protect` says."""
        protect_s = self.current.kills.protect_s(queue)
        return protect_s > 0 and (started_s is None or now_s - started_s < protect_s)

    def _measured(self, running: Sequence[ContainerView]) -> Sequence[ContainerView]:
        """Return the containers with their CPU time, where the policy or an alternative in shadow looks at it."""
        unknown = [container.id for container in running if container.attained_s is None]
        policy_sets = self.current, *(self.current.alternatives[name] for name in self.current.shadow)
        if not unknown or not any(policies.node.kills_by_work for policies in policy_sets):
            return running
        cpu_s = self.cpu_times(unknown)
        return [replace(container, attained_s=cpu_s.get(container.id, container.attained_s)) for container in running]

    def grace_s(self) -> float:
        """Return how long a guaranteed start waits for queueable containers that are about to end."""
        return self.current.node.grace_s

    def notice_s(self, app_type: str) -> float:
        """Return the time between the notice to an application master of a type and the kill of its container."""
        return self.current.kills.notice_s(app_type)

    def _fault(self, slot: str, error: PolicyFaultError) -> None:
        self._metrics.policy_faults.labels(slot).inc()
        log.error(
            "a policy failed: until it works, order of arrival applies, no gap is filled and nothing is preempted",
            slot=slot,
            why=str(error),
        )
