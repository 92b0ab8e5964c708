"""The cluster as the proxy knows it: nodes, queues, applications and their attempts (Mercury §3, the Coordinator)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from policies.config.policy_set import Policies
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.cluster_view import Apps, WaitingLine
from rm_proxy.attempt.effects import Effect
from rm_proxy.coordinator.app_modes import AppModes
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.attempt_restore import AttemptRestore, end_earlier
from rm_proxy.coordinator.cluster_state import ClusterState, Limits
from rm_proxy.coordinator.features import Features
from rm_proxy.coordinator.minter import Minter
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.nodes.targets import TargetSetter
from rm_proxy.coordinator.nodes.usage_history import LocalTime, utc
from rm_proxy.coordinator.placement import Placer
from rm_proxy.coordinator.queue_usage import AllUsage
from rm_proxy.coordinator.reports.adopted_containers import AdoptedContainers
from rm_proxy.coordinator.reports.sidecar_events import SidecarEvents
from rm_proxy.coordinator.reports.sidecar_reports import SidecarReports
from rm_proxy.coordinator.rounds import Rounds
from rm_proxy.coordinator.settings_change import SettingsChange
from rm_proxy.coordinator.shadow import Shadow
from rm_proxy.coordinator.task_durations import TaskDurations
from rm_proxy.coordinator.yarn_inventory import YarnInventory
from rm_proxy.dispatch.central_queue import CentralQueue
from rm_proxy.domain.comparison import Compare, Question
from rm_proxy.estimates.estimator import Estimator
from rm_proxy.yarn.models import YarnNode, YarnQueue


@dataclass(frozen=True, slots=True)
class _Comparing:
    """Compares a decision with what alternatives would have decided."""

    state: ClusterState
    shadow: Shadow

    def __call__(self, question: Question[Any]) -> None:
        """Note it."""
        state = self.state
        if state.policies.shadow:
            state.effects += self.shadow.compared(state.policies, question, state.round_s)


class Coordinator:
    """A machine: records and reports in, placements and acknowledgements out. Attempts see it as their ClusterView."""

    def __init__(
        self,
        policies: Policies,
        rng: Random,
        limits: Limits | None = None,
        local: Callable[[float], LocalTime] = utc,
        estimator: Estimator | None = None,
        placer: Callable[[ClusterState, Mover], Placer] = Placer,
        usage: AllUsage | None = None,
        central: Callable[..., CentralQueue] = CentralQueue,
    ) -> None:
        """Build the parts.

        local: converts Unix time to the local time, in which the days of the usage history are counted.
        estimator, placer, usage, central: replacements of the usual parts.
        """
        state = self._state = ClusterState(policies, rng, limits or Limits())
        self.limits, self.rng, self.nodes, self.grants = state.limits, rng, state.nodes, state.grants
        self.minter = Minter(state)
        self.policies, self.hooks = policies, state.hooks
        """In force; `switch` replaces them."""
        self.attempts, self.shadow = AttemptIndex(), Shadow()
        self.compare: Compare = _Comparing(state, self.shadow)
        self.inventory = YarnInventory(state, self.attempts, usage)
        self.modes = AppModes(state, self.attempts, self.inventory.apps)
        self.durations = TaskDurations(state, self.inventory.apps, self.attempts, estimator or Estimator())
        self.apps: Apps = self.inventory
        self.mover = Mover(self, self.compare)
        self.central = central(state.free, state.dispatch_key, self.inventory.shares)
        self.line: WaitingLine = self.central
        self.placer = placer(state, self.mover)
        self.placer.compare = self.compare
        parts = self.inventory, self.attempts, self.modes, self.durations
        self.features = Features(*parts, self.central, self.placer, self.mover, self.shadow)
        self.admissions = self.features.admissions
        self.takeover = AttemptRestore(self, self.attempts, self.inventory.update_app)
        self.targets = TargetSetter(local, self.compare)
        self.reports = self._sidecar_reports()
        self.rounds = self._all_rounds()
        self.switch(policies)

    def _sidecar_reports(self) -> SidecarReports:
        state, durations = self._state, self.durations
        adopted = AdoptedContainers(self.attempts, self.mover.shed)
        events = SidecarEvents(state, self.attempts, self.inventory, adopted, durations, self.mover)
        parts = state, self.inventory, events, adopted, self.takeover, durations
        return SidecarReports(*parts, self.targets, self.mover)

    def _all_rounds(self) -> Rounds:
        return Rounds(
            state=self._state,
            attempts=self.attempts,
            inventory=self.inventory,
            modes=self.modes,
            durations=self.durations,
            settings_change=SettingsChange(self, self.attempts, self.mover.shed),
            targets=self.targets,
            mover=self.mover,
        )

    @property
    def queues(self) -> dict[str, YarnQueue]:
        """The ResourceManager's queues by path."""
        return self.inventory.queues

    @property
    def serving(self) -> bool:
        """Whether application masters are let in."""
        return self._state.serving

    @serving.setter
    def serving(self, serving: bool) -> None:
        self._state.serving = serving

    # Nodes and settings

    def yarn_nodes(self, nodes: Iterable[YarnNode], now_s: float) -> None:
        """Handle the ResourceManager's list of nodes; nodes that left it are forgotten."""
        forgotten, changed = self.inventory.update_nodes(nodes, now_s)
        for node_id in forgotten:
            self.durations.forget_node(node_id)
            self.reports.forget_node(node_id)
            self.features.forget_node(node_id)
            self.minter.ring.forget(node_id)
        if forgotten:
            self._state.free.follow()  # nobody may ask for a place for long
            self._state.ranking.follow()
        if changed:
            self.placer.sampling.changed()

    def switch(self, policies: Policies) -> None:
        """Put policies in force, with the hooks of their features; nothing is decided anew."""
        state = self._state
        self.policies = state.policies = policies
        self.hooks = state.hooks = self.features.hooks(self, policies)

    def use(self, policies: Policies, now_s: float) -> None:
        """Use these policies from now on; ungranted asks are decided anew where they differ."""
        before = self.policies
        self.switch(policies)
        self._state.effects += self.rounds.settings_change.follow(before, policies, now_s)

    # Attempts

    def attempt(self, attempt_id: str) -> Attempt:
        """Return the machine of an attempt; a new attempt ends the starts that sidecars hold for earlier ones."""
        known = self.attempts.get(attempt_id)
        if known is not None:
            return known
        attempt = self.attempts[attempt_id] = Attempt(attempt_id, self)
        others = self.attempts.by_app.setdefault(attempt.app_id, [])
        for live in (live for old in others for live in old.live if live.killed is not None):
            attempt.containers.inherit(live)  # its end may be reported to this one
        others.append(attempt)
        self.inventory.forget_old_apps()
        for old in end_earlier(others):
            self._state.urgent += old.take_effects()
            self.attempts.unjournaled.add(old)
        record = self.inventory.records.get(attempt.app_id)
        if record is not None:
            attempt.notebook.app(record)
        return attempt

    def broken(self, attempt_id: str, now_s: float) -> bool:
        """Handle a failure of our own code over an attempt, whose fault was noted: its state is no longer certain.

        It goes to bypass and is taken over as if this process had begun anew. Returns whether it is taken over.
        """
        attempt = self.attempts.get(attempt_id)
        if attempt is None or attempt.finished:
            return False
        self.modes.check(attempt.app_id, now_s)
        return self.takeover.renew(attempt_id)

    # Which ResourceManager is active

    def serve(self) -> None:
        """Let application masters in."""
        self._state.serving = True

    def stand_by(self) -> None:
        """Forget all attempts, since their ResourceManager no longer serves: the proxy of the next one learns anew.

        Their tables are void, and what they hold is known to the nodes, which report unconfirmed ends again.
        """
        self._state.serving = False
        for attempt in self.attempts.values():
            attempt.abandon()
            self.attempts.unjournaled.add(attempt)
            self.inventory.discharge(attempt.id)
        self.attempts.clear()
        self.features.clear()
        self.reports.clear()
        self.minter.ring.clear()
        self.takeover.forget()

    # Effects

    def take_urgent(self) -> list[Effect]:
        """Return effects that cannot wait for the next round: drops of starts that are no longer wanted."""
        state = self._state
        urgent, state.urgent = state.urgent, []
        return urgent

    def take_effects(self) -> list[Effect]:
        """Return effects that attempts produced outside of an answer: drops of held starts, records."""
        state = self._state
        own, state.effects = self.take_urgent() + state.effects + self.mover.take_effects(), []
        own += [effect for attempt in self.attempts.recent() for effect in attempt.take_effects()]
        self.attempts.closed()
        return own
