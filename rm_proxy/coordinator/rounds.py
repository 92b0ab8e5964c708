"""The coordinator's work of each second: bypass, targets of nodes, promotions, moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from rm_proxy.coordinator.app_modes import AppModes
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.moves import Mover
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.coordinator.nodes.targets import TargetSetter
from rm_proxy.coordinator.settings_change import SettingsChange
from rm_proxy.coordinator.task_durations import TaskDurations
from rm_proxy.coordinator.yarn_inventory import YarnInventory

T = TypeVar("T")
BREAK_EVERY: Final = 50
"""Nodes or attempts that a round handles without a break; each takes some 10 us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The parts of the coordinator with work each second, in their order."""

    state: ClusterState
    attempts: AttemptIndex
    inventory: YarnInventory
    modes: AppModes
    durations: TaskDurations
    settings_change: SettingsChange
    targets: TargetSetter
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
        if self.state.grants.round(now_s):
            for attempt in self.attempts.living():
                attempt.reconsider(routes=True)
        self.durations.round(now_s)
        yield
        for watch in self.state.hooks.watches:
            watch(now_s)
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
                attempt.own_grants.lost.look(now_s)
                attempt.early.round(now_s)

    def _decide(self, now_s: float) -> None:
        """Ask the policies that decide on all nodes and running containers."""
        state = self.state
        state.effects += self.settings_change.round(now_s)
        state.effects += self.targets.round(state.policies, state.nodes, now_s)
        for step in state.hooks.rounds:
            step(now_s)
        self.mover.round(state.policies, state.rng, now_s)


def _with_breaks(items: Sequence[T]) -> Iterator[T | None]:
    """Yield the items, with None after every BREAK_EVERY of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % BREAK_EVERY == 0:
            yield None
