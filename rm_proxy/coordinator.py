"""The cluster as the proxy sees it: nodes, queues, applications and their attempts (Mercury §3, the Coordinator)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, TypeVar

from policies.model import AppView, Kind, ParentView, QueueView, Resources
from policies.section import Mode, full_queue
from policies.settings import Policies
from rm_proxy import frameworks
from rm_proxy.attempt import Attempt
from rm_proxy.budget import Budget, BudgetLimits, Order, Turned
from rm_proxy.estimator import Estimator, Expectation, worked_s
from rm_proxy.hints import bad_tags
from rm_proxy.ids import app_of_attempt, app_of_container, attempt_of_container
from rm_proxy.inheritance import ENDS, Inheritance
from rm_proxy.live import Live
from rm_proxy.nodes import Away, Node
from rm_proxy.outlook import Outlook
from rm_proxy.places import Places
from rm_proxy.promoter import Promoter
from rm_proxy.receipts import Receipts
from rm_proxy.records import AppRecord
from rm_proxy.requota import Requota
from rm_proxy.takeover import TakeOver, end_earlier
from rm_proxy.targets import TargetSetter
from rm_proxy.usage import QueueUse, parents
from rm_proxy.use_history import LocalTime, utc
from rm_proxy.world import BadTags, BudgetTurned, DropHeld, Effect, Estimated
from rm_proxy.yarn_json import YarnNode, YarnQueue
from shell.messages import Ack, ContainerEvent, EventKind, Report, Targets

T = TypeVar("T")
BREAK_EVERY: Final = 50
"""Nodes or attempts that a round looks at without a break; each takes some 10 us."""
MAX_UNLISTED: Final = 1_000
"""Nodes that report and that the ResourceManager does not list (yet)."""
MAX_APPS: Final = 20_000
"""Applications that are remembered; ended ones are forgotten first, the oldest of them before others."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings of the coordinator; seconds."""

    report_fresh_s: float = 5.0
    mapreduce_task_timeout_s: float = 600.0
    hold_by_type_s: dict[str, float] = field(default_factory=dict)
    no_promotion: str = ""
    """Why the ResourceManager promotes nothing; "" when it does."""
    budget: BudgetLimits = field(default_factory=BudgetLimits)


