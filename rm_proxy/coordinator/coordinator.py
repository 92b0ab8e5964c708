"""The cluster as the proxy sees it: nodes, queues, applications and their attempts (Mercury §3, the Coordinator)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Final, TypeVar

from policies.config.policy_set import Policies
from policies.config.schema import Mode
from policies.model import AppView, Kind, Resources
from quicksilver.common.messages import Ack, ContainerEvent, EventKind, Report, Targets
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.effects import BudgetTurned, DropHeld, Effect, Estimated, Turned
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.coordinator.adopted_containers import ENDS, AdoptedContainers
from rm_proxy.coordinator.attempt_restore import AttemptRestore, end_earlier
from rm_proxy.coordinator.error_budget import ErrorBudget, Order
from rm_proxy.coordinator.event_acks import EventAcks
from rm_proxy.coordinator.nodes import Node
from rm_proxy.coordinator.promotion_choice import Promoter
from rm_proxy.coordinator.settings_change import SettingsChange
from rm_proxy.coordinator.targets import TargetSetter
from rm_proxy.coordinator.usage_history import LocalTime, utc
from rm_proxy.coordinator.yarn_inventory import Inventory, Limits
from rm_proxy.domain.ids import attempt_of_container
from rm_proxy.estimates.estimator import MIN_S, Source, worked_s

T = TypeVar("T")
BREAK_EVERY: Final = 50
"""Nodes or attempts that a round looks at without a break; each takes some 10 us."""
MAX_UNLISTED: Final = 1_000
"""Nodes that report and that the ResourceManager does not list (yet)."""


class Coordinator(Inventory):
    """A machine: records and reports in, placements and acknowledgements out. It is the attempts' World."""

    def __init__(
        self,
        policies: Policies,
        rng: Random,
        limits: Limits | None = None,
        local: Callable[[float], LocalTime] = utc,
    ) -> None:
        """`local`: Unix time to the local time, in which the days of the use history are counted."""
        super().__init__(policies, rng, limits)
        self.budget = ErrorBudget(self.limits.budget)
        self.takeover = AttemptRestore(self, self.attempts, self._of_app, self.yarn_app)
        self._urgent: list[Effect] = []
        self.targets = TargetSetter(local)
        self.promoter = Promoter(self.limits.no_promotion)
        self._promoted: dict[str, set[str]] = {}
        self._requota = SettingsChange(self, self.attempts, self.mover.shed)
        self.serving = True
        """Whether application masters are let in; a proxy whose ResourceManager is standby only watches the nodes."""
        self._receipts = EventAcks(self._settled)
        self._inheritance = AdoptedContainers(lambda cid: self.attempts.get(attempt_of_container(cid)), self.mover.shed)

    # Attempts

    def attempt(self, attempt_id: str) -> Attempt:
        """Return the machine of an attempt; a new attempt ends what the sidecars hold of earlier ones."""
        known = self.attempts.get(attempt_id)
        if known is not None:
            return known
        attempt = self.attempts[attempt_id] = Attempt(attempt_id, self)
        others = self._of_app.setdefault(attempt.app_id, [])
        for live in (live for old in others for live in old.live if live.killed is not None):
            attempt.inherit(live)  # its end may be told to this one
        others.append(attempt)
        for old in end_earlier(others):
            self._urgent += old.take_effects()
            self.takeover.touched[old.id] = old
        record = self.records.get(attempt.app_id)
        if record is not None:
            attempt.notebook.app(record)
        return attempt

    def take_urgent(self) -> list[Effect]:
        """Return what cannot wait for the next round: drops of starts that nobody waits for any more."""
        urgent, self._urgent = self._urgent, []
        return urgent

    def registered(self, attempt: Attempt, now_s: float) -> None:
        """Give an attempt that registered what the nodes hold of it."""
        for node in self.nodes.values():
            if node.report is not None:
                self._inheritance.of_attempt(attempt, node.id, node.report, now_s)

    def serve(self) -> None:
        """Take in that application masters are let in."""
        self.serving = True

    def stand_by(self) -> None:
        """Forget all attempts, their ResourceManager serves no more: whichever does next, its proxy learns anew.

        Their tables are void, and what they hold is known to the nodes, who tell unconfirmed ends again.
        """
        self.serving = False
        for attempt in self.attempts.values():
            attempt.abandon()
            self.takeover.touched[attempt.id] = attempt
            self._use.charge(attempt.id, "", "", Resources())
        self.attempts.clear()
        self._of_app.clear()
        self._acked.clear()
        self._drops.clear()
        self._promoted.clear()
        self._receipts.clear()
        self.takeover.forget()

    def round(self, now_s: float) -> None:
        """Do what is due each second: stale nodes, and containers that wait behind what waits for them."""
        for _ in self.round_in_parts(now_s):
            pass

    def round_in_parts(self, now_s: float) -> Iterator[None]:
        """Do the same with breaks after a fraction of a millisecond, in which all else may happen to this machine."""
        self._now_s = now_s
        self._turn(self.budget.round({a.app_id for a in self.attempts.living()}, now_s))
        self.estimator.round()
        self.outlook.round()
        self._compare_speeds(now_s)
        yield
        fresh_s = self.limits.report_fresh_s
        unsettled = [
            n for n in self.nodes.values() if n.own or n.nm_down_s is not None or now_s - n.reported_s > fresh_s
        ]
        away = any(node.away(now_s, fresh_s) is not None for node in unsettled)
        for node in _with_breaks(unsettled):
            if node is None:
                yield
                continue
            self._refresh(node, now_s)
            if now_s - node.reported_s > fresh_s:
                self.estimator.forget_node(node.id)
        self._capacity = None
        for attempt in _with_breaks(list(self.attempts.living()) if self.serving else []):
            if attempt is None:
                yield
            elif self.serving and self.attempts.get(attempt.id) is attempt:
                attempt.guard(now_s, away)
        yield
        if not self.serving:
            return
        self._effects += self._requota.round(now_s)
        self._effects += self.targets.round(self.policies, self.nodes, now_s)
        self._effects += self.promoter.round(self, self.attempts.values(), now_s)
        if self.policies.shadow:
            usable = [node.view for node in self.nodes.values() if node.view.usable]
            self._effects += self.shadow.shed(self.policies, usable, now_s)
        self.mover.round(self.policies, self.rng, now_s)

    def take_effects(self) -> list[Effect]:
        """Return what attempts want done outside of an answer: drops of held starts, records."""
        own, self._effects = self.take_urgent() + self._effects + self.mover.take_effects(), []
        own += [effect for attempt in self.attempts.recent() for effect in attempt.take_effects()]
        self.attempts.closed()
        return own

    # Sidecars

    def takes_report(self, node_id: str) -> bool:
        """Tell whether a node's report is taken in: of those that the ResourceManager does not list only some are."""
        if node_id in self.nodes:
            return True
        return sum(1 for node in self.nodes.values() if node.yarn is None) < MAX_UNLISTED

    def report(self, node_id: str, report: Report, now_s: float) -> Ack:
        """Take in a sidecar's report; events that were acknowledged before are not counted again."""
        node = self.nodes.setdefault(node_id, Node(node_id))
        self._inheritance.of_report(node_id, report, now_s)
        for event in self.new_events(node_id, report):
            self._on_event(node_id, report.boot, event, now_s)
        for container_id in report.release:
            holder = self._holder(container_id)
            if holder is not None:
                holder.give_up(container_id)
                self.takeover.touched[holder.id] = holder
        if node.report is None:
            self._urgent += self.takeover.announce_again(report, now_s)
        node.confirm(report, now_s)
        running, slow_ratio = report.containers, node.slow_ratio
        outlived = self.estimator.running(node_id, running, self._apps, self.policies, slow_ratio)
        self.speeds.running(node_id, outlived, now_s)
        self.targets.observe(node_id, report, now_s)
        self._refresh(node, now_s)
        last = max((event.seq for event in report.events), default=self._seen(node_id, report.boot))
        self._acked[node_id] = (report.boot, max(last, self._seen(node_id, report.boot)))
        drops = self.takeover.forgotten(report) | self._drops.pop(node_id, {})
        return Ack(
            events_to=self._receipts.up_to(node_id, report.boot, self._acked[node_id][1], now_s),
            drop=list(drops),
            drop_reason=next(iter(drops.values()), ""),
            targets=self._targets(node_id, report, now_s),
            shed=self.mover.take(node_id),
            drain=node.drain(),
            promoted=self._still_queueable(node_id, report),
        )

    def observe(self, node_id: str, report: Report, now_s: float) -> Ack:
        """Take in a report while standby: its events are for the proxy that serves."""
        node = self.nodes.setdefault(node_id, Node(node_id))
        node.confirm(report, now_s)
        self._refresh(node, now_s)
        return Ack(events_to=-1, active=False)

    def _targets(self, node_id: str, report: Report, now_s: float) -> Targets | None:
        """Return what the node is to keep to, with what lies ahead of the jobs there.

        None before the first round: the sidecar keeps what it had from an earlier proxy.
        """
        targets = self.targets.of(node_id)
        if targets is None:
            return None
        return self.outlook.news(targets, report, now_s, self.nodes[node_id].slow_ratio)

    def new_events(self, node_id: str, report: Report) -> list[ContainerEvent]:
        """Return the events of a report that were not taken in before."""
        seen = self._seen(node_id, report.boot)
        return [event for event in report.events if event.seq > seen]

    def _seen(self, node_id: str, boot: str) -> int:
        known = self._acked.get(node_id)
        return known[1] if known is not None and known[0] == boot else -1

    def _on_event(self, node_id: str, boot: str, event: ContainerEvent, now_s: float) -> None:
        if event.am and event.kind is EventKind.ENDED:
            self._master_gone(event.container_id, now_s)
        heir = self.attempts.get(attempt_of_container(event.container_id))
        if heir is not None:
            self._inheritance.event(heir, event, node_id, now_s)
        if event.kind in ENDS and not self._settled(event.container_id):
            self._receipts.keep(node_id, boot, event.seq, event.container_id, now_s)
        attempt = self._holder(event.container_id)
        if attempt is None:
            return
        live = attempt.live.get(event.container_id)
        app = self._apps.get(attempt.app_id)
        if live is not None and app is not None:
            self._learn(event, live, app, node_id, now_s)
            self.mover.on_event(event, live)
        attempt.on_event(event, now_s)
        self.takeover.touched[attempt.id] = attempt

    def _settled(self, container_id: str) -> bool:
        """Tell whether a container's end is over; that of an attempt which has not come here yet is not."""
        holder = self._holder(container_id) or self.attempts.get(attempt_of_container(container_id))
        return holder is not None and holder.settled(container_id)

    def _master_gone(self, container_id: str, now_s: float) -> None:
        attempt = self.attempts.get(attempt_of_container(container_id))
        if attempt is not None and not attempt.finished:
            attempt.master_gone(now_s)
            self.takeover.touched[attempt.id] = attempt
            self._urgent += attempt.take_effects()

    def _compare_speeds(self, now_s: float) -> None:
        """Have each node know how slow it is."""
        compared = self.policies.for_nodes.section.estimate.node_tasks > 0
        odd = self.speeds.round(now_s) if compared else self.speeds.clear()
        for node_id in odd:
            node = self.nodes.get(node_id)
            if node is not None:
                node.slow_by(self.speeds.of(node_id))

    def _learn(self, event: ContainerEvent, live: HeldContainer, app: AppView, node_id: str, now_s: float) -> None:
        """Take in how long a container ran that ended, or was lost; one that was released early tells nothing.

        The estimator hears what it would have taken on a node that is as fast as most.
        """
        took_s, slow_ratio = worked_s(event), self.nodes[node_id].slow_ratio
        if event.kind is EventKind.ENDED and took_s is not None and not live.released:
            self._effects.append(Estimated(live.source, live.expected_s, took_s))
            known, most = self.expected(app, live.priority), self.policies.for_nodes.section.estimate.node_tasks
            if known.source is not Source.DEFAULT and most:
                self.speeds.observe(node_id, max(MIN_S, took_s), known.mean_s, most, now_s)
            self.estimator.observe(app, live.priority, took_s / slow_ratio, self.policies.estimate(app))
        elif event.kind in (EventKind.KILLED, EventKind.SHED, EventKind.LOST):
            self.estimator.lost(live.id, (took_s or 0.0) / slow_ratio, live.follows)

    def undelivered(self, drop: DropHeld) -> None:
        """Keep a drop that could not be sent; it goes with the answer to the sidecar's next report."""
        self._drops.setdefault(drop.node_id, {})[drop.container_id] = drop.reason

    def promoted(self, node_id: str, container_id: str) -> None:
        """Have a sidecar told that a container of its node is guaranteed now."""
        self._promoted.setdefault(node_id, set()).add(container_id)

    def _still_queueable(self, node_id: str, report: Report) -> list[str]:
        """Return the promoted containers that a sidecar takes for queueable still: it is told until it does not."""
        promoted = self._promoted.pop(node_id, None)
        if promoted is None:
            return []
        still = [c.container_id for c in report.containers if c.kind != Kind.GUARANTEED and c.container_id in promoted]
        if still:
            self._promoted[node_id] = set(still)
        return still

    def use(self, policies: Policies, now_s: float) -> None:
        """Go on with these policies: one assignment, so that each decision is made by the old or the new ones alone."""
        before, self.policies = self.policies, policies
        self._effects += self._requota.follow(before, policies, now_s)

    # Bypass by the error budget

    def bypass(self, order: Order, now_s: float) -> None:
        """Take an admin's order: everything in bypass, nothing, or by the error budget."""
        self._turn(self.budget.command(order, now_s))

    def broken(self, attempt_id: str, now_s: float) -> bool:
        """Take in that our own code failed over an attempt, with a fault that was noted: nothing is sure of it now.

        It goes to bypass and is taken over as if this process had begun anew. Returns whether it is taken over.
        """
        attempt = self.attempts.get(attempt_id)
        if attempt is None or attempt.finished:
            return False
        self._turn(self.budget.look(attempt.app_id, now_s))
        return self.takeover.renew(attempt_id)

    def _turn(self, turned: Iterable[Turned]) -> None:
        """Have the attempts decide anew on what they want: what was to be queueable goes guaranteed, or back."""
        for turn in turned:
            attempts = self._living(turn.app_id) if turn.app_id else self.attempts.values()
            for attempt in attempts:
                attempt.reconsider(routes=True)
            self._effects.append(BudgetTurned(turn))

    def mode(self, app: AppView) -> Mode:
        """Return how an application is treated now: by its settings, or bypass by the error budget."""
        return "bypass" if self.why_bypass(app.id) else self.policies.mode(app)

    def why_bypass(self, app_id: str) -> str:
        """Return why the error budget, or an order, has an application in bypass; "" when they do not."""
        return self.budget.reason(app_id)


def _with_breaks(items: Sequence[T]) -> Iterator[T | None]:
    """Yield the items, with None after every BREAK_EVERY of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % BREAK_EVERY == 0:
            yield None
