"""The bound set of policies: the choices of the `policies:` section of quicksilver.yaml, checked and ready for calls.

`policies.config.schema` has the shape of that section.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from random import Random
from typing import Any, Final

from policies.config.binding import bind, bind_alternatives, misnamed
from policies.config.cluster_slots import ClusterSlots
from policies.config.guarded_call import call
from policies.config.kill_rules import KillRules
from policies.config.node_slots import NodeSlots
from policies.config.presets import laid_over
from policies.config.registry import BoundPolicy, Registry
from policies.config.schema import (
    Estimate,
    Mode,
    PoliciesSection,
    PolicySet,
    Test,
    full_queue,
    match_test,
    queue_test,
)
from policies.config.validation import Path
from policies.config.windows import Coming, Hours
from policies.errors import PolicyFaultError, SettingsMistakesError
from policies.model import (
    AppView,
    Ask,
    ContainerView,
    Kind,
    NodeView,
    Placement,
    QueueView,
    Resources,
    Route,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of `policies.routes`, as text for records, as test of a request, and with its policy."""

    text: str
    test: Test
    bound: BoundPolicy


MAX_QUEUES: Final = 1_000
"""YARN queues of which it is remembered whether they are listed."""


class Policies:
    """All policies of one quicksilver.yaml; its methods are pure, and fast enough to be called for each container.

    A policy that raises, or answers out of form, causes a PolicyFaultError that names it. A set of policies never
    changes: settings that are read anew, and windows that open, make another one. An application is decided on by the
    policies of `for_app`, which the methods look up; nodes by those of `for_nodes`, as `node` and `cluster` do.
    """

    def __init__(
        self,
        section: PolicySet,
        choices: Mapping[str, BoundPolicy],
        routes: Sequence[BoundPolicy],
        quotas: Sequence[BoundPolicy],
        alternatives: Mapping[str, Policies] | None = None,
        name: str = "",
    ) -> None:
        self.section = section
        self.name = name
        """Of an alternative; "" for the base."""
        self.alternatives = dict(alternatives or {})
        self.number = 1
        whole = section if isinstance(section, PoliciesSection) else PoliciesSection()
        self.windows, self.shadow, self.time_zone = whole.windows, whole.shadow, whole.time_zone
        self.choices = dict(choices)
        self.quotas = tuple(quotas)
        pairs = zip(section.routes, routes, strict=True)
        self.rules = [
            Rule(f"rule {number} ({rule.match})", match_test(rule.match), bound)
            for number, (rule, bound) in enumerate(pairs, 1)
        ]
        self._listed = lru_cache(MAX_QUEUES)(queue_test(section.queues))
        self._modes = [(queue_test(rule.queue), rule) for rule in section.modes]
        self._hints = [(match_test(hint.match), hint.expected_s) for hint in section.estimate.rules]
        self._rollouts = [(queue_test(rollout.queue), rollout) for rollout in whole.rollout]
        self.later: list[tuple[Coming, Policies]] = []
        """Windows that begin or end soon, each with the policies from then on."""
        self._enter(Hours())

    @classmethod
    def load(cls, data: Mapping[str, Any] | None, registry: Registry | None = None, path: Path = ()) -> Policies:
        """Return the policies of a `policies:` section; `path` is where it stands in the file.

        Raises SettingsMistakesError with all mistakes: of the section's shape, of names and of settings of policies.
        """
        registry = registry or Registry()
        raw = laid_over(data if isinstance(data, Mapping) else {})
        base, mistakes = bind(PoliciesSection, raw, registry, path)
        alternatives, wrong = bind_alternatives(raw, registry, path)
        mistakes += wrong + misnamed(raw, path)
        if mistakes or base is None:
            raise SettingsMistakesError(mistakes)
        others = {name: cls(a.section, a.choices, a.routes, a.quotas, name=name) for name, a in alternatives.items()}
        return cls(base.section, base.choices, base.routes, base.quotas, others)

    # Which policies are in force

    @cached_property
    def version(self) -> str:
        """The number of the settings, a digest of them, and the windows that are open: `3-1f00ba5e9c+night`."""
        return "+".join((f"{self.number}-{self.digest}", *self.hours.open))

    def numbered(self, number: int) -> Policies:
        """Return these policies as the settings of this number."""
        new = copy(self)
        new.number = number
        new.__dict__.pop("version", None)
        return new

    def at(self, hours: Hours) -> Policies:
        """Return these policies as they are while these windows are open."""
        if hours == self.hours:
            return self
        new = copy(self)
        new._enter(hours)
        return new

    def _enter(self, hours: Hours) -> None:
        open_now = [window for window in self.windows if window.name in hours.open]
        self.hours = hours
        self.__dict__.pop("version", None)
        self._in_window = [(queue_test(window.queue), self.alternatives[window.use]) for window in open_now]
        of_all = (self.alternatives[window.use] for window in open_now if "*" in window.queue)
        self._of_nodes = next(of_all, None)
        self.admits = any(variant.choices["admit"].name != "none" for variant in (self, *self.alternatives.values()))
        """Whether these policies, or any of their alternatives, have tokens."""
        self.by_load = all(variant.choices["place"].by_load for variant in (self, *self.alternatives.values()))
        """Whether each placement takes one of the least loaded nodes (`policies.base.Policy.by_load`)."""
        self.node, self.cluster = NodeSlots(self.for_nodes.choices), ClusterSlots(self.for_nodes.choices)
        self.kills = KillRules(self.for_nodes.section)
        self.later = [(change, self.at(Hours(change.open))) for change in hours.coming]

    def for_app(self, app: AppView) -> Policies:
        """Return the policies that decide on this application: of an open window, of a roll-out, or the base."""
        for in_queue, alternative in self._in_window:
            if in_queue(app.queue):
                return alternative
        for in_queue, rollout in self._rollouts:
            if in_queue(app.queue) and rollout.takes(app.id):
                return self.alternatives[rollout.use]
        return self

    @property
    def for_nodes(self) -> Policies:
        """The policies that decide on nodes as a whole: of an open window of all queues, or the base."""
        return self._of_nodes or self

    def keeping(self, slot: str, source: Policies) -> Policies:
        """Return these policies with the policy that `source` has in a slot, in alternatives too."""
        new = copy(self)
        new.__dict__.pop("digest", None)
        new.choices = {**self.choices, slot: source.for_nodes.choices[slot]}
        new.alternatives = {name: alternative.keeping(slot, source) for name, alternative in self.alternatives.items()}
        new._enter(self.hours)
        return new

    def differs(self, peer: Policies, slot: str) -> bool:
        """Return whether another set of policies has something else in a slot (see `policies.base.SLOTS`)."""
        if slot == "route":
            own, its = self.section, peer.section
            same = (own.queues, own.retries_to_g) == (its.queues, its.retries_to_g)
            own_rules, its_rules = ([(rule.text, rule.bound) for rule in each.rules] for each in (self, peer))
            return not same or own_rules != its_rules
        if slot == "quota":
            return self.quotas != peer.quotas
        return self.choices[slot] != peer.choices[slot]

    # Applications

    def quotas_of(self, queue: str) -> tuple[BoundPolicy, ...]:
        """Return the quota policies of a YARN queue, roll-outs to a part of its applications aside."""
        return self.for_app(AppView("", queue)).quotas

    def listed(self, queue: str) -> bool:
        """Return whether containers of this YARN queue may be queueable."""
        return self._listed(queue)

    def route(self, ask: Ask, rng: Random, rule: Rule | str | None = None) -> Route:
        """Decide whether one wanted container is guaranteed or queueable, and say by which rule.

        rule: that of its application and priority, if it is known already.
        """
        if rule is None:
            rule = self.rule(ask.app, ask.priority)
        if isinstance(rule, str):
            return Route(Kind.GUARANTEED, rule)
        why = over_retries(self, ask) if ask.retries else None
        if why is not None:
            return Route(Kind.GUARANTEED, why)
        answer = call(rule.bound, Route, ask, rule.bound.cfg, rng)
        return Route(answer.kind, f"{rule.text}: {answer.reason}")

    def unrouted(self, why: str) -> Route:
        """Return the route of containers that no `route` policy decides on: guaranteed. why: as `rule` says."""
        return Route(Kind.GUARANTEED, why, version=self.version)

    def rule(self, app: AppView, priority: int) -> Rule | str:
        """Return the first rule of `policies.routes` that matches; else why none decides."""
        own = self.for_app(app)
        if not own.listed(app.queue):
            return f"queue {full_queue(app.queue)} is not listed in policies.queues"
        for rule in own.rules:
            if rule.test(app, priority):
                return rule
        return "no rule of policies.routes matches"

    def place(self, ask: Ask, nodes: Sequence[NodeView], rng: Random) -> Placement:
        """Choose the node where a queueable container waits; None when no node may take it."""
        bound = self.for_app(ask.app).choices["place"]
        answer = call(bound, Placement, ask, nodes, bound.cfg, rng)
        if answer.node is None:
            return answer
        for node in nodes:
            if node.id == answer.node and ask.tier(node) is not None:
                return answer
        raise PolicyFaultError(f"{bound}: chose node {answer.node}, where the ask may not go")

    def ahead_s(self) -> float:
        """Return how soon a container of a full node has to end so that another one may be bound there and wait."""
        ahead_s = getattr(self.choices["place"].cfg, "ahead_s", 0.0)
        return float(ahead_s) if isinstance(ahead_s, int | float) else 0.0

    def headroom(self, limit: Resources, app: AppView) -> Resources:
        """Return the headroom to report to the application, never negative."""
        bound = self.for_app(app).choices["headroom"]
        answer = call(bound, Resources, limit, app, bound.cfg)
        return Resources(max(0, answer.memory_mb), max(0, answer.vcores))

    def promote(self, running: ContainerView, app: AppView, queue: QueueView, now_s: float) -> str | None:
        """Return why a running queueable container should become guaranteed, or None to leave it."""
        bound = self.for_app(app).choices["promote"]
        answer: str | None = call(bound, str | None, running, app, queue, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def policy_name(self, slot: str) -> str:
        """Return the name of the policy in a slot, for records; all of them for `quota`, "rules" for `route`."""
        if slot == "quota":
            return "+".join(bound.name for bound in self.quotas)
        return self.choices[slot].name if slot in self.choices else "rules"

    def mode(self, app: AppView) -> Mode:
        """Return how the proxy treats an application: active, shadow or bypass."""
        own = self.for_app(app)
        for in_queue, rule in own._modes:
            if in_queue(app.queue) and rule.takes(app.id):
                return rule.mode
        return own.section.mode

    def ruled_s(self, app: AppView, priority: int) -> float | None:
        """Return the duration (s) of the first hint in `estimate.rules` that matches; None when none does."""
        for matches, expected_s in self.for_app(app)._hints:
            if matches(app, priority):
                return expected_s
        return None

    def estimate(self, app: AppView) -> Estimate:
        """Return how durations of an application's tasks are estimated."""
        return self.for_app(app).section.estimate

    def describe(self) -> dict[str, Any]:
        """Return the policies in force with all their settings, as JSON can hold it; infinity is the text `.inf`."""
        described: dict[str, Any] = self.section.model_dump(mode="json")
        for slot, bound in self.choices.items():
            described[slot] = bound.describe()
        described["quota"] = [bound.describe() for bound in self.quotas]
        for rule, shown in zip(self.rules, described["routes"], strict=True):
            shown.update(rule.bound.describe())
        if isinstance(self.section, PoliciesSection):
            alternatives = {name: alternative.describe() for name, alternative in self.alternatives.items()}
            described["alternatives"] = {
                name: {key: alternatives[name][key] for key in own} for name, own in self.section.alternatives.items()
            }
        return described

    @cached_property
    def digest(self) -> str:
        """Ten hexadecimal digits that depend on all settings."""
        text = json.dumps(self.describe(), sort_keys=True, default=str)
        return blake2b(text.encode(), digest_size=5).hexdigest()


def decides_alike(policies: Policies, rule: Rule, app: AppView) -> bool:
    """Return whether containers of an application that differ in nothing get the same route, where a rule decides."""
    alike = rule.bound.alike and not policies.admits and not policies.later
    return alike and all(bound.alike for bound in policies.for_app(app).quotas)


def over_retries(policies: Policies, ask: Ask) -> str | None:
    """Return why a task is queueable no longer: it was shed or killed too often; None when it may be."""
    limit = policies.for_app(ask.app).section.retries_to_g
    if ask.retries <= limit:
        return None
    return f"its queueable containers were shed or killed {ask.retries} times, more than {limit}"
