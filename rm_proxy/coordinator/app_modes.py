"""How each application is treated: by its settings, or in bypass by the error budget or an admin's order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from policies.config.schema import Mode
from policies.model import AppView
from rm_proxy.attempt.effects import BudgetTurned, BypassPhase, Turned
from rm_proxy.coordinator.attempt_index import AttemptIndex
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.coordinator.error_budget import ErrorBudget, Order


class AppModes:
    """A machine: changes of the error budget in, attempts that have to decide anew out."""

    def __init__(self, state: ClusterState, attempts: AttemptIndex, apps: Mapping[str, AppView]) -> None:
        self._state, self._attempts, self._apps = state, attempts, apps
        self.budget = ErrorBudget(state.limits.budget)

    def mode(self, app: AppView) -> Mode:
        """Return how an application is treated now: by its settings, or bypass by the error budget."""
        budget = self.budget
        if (budget.faulty or budget.phase is not BypassPhase.ACTIVE) and budget.reason(app.id):
            return "bypass"
        return self._state.policies.mode(app)

    def why_bypass(self, app_id: str) -> str:
        """Return why the error budget or an order put an application into bypass; "" if neither did."""
        return self.budget.reason(app_id)

    def bypass(self, order: Order, now_s: float) -> None:
        """Execute an admin's order: bypass for everything, for nothing, or as the error budget decides."""
        self._turn(self.budget.command(order, now_s))

    def check(self, app_id: str, now_s: float) -> None:
        """Update an application's mode at once after a fault."""
        self._turn(self.budget.look(app_id, now_s))

    def round(self, now_s: float) -> None:
        """Do the work of each second."""
        known = (self._apps.get(attempt.app_id) for attempt in self._attempts.living())
        self._turn(self.budget.round({app.id: app.user for app in known if app is not None}, now_s))

    def _turn(self, turned: Iterable[Turned]) -> None:
        """Have the attempts decide anew on their asks: queueable ones go guaranteed, or back."""
        for turn in turned:
            attempts = self._attempts.living_of(turn.app_id) if turn.app_id else self._attempts.values()
            for attempt in attempts:
                attempt.reconsider(routes=True)
            self._state.effects.append(BudgetTurned(turn))
