"""Inputs of one request's decisions: the application, its queue and its mode, read from the cluster once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from policies.config.policy_set import Rule
from policies.config.schema import Mode
from policies.model import AppView, QueueView, Resources, total
from policies.value_types import changer
from rm_proxy.attempt.asks.ask_entry import AskSums
from rm_proxy.attempt.cluster_view import ClusterView, TaskDurationsView
from rm_proxy.attempt.held_containers import HeldContainers
from rm_proxy.estimates.estimator import Expectation

_NOTHING: Final = Resources()
_app_with: Final = changer(AppView, "live_q")
_app_bound: Final = changer(AppView, "used_q")
_app_asking: Final = changer(AppView, "asked_g", "asked_g_size")


@dataclass(slots=True)
class RequestView:
    """The application with all that its attempt holds and asks for, and its queue; both count own decisions."""

    app: AppView
    queue: QueueView
    mode: Mode
    queue_known: bool
    live: HeldContainers
    open_q: int
    """Queueable containers wanted that are counted in it."""
    asked_size: Resources
    """Size of those that are asked for at a node."""
    sums: AskSums | None = None
    """What the ask table wants, where tokens are given (slot `admit`): `app` shows its guaranteed ones."""
    rules: dict[int, Rule | str] = field(default_factory=dict)
    """By request priority: the rule that decides on the application, as `Policies.rule` says."""
    _expects: dict[int, Expectation] = field(default_factory=dict)
    """By request priority: how long the tasks of the application are expected to run."""
    added: int = 0
    """More wanted containers that are queueable; they show in `app` after `settle`."""
    bound: list[Resources] = field(default_factory=list)
    """Sizes of more containers that are asked for at nodes; they show in `app` and `queue` after `settle`."""
    seen_g: tuple[int, Resources] = (0, _NOTHING)
    """Of `sums`: what `app` shows of them."""

    @property
    def precedences(self) -> frozenset[int]:
        """Those of the containers that occupy a node (`rm_proxy.attempt.frameworks`)."""
        return self.live.precedences(self.app.type)

    def expected(self, durations: TaskDurationsView, priority: int) -> Expectation:
        """Return how long a task of this priority is expected to run; looked up once for each message."""
        expects = self._expects.get(priority)
        if expects is None:
            expects = self._expects[priority] = durations.expected(self.app, priority)
        return expects

    def fits(self, sums: AskSums) -> bool:
        """Return whether it counts what the ask table wants now, once it is settled: else it has to be read anew."""
        if self.added or self.bound or self.sums is not None:
            self.settle()
        same_size = self.asked_size is sums.asked_size or self.asked_size == sums.asked_size
        return same_size and self.open_q == sums.open_q

    def settle(self) -> None:
        """Let `app` and `queue` show all that was added and bound, and the guaranteed ones if tokens are given."""
        count, self.added = self.added, 0
        if count:
            self.open_q += count
            self.app = _app_with(self.app, self.app.live_q + count)
        if self.bound:
            bound, self.bound = self.bound, []
            size = bound[0] if len(bound) == 1 else total(bound)
            self.asked_size += size
            self.app = _app_bound(self.app, self.app.used_q + size)
            self.queue = self.queue.plus(self.app.user, size)
        sums = self.sums
        if sums is not None and (sums.asked_g, sums.asked_g_size) != self.seen_g:
            app, (count_g, size_g) = self.app, self.seen_g
            size_g = app.asked_g_size + sums.asked_g_size - size_g
            self.app = _app_asking(app, app.asked_g + sums.asked_g - count_g, size_g)
            self.seen_g = sums.asked_g, sums.asked_g_size

    def with_nodes(self, pending: int) -> AppView:
        """Return the application without queueable containers that have no node; pending: those asked for at one."""
        self.settle()
        return _app_with(self.app, self.app.live_q - self.open_q + pending)


def read_view(cluster: ClusterView, app: AppView, mode: Mode, live: HeldContainers, sums: AskSums) -> RequestView:
    """Return the inputs of decisions on an application as they are now."""
    known = cluster.inventory.queue(app.queue)
    counted = sums if cluster.policies.admits else None
    queue = known or QueueView(app.queue)
    view = RequestView(app, queue, mode, known is not None, live, sums.open_q, sums.asked_size, counted)
    if counted is not None:
        view.seen_g = sums.asked_g, sums.asked_g_size
    return view
