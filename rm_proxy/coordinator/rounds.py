"""The coordinator's work of each second: bypass, targets of nodes, promotions, moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.waiting import WaitingApp
from rm_proxy.admission.admissions import Admissions
from rm_proxy.admission.reclaim import Reclaimer
from rm_proxy.attempt.effects import Faulted
from rm_proxy.coordinator.app_modes import AppModes
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.nodes.node_queues import Cluster
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.coordinator.nodes.targets import TargetSetter
from rm_proxy.coordinator.promotion_choice import Promoter
from rm_proxy.coordinator.settings_change import SettingsChange
from rm_proxy.coordinator.shadow import Shadow
from rm_proxy.coordinator.task_durations import TaskDurations
from rm_proxy.coordinator.yarn_inventory import YarnInventory
from rm_proxy.dispatch.central_queue import CentralQueue
from rm_proxy.domain.comparison import Compare, Question
from rm_proxy.job_classes.short_and_long import ShortAndLong
from rm_proxy.probes.corrector import Corrector
from rm_proxy.probes.order_shadow import OrderShadow
from rm_proxy.probes.prober import Prober

T = TypeVar("T")
MAX_COMPARED: Final = 500
"""Waiting applications of which alternatives choose the first one."""
BREAK_EVERY: Final = 50
"""Nodes or attempts that a round handles without a break; each takes some 10 us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The parts of the coordinator with work each second, in their order."""

    state: ClusterState
    cluster: Cluster
    attempts: AttemptIndex
    inventory: YarnInventory
    modes: AppModes
    durations: TaskDurations
    short_and_long: ShortAndLong
    prober: Prober
    probe_order: OrderShadow
    admissions: Admissions
    reclaimer: Reclaimer
    corrector: Corrector
    central: CentralQueue
    compare: Compare
    settings_change: SettingsChange
    targets: TargetSetter
    promoter: Promoter
    shadow: Shadow
    mover: Mover

    def all_parts(self, now_s: float) -> None:
        """Do a whole round without a break."""
        for _ in self.in_parts(now_s):
            pass

    def in_parts(self, now_s: float) -> Iterator[None]:
        """Do a round with breaks after a fraction of a millisecond, in which reports and requests are handled."""
        self.state.round_s = now_s
        self.state.bind_ahead()
        self.modes.round(now_s)
        self.durations.round(now_s)
        yield
        self._classify(now_s)
        yield
        unsettled = self._unsettled(now_s)
        away = any(node.away(now_s, self.state.limits.report_fresh_s) is not None for node in unsettled)
        for node in _with_breaks(unsettled):
            if node is None:
                yield
                continue
            self.inventory.refresh(node, now_s)
            if now_s - node.reported_s > self.state.limits.report_fresh_s:
                self.durations.estimator.forget_node(node.id)
        self.inventory.round()
        yield from self._guard(now_s, away)
        yield
        if self.state.serving:
            self._decide(now_s)

    def _classify(self, now_s: float) -> None:
        """Forget the classes of applications that ended, and choose the nodes that long ones are kept off."""
        living = {attempt.app_id for attempt in self.attempts.living()}
        self.short_and_long.round((node.view for node in self.state.nodes.values() if node.yarn), living, now_s)
        self.prober.round(self.short_and_long.partition.hosts, now_s)

    def _unsettled(self, now_s: float) -> list[Node]:
        """Return the nodes whose views may change without a report."""
        fresh_s = self.state.limits.report_fresh_s
        nodes = self.state.nodes.values()
        return [n for n in nodes if n.own or n.nm_down_s is not None or now_s - n.reported_s > fresh_s]

    def _guard(self, now_s: float, away: bool) -> Iterator[None]:
        """Have the attempts return containers that are queued behind containers which depend on them."""
        state, attempts = self.state, self.attempts
        for attempt in _with_breaks(list(attempts.living()) if state.serving else []):
            if attempt is None:
                yield
            elif state.serving and attempts.get(attempt.id) is attempt:
                attempt.containers.guard(now_s, away)

    def _decide(self, now_s: float) -> None:
        """Ask the policies that decide on all nodes and running containers."""
        state = self.state
        state.effects += self.settings_change.round(now_s)
        self.admissions.decide(now_s)
        self.reclaimer.round(now_s)
        state.effects += self.targets.round(state.policies, state.nodes, now_s)
        state.effects += self.promoter.round(self.cluster, self.attempts.values(), now_s)
        if state.policies.shadow:
            usable = [node.view for node in state.nodes.values() if node.view.usable]
            state.effects += self.shadow.shed(state.policies, usable, now_s)
            self._compare_order(now_s)
            self.probe_order.round(now_s)
        state.effects += self.shadow.at_nodes(state.policies, now_s)
        self.mover.round(state.policies, state.rng, now_s)
        if self.corrector.round(now_s) and state.wakeups.waiting:
            state.wakeups.places_free(now_s)

    def _compare_order(self, now_s: float) -> None:
        """Compare which application would get the next place."""
        waiting = self.central.applicants(MAX_COMPARED)
        first = partial(_first, waiting, now_s)
        try:
            app_id = first(self.state.policies.for_nodes)
        except PolicyFaultError as error:
            self.state.effects.append(Faulted("", str(error)))
            return
        if waiting:
            self.compare(Question("dispatch", None, app_id, first, _named))


def _with_breaks(items: Sequence[T]) -> Iterator[T | None]:
    """Yield the items, with None after every BREAK_EVERY of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % BREAK_EVERY == 0:
            yield None


def _named(app_id: str) -> str:
    return app_id or "the first that asks"


def _first(waiting: Sequence[WaitingApp], now_s: float, policies: Policies) -> str:
    """Return the application that would get the next place; "" where the first heartbeat decides."""
    keys = ((policies.cluster.dispatch_key(applicant, now_s), applicant.app) for applicant in waiting)
    ranked = [((-app.priority, *key), app.id) for key, app in keys if key]
    return min(ranked)[1] if ranked else ""