class Coordinator(Places):
    """A machine: records and reports in, placements and acknowledgements out. It is the attempts' World."""

    def __init__(
        self,
        policies: Policies,
        rng: Random,
        limits: Limits | None = None,
        local: Callable[[float], LocalTime] = utc,
    ) -> None:
        """`local`: Unix time to the local time, in which the days of the use history are counted."""
        super().__init__(policies, rng)
        self.limits = limits or Limits()
        self.estimator = Estimator()
        self.budget = Budget(self.limits.budget)
        self.attempts: OrderedDict[str, Attempt] = OrderedDict()
        self.records: OrderedDict[str, AppRecord] = OrderedDict()
        self.queues: dict[str, YarnQueue] = {}
        self._apps: dict[str, AppView] = {}
        self._of_app: dict[str, list[Attempt]] = {}
        self.takeover = TakeOver(self, self.attempts, self._of_app, self.yarn_app)
        self._use = QueueUse()
        self._capacity: Resources | None = None
        self._acked: dict[str, tuple[str, int]] = {}
        self._drops: dict[str, dict[str, str]] = {}
        self._urgent: list[Effect] = []
        self.targets = TargetSetter(local)
        self.promoter = Promoter(self.limits.no_promotion)
        self._promoted: dict[str, set[str]] = {}
        self._requota = Requota(self, self.attempts, self.mover.shed)
        self.outlook = Outlook(self._expects, self._living)
        self.serving = True
        """Whether application masters are let in; a proxy whose ResourceManager is standby only watches the nodes."""
        self._receipts = Receipts(self._settled)
        self._inheritance = Inheritance(lambda cid: self.attempts.get(attempt_of_container(cid)), self.mover.shed)

    # What YARN says

    def yarn_nodes(self, nodes: Iterable[YarnNode], now_s: float) -> None:
        """Take in the ResourceManager's list of nodes; nodes that left it are forgotten."""
        listed = {node.id: node for node in nodes}
        for gone in [n for n in self.nodes.values() if n.id not in listed]:
            gone.yarn = None
            self._refresh(gone, now_s)
            if gone.report is None or now_s - gone.reported_s > 10 * self.limits.report_fresh_s:
                del self.nodes[gone.id]
                self.estimator.forget_node(gone.id)
                self._drops.pop(gone.id, None)
                self._acked.pop(gone.id, None)
        for node_id, yarn in listed.items():
            node = self.nodes.setdefault(node_id, Node(node_id))
            if node.listed(yarn):
                self._refresh(node, now_s)
        self._shortlist.changed()

    def yarn_queues(self, queues: Iterable[YarnQueue]) -> None:
        """Take in the ResourceManager's queues."""
        self.queues = {queue.path: queue for queue in queues}

    def yarn_app(self, record: AppRecord) -> AppRecord | None:
        """Take in an application's record; returns it with its queue's full path, or None when nothing is new."""
        record = replace(record, queue=full_queue(record.queue, self.queues))
        if self.records.get(record.id) == record:
            return None
        bad = bad_tags(record.tags) if record.id not in self.records else ()
        if bad:
            self._effects.append(BadTags(record.id, bad))
        self.records[record.id] = record
        self._apps[record.id] = AppView(
            id=record.id,
            queue=record.queue,
            user=record.user,
            type=record.type.upper(),
            name=record.name,
            tags=frozenset(record.tags),
            priority=record.priority,
            submitted_s=record.submitted_s,
        )
        for attempt in self._of_app.get(record.id, ()):
            attempt.notebook.app(record)
            if record.finished_s is not None:
                attempt.end("the application ended")
        self._forget_old()
        return record

    def unknown_app(self, app_id: str) -> None:
        """Take in that the ResourceManager does not know an application: it restarted, and recovered nothing."""
        for attempt in self._of_app.get(app_id, ()):
            attempt.end("the ResourceManager does not know the application any more")

    def _forget_old(self) -> None:
        for app_id in list(self.records)[: max(0, len(self.records) - MAX_APPS)]:
            if all(attempt.finished for attempt in self._of_app.get(app_id, ())):
                self._forget(app_id)

    def _forget(self, app_id: str) -> None:
        self.records.pop(app_id)
        self._apps.pop(app_id, None)
        for attempt in self._of_app.pop(app_id, []):
            self.attempts.pop(attempt.id, None)
            self._use.charge(attempt.id, "", "", Resources())

    def _refresh(self, node: Node, now_s: float) -> None:
        node.refresh(now_s, self.limits.report_fresh_s, self._held)

    def _held(self, container_id: str) -> bool:
        return self._holder(container_id) is not None

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
        self._turn(self.budget.round({a.app_id for a in self.attempts.values() if not a.finished}, now_s))
        self.estimator.round()
        self.outlook.round()
        yield
        fresh_s = self.limits.report_fresh_s
        unsettled = [node for node in self.nodes.values() if not node.settled(now_s, fresh_s)]
        for node in _with_breaks(unsettled):
            if node is None:
                yield
                continue
            self._refresh(node, now_s)
            if now_s - node.reported_s > fresh_s:
                self.estimator.forget_node(node.id)
        self._capacity = None
        for attempt in _with_breaks([a for a in self.attempts.values() if self.serving and not a.finished]):
            if attempt is None:
                yield
            elif self.serving and self.attempts.get(attempt.id) is attempt:
                attempt.guard(now_s)
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
        return own + [effect for attempt in self.attempts.values() for effect in attempt.take_effects()]

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
        self.estimator.running(node_id, report.containers, self._apps, self.policies)
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
        return self.outlook.news(targets, report, now_s) if targets is not None else None

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
            self._learn(event, live, app)
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

    def _learn(self, event: ContainerEvent, live: Live, app: AppView) -> None:
        """Take in how long a container ran that ended, or was lost; one that was released early tells nothing."""
        took_s = worked_s(event)
        if event.kind is EventKind.ENDED and took_s is not None and not live.released:
            self._effects.append(Estimated(live.source, live.expected_s, took_s))
            self.estimator.observe(app, live.priority, took_s, self.policies.estimate(app))
        elif event.kind in (EventKind.KILLED, EventKind.SHED, EventKind.LOST):
            self.estimator.lost(live.id, took_s or 0.0, live.follows)

    def _holder(self, container_id: str) -> Attempt | None:
        """Return the attempt that holds a container: its own one, or a later one that took it over."""
        of_app = self._of_app.get(app_of_container(container_id), ())
        return next((attempt for attempt in reversed(of_app) if attempt.hears_of(container_id)), None)

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

    # World, beside what `Places` answers

    def app(self, app_id: str) -> AppView | None:
        """Return the application's record, None while it is not known."""
        return self._apps.get(app_id)

    def live(self, container_id: str) -> Live | None:
        """Return a container that an application holds, None when none does."""
        attempt = self._holder(container_id)
        return attempt.live.get(container_id) if attempt is not None else None

    def away(self, node_id: str, now_s: float) -> Away | None:
        """Return why a node starts nothing now; None while it may, or nothing is known."""
        node = self.nodes.get(node_id)
        return node.away(now_s, self.limits.report_fresh_s) if node is not None else None

    def queue(self, name: str) -> QueueView | None:
        """Return a YARN queue with the queueable use of all its applications; None when it is not known."""
        yarn = self.queues.get(full_queue(name, self.queues))
        if yarn is None:
            return None
        used, by_user = self._use.of(yarn.path)
        return QueueView(
            name=yarn.path,
            max_capacity=yarn.max_capacity,
            used_g=yarn.used,
            used_q=used,
            user_used_q=by_user,
            user_used_g=yarn.user_used,
            user_limit=yarn.user_limit,
            parents=self._parents(yarn.path),
            priority=yarn.priority,
            cluster=self._cluster(),
            cluster_used_q=self._use.all,
            labels=yarn.labels,
            default_label=yarn.default_label,
            capacity=yarn.capacity,
        )

    def _parents(self, path: str) -> tuple[ParentView, ...]:
        known = [self.queues[above] for above in parents(path) if above in self.queues]
        return tuple(ParentView(q.path, q.max_capacity, q.used, self._use.of(q.path)[0]) for q in known)

    def _cluster(self) -> Resources:
        """Return what the usable nodes have together; added up once a round."""
        if self._capacity is None:
            views = (node.view for node in self.nodes.values())
            self._capacity = sum((view.capacity for view in views if view.usable), Resources())
        return self._capacity

    def charge(self, attempt_id: str, used_q: Resources) -> None:
        """Note what the queueable containers of an attempt use, those that wait or are wanted included."""
        app = self._apps.get(app_of_attempt(attempt_id))
        if app is not None:
            self._use.charge(attempt_id, app.queue, app.user, used_q)

    def expected_s(self, app: AppView, priority: int) -> float:
        """Return how long a task is expected to run, in seconds."""
        return self.expected(app, priority).mean_s

    def expected(self, app: AppView, priority: int, follows: str = "") -> Expectation:
        """Return how long a task is expected to run, with spread and source."""
        return self.estimator.expected(app, priority, self.policies, follows)

    def job_remaining_s(self, app_id: str, now_s: float) -> float:
        """Return the task-seconds that an application has left, by estimates; computed once a round."""
        return self.outlook.job_remaining_s(app_id, now_s)

    def _expects(self, app_id: str, priority: int) -> Expectation | None:
        app = self._apps.get(app_id)
        return self.expected(app, priority) if app is not None else None

    def _living(self, app_id: str) -> list[Attempt]:
        return [attempt for attempt in self._of_app.get(app_id, ()) if not attempt.finished]

    def hold_limit_s(self, app: AppView) -> float:
        """Return how long a start of this application may be held, in seconds."""
        set_by_admin = self.limits.hold_by_type_s.get(app.type)
        if set_by_admin is not None:
            return set_by_admin
        return frameworks.hold_limit_s(app.type, self.limits.mapreduce_task_timeout_s)


def _with_breaks(items: Sequence[T]) -> Iterator[T | None]:
    """Yield the items, with None after every BREAK_EVERY of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % BREAK_EVERY == 0:
            yield None
