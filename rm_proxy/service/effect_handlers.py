"""Effects of attempts and of the coordinator, carried out: one handler for each class of effect."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from policies.model import AppView, Kind
from quicksilver.common.messages import Grants
from quicksilver.common.process.logs import debug_check, get_logger
from rm_proxy.attempt.effects import (
    Announce,
    BadTags,
    BudgetTurned,
    Completed,
    Confirmed,
    Decided,
    DropHeld,
    Effect,
    Estimated,
    Faulted,
    FellBack,
    Granted,
    Moved,
    Noticed,
    Refused,
    Returned,
    ShadowFaulted,
    TooLarge,
)
from rm_proxy.coordinator.error_budget import FaultKind
from rm_proxy.estimates.estimator import MIN_S
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.bypass_control import BypassControl
from rm_proxy.service.grant_announcer import GrantAnnouncer
from rm_proxy.service.sampling.decision_sampling import Decisions
from rm_proxy.service.traces import trace_grant
from rm_proxy.store.writer import Writer

log = get_logger(__name__)
_is_debugging = debug_check(__name__)


class EffectHandlers:
    """Writes records, counts, logs, and sends messages to sidecars; used in the event loop."""

    def __init__(
        self,
        metrics: ProxyMetrics,
        writer: Writer,
        decisions: Decisions,
        bypass: BypassControl,
        announcer: GrantAnnouncer,
        delivered: Callable[[Kind, float, float], None],
        app: Callable[[str], AppView | None] = lambda app_id: None,
    ) -> None:
        """Prepare.

        delivered: gets each delivery: the kind, seconds since the ask, Unix seconds. app: returns an application by
        its id, None while it is not known.
        """
        self._metrics, self._writer, self._decisions = metrics, writer, decisions
        self._bypass, self._announcer, self._delivered, self._app = bypass, announcer, delivered, app
        self._grants, self._allocation_s = cache(metrics.grants.labels), cache(metrics.allocation_s.labels)
        self._completions, self._estimate_errors = (
            cache(metrics.completions.labels),
            cache(metrics.estimate_error.labels),
        )
        self._messages: dict[str, Grants] = {}
        """By node: what the effects of the running call send to its sidecar."""
        self._handlers: dict[type, Callable[[Any], None]] = {
            Announce: self._announce,
            BadTags: self._bad_tags,
            BudgetTurned: self._budget_turned,
            Completed: self._completed,
            Confirmed: self._confirmed,
            Decided: self._decided,
            DropHeld: self._drop_held,
            Estimated: self._estimated,
            Faulted: self._faulted,
            FellBack: self._fell_back,
            Granted: self._granted,
            Moved: self._moved,
            Noticed: self._noticed,
            Refused: self._refused,
            Returned: self._returned,
            ShadowFaulted: self._shadow_faulted,
            TooLarge: self._too_large,
        }

    def handle(self, effects: Iterable[Effect]) -> None:
        """Carry out effects in their order; messages for one node leave together, after all of them."""
        handlers = self._handlers
        try:
            for effect in effects:
                handlers[type(effect)](effect)
        finally:
            if self._messages:
                messages, self._messages = self._messages, {}
                for node_id, message in messages.items():
                    self._announcer.send(node_id, message)

    # Messages to sidecars

    def _announce(self, effect: Announce) -> None:
        self._message(effect.node_id).grants.append(effect.grant)

    def _confirmed(self, effect: Confirmed) -> None:
        self._message(effect.node_id).known.append(effect.container_id)
        self._metrics.own_grants.labels("ahead").inc()
        self._metrics.confirmed_s.observe(max(0.0, effect.waited_s))

    def _drop_held(self, effect: DropHeld) -> None:
        message = self._message(effect.node_id)
        message.drop.append(effect.container_id)
        message.drop_reason = effect.reason

    def _message(self, node_id: str) -> Grants:
        message = self._messages.get(node_id)
        if message is None:
            message = self._messages[node_id] = Grants(grants=[], known=[], drop=[])  # a default would be copied
        return message

    # Containers

    def _granted(self, effect: Granted) -> None:
        record = effect.record
        self._writer.grant(record)
        self._grants(record.kind).inc()
        delay_s = record.granted_s - record.asked_s
        self._allocation_s(record.kind).observe(max(0.0, delay_s))
        self._delivered(record.kind, delay_s, record.granted_s)
        self._metrics.queues.granted(self._app(record.app_id), record.kind, delay_s)
        trace_grant(record)
        if record.wanted_node not in (None, record.node_id):
            self._metrics.unexpected_grants.labels("kept").inc()
        if _is_debugging():
            log.debug(
                "granted",
                container=record.container_id,
                application=record.app_id,
                kind=record.kind.value,
                node=record.node_id,
                why=record.route_reason,
            )

    def _completed(self, effect: Completed) -> None:
        self._writer.completion(effect.record)
        origin = "own" if effect.record.own else "translated" if effect.record.translated else "rm"
        self._completions(origin).inc()
        self._metrics.queues.completed(self._app(effect.record.app_id), effect.record)

    def _estimated(self, effect: Estimated) -> None:
        error_s = abs(effect.expected_s - effect.ran_s)
        self._estimate_errors(effect.source).observe(error_s / max(MIN_S, effect.ran_s))

    def _fell_back(self, effect: FellBack) -> None:
        reason = "ungranted" if "did not grant" in effect.reason else "no_node"
        self._metrics.fallbacks.labels(reason).inc(effect.count)
        log.info("fell back to guaranteed", application=effect.app_id, why=effect.reason, containers=effect.count)

    def _returned(self, effect: Returned) -> None:
        self._metrics.releases.labels("unwanted").inc()
        log.info("given back", container=effect.container_id, why=effect.reason)

    def _moved(self, effect: Moved) -> None:
        self._metrics.moves.labels(effect.cause, effect.outcome).inc()

    def _noticed(self, effect: Noticed) -> None:
        self._metrics.notices.labels("container" if effect.container_id else "node").inc()
        log.info(
            "notice to an application master",
            application=effect.app_id,
            container=effect.container_id,
            node=effect.node_id,
        )

    # Decisions

    def _decided(self, effect: Decided) -> None:
        record = effect.record
        sampled = self._decisions.take(record, time.time())
        if sampled is not None:
            self._writer.decision(sampled)
        if record.alternative:
            agrees = "yes" if record.chosen == record.other else "no"
            self._metrics.shadow_decisions.labels(record.alternative, record.slot, agrees).inc(record.weight)
            return
        self._metrics.decisions.labels(record.slot).inc(record.weight)
        if sampled is None:
            self._metrics.decisions_left_out.labels(record.slot).inc(record.weight)
        if record.slot == "promote":
            self._metrics.promotions.labels(record.chosen).inc()
            log.info(f"promotion {record.chosen}", container=record.container_id, why=record.reason)

    # Faults

    def _faulted(self, effect: Faulted) -> None:
        self._metrics.policy_faults.inc()
        self._bypass.fault(FaultKind.POLICY, effect.app_id)
        log.error("a policy failed", application=effect.app_id, why=effect.fault)

    def _shadow_faulted(self, effect: ShadowFaulted) -> None:
        self._metrics.shadow_faults.labels(effect.alternative, effect.slot).inc(effect.count)
        log.warning("an alternative failed", alternative=effect.alternative, why=effect.fault)

    def _refused(self, effect: Refused) -> None:
        self._bypass.fault(FaultKind.REFUSED, effect.app_id)
        log.warning("the ResourceManager refused a rewritten allocate", application=effect.app_id, why=effect.why)

    def _too_large(self, effect: TooLarge) -> None:
        self._metrics.resyncs.labels("too-large").inc()
        text = "asks of an application are too much to be read: they pass, and stay guaranteed until it registers again"
        log.warning(text, application=effect.app_id, why=effect.why)

    def _bad_tags(self, effect: BadTags) -> None:
        self._metrics.bad_tags.inc(len(effect.tags))
        log.warning(
            "tags of an application cannot be read as durations",
            application=effect.app_id,
            tags=list(effect.tags[:5]),
            remedy="write expected_s:SECONDS or expected_s:PRIORITY:SECONDS",
        )

    def _budget_turned(self, effect: BudgetTurned) -> None:
        self._bypass.turned(effect.turned)
