"""The bound set of policies: what the `policies:` section of quicksilver.yaml chose, checked and ready to be called.

`policies.config.schema` has the shape of that section.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from random import Random
from typing import Any, Protocol

from policies.common.damping import Damping
from policies.common.move_limits import Moving
from policies.common.overtaking import Bypassing
from policies.common.shrinking import Shrinking
from policies.common.victims import Killing
from policies.config.binding import bind, bind_alternatives, misnamed
from policies.config.guarded_call import call
from policies.config.registry import Bound, Registry
from policies.config.schema import (
    Estimate,
    Match,
    Mode,
    PoliciesSection,
    PolicySet,
    Test,
    full_queue,
    match_test,
    queue_test,
)
from policies.config.upcoming_change import forbidden
from policies.config.validation import Path, plain
from policies.config.windows import Coming, Hours
from policies.errors import PolicyFaultError, SettingsError
from policies.model import (
    AppView,
    Ask,
    ContainerView,
    Kind,
    Limit,
    NodeQueue,
    NodeUse,
    NodeView,
    Placement,
    QueueView,
    Resources,
    Route,
    ShedTarget,
)


class Estimable(Protocol):
    """What a duration can be expected of: an Ask, or anything else with an application and a request priority."""

    @property
    def app(self) -> AppView: ...  # noqa: D102

    @property
    def priority(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class _Rule:
    text: str
    test: Test
    bound: Bound


class Policies:
    """All policies of one quicksilver.yaml; its methods are pure, and fast enough to be called for each container.

    A policy that raises, or answers what its slot does not allow, becomes a PolicyFaultError that names it. It never
    changes: settings that are read anew, and windows that open, make another one. What concerns an application is
    decided by `for_app` of it, what concerns a node by `for_nodes`; the methods see to that themselves.
    """

    def __init__(
        self,
        section: PolicySet,
        choices: Mapping[str, Bound],
        routes: Sequence[Bound],
        quotas: Sequence[Bound],
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
        self._choices = dict(choices)
        self._quotas = tuple(quotas)
        pairs = zip(section.routes, routes, strict=True)
        self._rules = [
            _Rule(f"rule {number} ({rule.match})", match_test(rule.match), bound)
            for number, (rule, bound) in enumerate(pairs, 1)
        ]
        self._listed = queue_test(section.queues)
        self._modes = [(queue_test(rule.queue), rule) for rule in section.modes]
        self._hints = [(match_test(hint.match), hint.expected_s) for hint in section.estimate.rules]
        self._rollouts = [(queue_test(rollout.queue), rollout) for rollout in whole.rollout]
        self._later: list[tuple[Coming, Policies]] = []
        self._enter(Hours())

    @classmethod
    def load(cls, data: Mapping[str, Any] | None, registry: Registry | None = None, path: Path = ()) -> Policies:
        """Return the policies of a `policies:` section; `path` is where it stands in the file.

        Raises SettingsError with all mistakes: of the section's shape, of policies' names and of their settings.
        """
        registry = registry or Registry()
        raw: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        base, mistakes = bind(PoliciesSection, raw, registry, path)
        alternatives, wrong = bind_alternatives(raw, registry, path)
        mistakes += wrong
        if base is not None and isinstance(base.section, PoliciesSection):
            mistakes += misnamed(raw, base.section, path)
        if mistakes or base is None:
            raise SettingsError(mistakes)
        others = {name: cls(a.section, a.choices, a.routes, a.quotas, name=name) for name, a in alternatives.items()}
        return cls(base.section, base.choices, base.routes, base.quotas, others)

    # Which policies hold

    @property
    def version(self) -> str:
        """The number of the settings, a digest of them, and the windows that are open: `3-1f00ba5e9c+night`."""
        return "+".join((f"{self.number}-{self.digest}", *self.hours.open))

    def numbered(self, number: int) -> Policies:
        """Return these policies as the settings of this number."""
        new = copy(self)
        new.number = number
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
        self._in_window = [(queue_test(window.queue), self.alternatives[window.use]) for window in open_now]
        of_all = (self.alternatives[window.use] for window in open_now if "*" in window.queue)
        self._of_nodes = next(of_all, None)
        self._later = [(change, self.at(Hours(change.open))) for change in hours.coming]

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

    def keeping(self, slot: str, other: Policies) -> Policies:
        """Return these policies with the policy that `other` has in a slot, in alternatives too."""
        new = copy(self)
        new.__dict__.pop("digest", None)
        new._choices = {**self._choices, slot: other.for_nodes._choices[slot]}
        new.alternatives = {name: alternative.keeping(slot, other) for name, alternative in self.alternatives.items()}
        new._enter(self.hours)
        return new

    def differs(self, other: Policies, slot: str) -> bool:
        """Tell whether another set of policies has something else in a slot (see `policies.base.SLOTS`)."""
        if slot == "route":
            mine, its = self.section, other.section
            same = (mine.queues, mine.retries_to_g) == (its.queues, its.retries_to_g)
            mine_rules, its_rules = ([(rule.text, rule.bound) for rule in each._rules] for each in (self, other))
            return not same or mine_rules != its_rules
        if slot == "quota":
            return self._quotas != other._quotas
        return self._choices[slot] != other._choices[slot]

    # Applications

    def quotas_of(self, queue: str) -> tuple[Bound, ...]:
        """Return the quota policies of a YARN queue, roll-outs to a part of its applications aside."""
        return self.for_app(AppView("", queue))._quotas

    def listed(self, queue: str) -> bool:
        """Tell whether containers of this YARN queue may be queueable."""
        return self._listed(queue)

    def route(self, ask: Ask, rng: Random) -> Route:
        """Decide whether one wanted container is guaranteed or queueable, and say by which rule."""
        own = self.for_app(ask.app)
        limit = own.section.retries_to_g
        if not own.listed(ask.app.queue):
            return Route(Kind.GUARANTEED, f"queue {full_queue(ask.app.queue)} is not listed in policies.queues")
        if ask.retries > limit:
            why = f"its queueable containers were shed or killed {ask.retries} times, more than {limit}"
            return Route(Kind.GUARANTEED, why)
        for rule in own._rules:
            if rule.test(ask.app, ask.priority):
                answer = call(rule.bound, Route, ask, rule.bound.cfg, rng)
                return Route(answer.kind, f"{rule.text}: {answer.reason}")
        return Route(Kind.GUARANTEED, "no rule of policies.routes matches")

    def choose(self, ask: Ask, queue: QueueView, rng: Random, now_s: float) -> Route:
        """Decide on one wanted container by route, quota and what comes: the whole decision."""
        return self.allow(self.route(ask, rng), ask, queue, rng, now_s)

    def allow(self, chosen: Route, ask: Ask, queue: QueueView, rng: Random, now_s: float) -> Route:
        """Decide on a container whose route stands, by quota and by what comes."""
        if chosen.kind is Kind.QUEUEABLE:
            over = self.quota(ask, queue)
            soon = self.drained(ask, queue, rng, now_s) if over is None else None
            if over is not None or soon is not None:
                slot = "quota" if over is not None else "window"
                return Route(Kind.GUARANTEED, over or soon or "", slot, self.version)
        return replace(chosen, version=self.version)

    def drained(self, ask: Ask, queue: QueueView, rng: Random, now_s: float) -> str | None:
        """Return why a container may not be queueable now that could be still, when a window begins or ends.

        What is expected to end before is none of its business.
        """
        own = self.for_app(ask.app)
        for change, policies in self._later:
            later = policies.for_app(ask.app)
            if later is own or now_s + ask.expected_s <= change.at_s:
                continue
            why = forbidden(own, later, ask, queue, rng)
            if why is not None:
                return f"{change} in {max(0.0, change.at_s - now_s):.0f} s and would not allow it: {why}"
        return None

    def place(self, ask: Ask, nodes: Sequence[NodeView], rng: Random) -> Placement:
        """Choose the node where a queueable container waits; None when no node may take it."""
        bound = self.for_app(ask.app)._choices["place"]
        answer = call(bound, Placement, ask, nodes, bound.cfg, rng)
        if answer.node is None:
            return answer
        chosen = next((node for node in nodes if node.id == answer.node), None)
        if chosen is None or ask.tier(chosen) is None:
            raise PolicyFaultError(f"{bound}: chose node {answer.node}, where the ask may not go")
        return answer

    def order_key(self, waiting: ContainerView, now_s: float) -> tuple[float, ...]:
        """Return the sort key of a waiting container: the lowest starts first; break ties by container id."""
        bound = self.for_nodes._choices["order"]
        return call(bound, tuple, waiting, bound.cfg, now_s)

    def order_steady(self) -> object:
        """Return what stays the same object while keys and limits of unchanged containers do, or None."""
        bound = self.for_nodes._choices["order"]
        return bound if bound.steady else None

    def bypass_limit_s(self, waiting: ContainerView) -> float | None:
        """Return how much expected work (s) may overtake a waiting container; None where the order alone counts."""
        cfg = self.for_nodes._choices["order"].cfg
        return cfg.limit_s(waiting) if isinstance(cfg, Bypassing) else None

    def victims(self, need: Resources, running: Sequence[ContainerView], now_s: float) -> list[str]:
        """Choose running queueable containers that make room for `need`; empty when they cannot, or need not."""
        bound = self.for_nodes._choices["preempt"]
        answer = call(bound, list, need, running, bound.cfg, now_s)
        if not set(answer) <= {c.id for c in running if c.kind is Kind.QUEUEABLE}:
            raise PolicyFaultError(f"{bound}: chose {answer}, but only running queueable containers may be killed")
        return answer

    @property
    def grace_s(self) -> float:
        """How long a guaranteed container waits for queueable ones that are about to end, before they are killed."""
        cfg = self.for_nodes._choices["preempt"].cfg
        return cfg.grace_s if isinstance(cfg, Killing) else 0.0

    def shrinking(self) -> Shrinking | None:
        """Return the settings of the policy that lets containers give way by shrinking them, None under any other."""
        cfg = self.for_nodes._choices["preempt"].cfg
        return cfg if isinstance(cfg, Shrinking) else None

    def headroom(self, limit: Resources, app: AppView) -> Resources:
        """Return the headroom that the application is told, never negative."""
        bound = self.for_app(app)._choices["headroom"]
        answer = call(bound, Resources, limit, app, bound.cfg)
        return Resources(max(0, answer.memory_mb), max(0, answer.vcores))

    def quota(self, ask: Ask, queue: QueueView) -> str | None:
        """Return None when the container may be queueable, else why not; the queue's labels are checked here too."""
        if ask.label and not queue.labels & {"*", ask.label}:
            return f"queue {queue.name} may not use the node label {ask.label}"
        for bound in self.for_app(ask.app)._quotas:
            answer: str | None = call(bound, str | None, ask, queue, bound.cfg)  # type: ignore[arg-type]
            if answer is not None:
                return answer
        return None

    def shed(self, nodes: Sequence[NodeView], now_s: float) -> Mapping[str, ShedTarget]:
        """Return how much may wait at each node, by node id; no limit for those that are not named."""
        bound = self.for_nodes._choices["shed"]
        answer: Mapping[str, ShedTarget] = call(bound, Mapping, nodes, bound.cfg, now_s)  # type: ignore[type-abstract]
        return answer

    def shed_steady(self) -> object:
        """Return what stays the same object while equal nodes get the same answer of `shed`, or None."""
        bound = self.for_nodes._choices["shed"]
        return bound if bound.steady else None

    def steal(self, thief: NodeView, others: Sequence[NodeQueue], rng: Random, now_s: float) -> list[str]:
        """Return ids of waiting containers, all of one node, that the idle node takes over."""
        bound = self.for_nodes._choices["steal"]
        answer = call(bound, list, thief, others, bound.cfg, rng, now_s)
        if answer and not any(set(answer) <= {c.id for c in other.waiting} for other in others):
            raise PolicyFaultError(f"{bound}: chose {answer}, which do not wait together at one node")
        return answer

    def moving(self, slot: str) -> Moving:
        """Return the bounds for what the policy in `steal` or `correct` moves."""
        cfg = self.for_nodes._choices[slot].cfg
        return cfg if isinstance(cfg, Moving) else Moving()

    def correct(self, waiting: ContainerView, here: NodeQueue, best: NodeView, now_s: float) -> str | None:
        """Return why a waiting container should move from `here` to `best`, or None to leave it."""
        bound = self.for_nodes._choices["correct"]
        answer: str | None = call(bound, str | None, waiting, here, best, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def police(self, use: NodeUse, now_s: float) -> Limit | None:
        """Return what queueable containers may use of a node; None for no limit."""
        bound = self.for_nodes._choices["police"]
        answer: Limit | None = call(bound, Limit | None, use, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def promote(self, running: ContainerView, app: AppView, queue: QueueView, now_s: float) -> str | None:
        """Return why a running queueable container should become guaranteed, or None to leave it."""
        bound = self.for_app(app)._choices["promote"]
        answer: str | None = call(bound, str | None, running, app, queue, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def damping(self, slot: str) -> Damping:
        """Return the damping of the policy that decides on nodes in a slot: its setting `damping`, else none."""
        found = getattr(self.for_nodes._choices[slot].cfg, "damping", None)
        return found if isinstance(found, Damping) else Damping()

    def chosen(self, slot: str) -> str:
        """Return the name of the policy in a slot, for records; all of them for `quota`, "rules" for `route`."""
        if slot == "quota":
            return "+".join(bound.name for bound in self._quotas)
        return self._choices[slot].name if slot in self._choices else "rules"

    def mode(self, app: AppView) -> Mode:
        """Return how the proxy treats an application: active, shadow or bypass."""
        own = self.for_app(app)
        for in_queue, rule in own._modes:
            if in_queue(app.queue) and rule.takes(app.id):
                return rule.mode
        return own.section.mode

    def expected_s(self, ask: Estimable) -> float:
        """Return the expected duration (s) of what nothing is known about: by the first hint that matches."""
        ruled_s = self.ruled_s(ask.app, ask.priority)
        return self.estimate(ask.app).default_s if ruled_s is None else ruled_s

    def ruled_s(self, app: AppView, priority: int) -> float | None:
        """Return the duration (s) of the first hint in `estimate.rules` that matches; None when none does."""
        hints = self.for_app(app)._hints
        return next((expected_s for matches, expected_s in hints if matches(app, priority)), None)

    def estimate(self, app: AppView) -> Estimate:
        """Return how durations of an application's tasks are estimated."""
        return self.for_app(app).section.estimate

    def notes(self) -> list[str]:
        """Return what is allowed but probably not meant, one line each."""
        queues, routes = self.section.queues, self.section.routes
        found = []
        if queues and not routes:
            found.append("queues are listed, but routes is empty: every container stays guaranteed")
        if routes and not queues:
            found.append("there are routes, but queues is empty: every container stays guaranteed")
        all_at = next((number for number, rule in enumerate(routes, 1) if rule.match == Match()), len(routes))
        found.extend(
            f"routes[{number}] is never reached: routes[{all_at - 1}] matches everything"
            for number in range(all_at, len(routes))
        )
        if isinstance(self.section, PoliciesSection):
            used = {*self.shadow, *(r.use for r in self.section.rollout), *(w.use for w in self.windows)}
            found.extend(f"alternative {name} is used nowhere" for name in self.alternatives if name not in used)
        return found

    def describe(self) -> dict[str, Any]:
        """Return the policies in force with all their settings, as JSON can hold it; infinity is the text `.inf`."""
        described: dict[str, Any] = self.section.model_dump(mode="json")
        for slot, bound in self._choices.items():
            described[slot] = _shown(bound)
        described["quota"] = [_shown(bound) for bound in self._quotas]
        for rule, shown in zip(self._rules, described["routes"], strict=True):
            shown.update(_shown(rule.bound))
        if isinstance(self.section, PoliciesSection):
            described["alternatives"] = {
                name: {key: self.alternatives[name].describe()[key] for key in own}
                for name, own in self.section.alternatives.items()
            }
        return described

    @cached_property
    def digest(self) -> str:
        """Ten hexadecimal digits that depend on all settings."""
        text = json.dumps(self.describe(), sort_keys=True, default=str)
        return blake2b(text.encode(), digest_size=5).hexdigest()


def _shown(bound: Bound) -> dict[str, Any]:
    return {"policy": bound.name, "package": bound.package, "settings": plain(bound.cfg.model_dump(mode="json"))}
