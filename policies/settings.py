"""The bound set of policies: what the `policies:` section of quicksilver.yaml chose, checked and ready to be called.

`policies.section` has the shape of that section.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from policies.check import Path, plain, validate
from policies.errors import Mistake, PolicyError, PolicyFaultError, SettingsError
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
from policies.registry import Bound, Registry
from policies.section import Match, Mode, PoliciesSection, Test, full_queue, match_test, queue_test
from policies.shrinking import Shrinking

T = TypeVar("T")
CHOICES = ("place", "order", "preempt", "headroom", "shed", "steal", "correct", "police", "promote")
"""Slots that one policy fills."""


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

    A policy that raises, or answers what its slot does not allow, becomes a PolicyFaultError that names it.
    """

    def __init__(
        self,
        section: PoliciesSection,
        choices: Mapping[str, Bound],
        routes: Sequence[Bound],
        quotas: Sequence[Bound],
    ) -> None:
        self.section = section
        self.retries_to_g = section.retries_to_g
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

    @classmethod
    def load(cls, data: Mapping[str, Any] | None, registry: Registry | None = None, path: Path = ()) -> Policies:
        """Return the policies of a `policies:` section; `path` is where it stands in the file.

        Raises SettingsError with all mistakes: of the section's shape, of policies' names and of their settings.
        """
        registry = registry or Registry()
        section, mistakes = validate(PoliciesSection, data, path)
        raw: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        defaults = PoliciesSection()
        choices = {
            slot: _bind(registry, slot, raw[slot], (*path, slot), mistakes)
            if slot in raw
            else registry.bind(slot, getattr(defaults, slot).policy)
            for slot in CHOICES
        }
        rules = raw.get("routes")
        routes = [
            _bind(registry, "route", rule, (*path, "routes", number), mistakes)
            for number, rule in enumerate(rules if isinstance(rules, list) else [])
        ]
        quotas = _bind_quotas(registry, raw.get("quota"), (*path, "quota"), mistakes)
        if mistakes or section is None:
            raise SettingsError(mistakes)
        bound = {slot: choice for slot, choice in choices.items() if choice is not None}
        return cls(section, bound, [route for route in routes if route is not None], quotas)

    def listed(self, queue: str) -> bool:
        """Tell whether containers of this YARN queue may be queueable."""
        return self._listed(queue)

    def route(self, ask: Ask, rng: Random) -> Route:
        """Decide whether one wanted container is guaranteed or queueable, and say by which rule."""
        if not self._listed(ask.app.queue):
            return Route(Kind.GUARANTEED, f"queue {full_queue(ask.app.queue)} is not listed in policies.queues")
        if ask.retries > self.retries_to_g:
            why = f"its queueable containers were shed or killed {ask.retries} times, more than {self.retries_to_g}"
            return Route(Kind.GUARANTEED, why)
        for rule in self._rules:
            if rule.test(ask.app, ask.priority):
                answer = _call(rule.bound, Route, ask, rule.bound.cfg, rng)
                return Route(answer.kind, f"{rule.text}: {answer.reason}")
        return Route(Kind.GUARANTEED, "no rule of policies.routes matches")

    def place(self, ask: Ask, nodes: Sequence[NodeView], rng: Random) -> Placement:
        """Choose the node where a queueable container waits; None when no node may take it."""
        bound = self._choices["place"]
        answer = _call(bound, Placement, ask, nodes, bound.cfg, rng)
        if answer.node is None:
            return answer
        chosen = next((node for node in nodes if node.id == answer.node), None)
        if chosen is None or ask.tier(chosen) is None:
            raise PolicyFaultError(f"{bound}: chose node {answer.node}, where the ask may not go")
        return answer

    def order_key(self, waiting: ContainerView, now_s: float) -> tuple[float, ...]:
        """Return the sort key of a waiting container: the lowest starts first; break ties by container id."""
        bound = self._choices["order"]
        return _call(bound, tuple, waiting, bound.cfg, now_s)

    def victims(self, need: Resources, running: Sequence[ContainerView], now_s: float) -> list[str]:
        """Choose running queueable containers that make room for `need`; empty when they cannot, or need not."""
        bound = self._choices["preempt"]
        answer = _call(bound, list, need, running, bound.cfg, now_s)
        if not set(answer) <= {c.id for c in running if c.kind is Kind.QUEUEABLE}:
            raise PolicyFaultError(f"{bound}: chose {answer}, but only running queueable containers may be killed")
        return answer

    def shrinking(self) -> Shrinking | None:
        """Return the settings of the policy that lets containers give way by shrinking them, None under any other."""
        cfg = self._choices["preempt"].cfg
        return cfg if isinstance(cfg, Shrinking) else None

    def headroom(self, limit: Resources, app: AppView) -> Resources:
        """Return the headroom that the application is told, never negative."""
        bound = self._choices["headroom"]
        answer = _call(bound, Resources, limit, app, bound.cfg)
        return Resources(max(0, answer.memory_mb), max(0, answer.vcores))

    def quota(self, ask: Ask, queue: QueueView) -> str | None:
        """Return None when the container may be queueable, else why not; the queue's labels are checked here too."""
        if ask.label and not queue.labels & {"*", ask.label}:
            return f"queue {queue.name} may not use the node label {ask.label}"
        for bound in self._quotas:
            answer: str | None = _call(bound, str | None, ask, queue, bound.cfg)  # type: ignore[arg-type]
            if answer is not None:
                return answer
        return None

    def shed(self, nodes: Sequence[NodeView], now_s: float) -> Mapping[str, ShedTarget]:
        """Return how much may wait at each node, by node id; no limit for those that are not named."""
        bound = self._choices["shed"]
        answer: Mapping[str, ShedTarget] = _call(bound, Mapping, nodes, bound.cfg, now_s)  # type: ignore[type-abstract]
        return answer

    def steal(self, thief: NodeView, others: Sequence[NodeQueue], rng: Random, now_s: float) -> list[str]:
        """Return ids of waiting containers, all of one node, that the idle node takes over."""
        bound = self._choices["steal"]
        answer = _call(bound, list, thief, others, bound.cfg, rng, now_s)
        if answer and not any(set(answer) <= {c.id for c in other.waiting} for other in others):
            raise PolicyFaultError(f"{bound}: chose {answer}, which do not wait together at one node")
        return answer

    def correct(self, waiting: ContainerView, here: NodeQueue, best: NodeView, now_s: float) -> str | None:
        """Return why a waiting container should move from `here` to `best`, or None to leave it."""
        bound = self._choices["correct"]
        answer: str | None = _call(bound, str | None, waiting, here, best, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def police(self, use: NodeUse, now_s: float) -> Limit | None:
        """Return what queueable containers may use of a node; None for no limit."""
        bound = self._choices["police"]
        answer: Limit | None = _call(bound, Limit | None, use, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def promote(self, running: ContainerView, app: AppView, queue: QueueView, now_s: float) -> str | None:
        """Return why a running queueable container should become guaranteed, or None to leave it."""
        bound = self._choices["promote"]
        answer: str | None = _call(bound, str | None, running, app, queue, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def chosen(self, slot: str) -> str:
        """Return the name of the policy in a slot, for records; all of them for `quota`, "rules" for `route`."""
        if slot == "quota":
            return "+".join(bound.name for bound in self._quotas)
        return self._choices[slot].name if slot in self._choices else "rules"

    def mode(self, app: AppView) -> Mode:
        """Return how the proxy treats an application: active, shadow or bypass."""
        for in_queue, rule in self._modes:
            if in_queue(app.queue) and rule.takes(app.id):
                return rule.mode
        return self.section.mode

    def expected_s(self, ask: Estimable) -> float:
        """Return the expected duration (s) of what nothing is known about: by the first hint that matches."""
        for matches, expected_s in self._hints:
            if matches(ask.app, ask.priority):
                return expected_s
        return self.section.estimate.default_s

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
        return found

    def describe(self) -> dict[str, Any]:
        """Return the policies in force with all their settings, as JSON can hold it; infinity is the text `.inf`."""
        described: dict[str, Any] = self.section.model_dump(mode="json")
        for slot, bound in self._choices.items():
            described[slot] = _shown(bound)
        described["quota"] = [_shown(bound) for bound in self._quotas]
        for rule, shown in zip(self._rules, described["routes"], strict=True):
            shown.update(_shown(rule.bound))
        return described


def _shown(bound: Bound) -> dict[str, Any]:
    return {"policy": bound.name, "package": bound.package, "settings": plain(bound.cfg.model_dump(mode="json"))}


def _bind(registry: Registry, slot: str, raw: object, path: Path, mistakes: list[Mistake]) -> Bound | None:
    """Bind one choice; add to `mistakes` what is wrong with its name and settings (its shape is checked elsewhere)."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("policy"), str):
        return None
    settings = raw.get("settings")
    try:
        return registry.bind(
            slot, raw["policy"], settings if isinstance(settings, Mapping) else {}, (*path, "settings")
        )
    except SettingsError as error:
        mistakes.extend(error.mistakes)
    except PolicyError as error:
        mistakes.append(Mistake((*path, "policy"), str(error)))
    return None


def _bind_quotas(registry: Registry, raw: object, path: Path, mistakes: list[Mistake]) -> list[Bound]:
    """Bind one quota policy or a list of them."""
    if isinstance(raw, list):
        found = [_bind(registry, "quota", one, (*path, number), mistakes) for number, one in enumerate(raw)]
        return [bound for bound in found if bound is not None]
    if raw is not None:
        bound = _bind(registry, "quota", raw, path, mistakes)
        return [bound] if bound is not None else []
    return [registry.bind("quota", choice.policy) for choice in PoliciesSection().quota]


def _call(bound: Bound, wanted: type[T], *arguments: object) -> T:
    try:
        answer = bound.decide(*arguments)
    except Exception as error:
        raise PolicyFaultError(f"{bound}: {type(error).__name__}: {error}") from error
    if not isinstance(answer, wanted):
        raise PolicyFaultError(f"{bound}: answered {answer!r}, a {type(answer).__name__}")
    return answer
