"""What settings would decide for an ask that nobody made: pure, of settings, an ask and a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from random import Random
from typing import Final

from policies.common.service_levels import Levels
from policies.common.shrinking import Shrinking
from policies.config.policy_set import Policies
from policies.config.registry import BoundPolicy
from policies.config.validation import plain
from policies.config.windows import Hours
from policies.decisions.choice import choose
from policies.decisions.quotas import over_at_binding
from policies.model import AppView, Ask, QueueView, Resources

DRAWS: Final = 1000
"""Applications that are tried where none is named: roll-outs, modes and routes may take a part of them."""
_PLENTY: Final = Resources(2**40, 2**30)


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """An ask of an application that may be anyone's."""

    app: AppView
    """With an id: an application's own, which roll-outs take or not; "": any."""
    priority: int
    resources: Resources
    expected_s: float | None
    """None: not known, but for the hints of the settings."""
    open_s: float | None
    """Open work of its application, in task-seconds; None: one task's."""
    at_s: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """A decision, and for which part of such asks it is made."""

    percent: float
    kind: str
    """G or Q."""
    mode: str
    """active, shadow (the decision is recorded alone) or bypass."""
    settings: str
    """base, or the alternative that decides."""
    why: str


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """The outcomes, the likeliest first, and further facts by name."""

    outcomes: Sequence[WhatIfOutcome]
    facts: Sequence[tuple[str, str]]


def answer(base: Policies, hours: Hours, question: WhatIfQuestion, queue: QueueView | None) -> WhatIfAnswer:
    """Return what `base` decides while `hours` hold; `queue`: the YARN queue as it is now, None: it has plenty."""
    policies = base.at(hours)
    outcomes = _outcomes(policies, question, queue or plenty(question.app.queue))
    decided_by = next((outcome.settings for outcome in outcomes if outcome.kind == "Q"), outcomes[0].settings)
    own = policies.alternatives.get(decided_by, policies)
    ask = _ask(own, question, question.app)
    facts = [
        ("windows", _windows(policies, hours, question)),
        ("roll-outs", _rollouts(policies, question)),
        ("expected", _expected(own, ask, question)),
    ]
    if any(outcome.kind == "Q" for outcome in outcomes):
        facts += [
            ("quota", "; ".join(_named(bound) for bound in own.quotas)),
            ("quota now", "" if queue is None else over_at_binding(policies, ask, queue) or "leaves room for it"),
            *_order(own, ask, question),
            ("preemption", _gives_way(own, question.app.type)),
        ]
    return WhatIfAnswer(outcomes, [(name, text) for name, text in facts if text])


def plenty(name: str) -> QueueView:
    """Return a YARN queue in which nothing is used and no limit is near."""
    return QueueView(name, max_capacity=_PLENTY, capacity=_PLENTY, cluster=_PLENTY, labels=frozenset("*"))


def _outcomes(policies: Policies, question: WhatIfQuestion, queue: QueueView) -> list[WhatIfOutcome]:
    counts: Counter[tuple[str, str, str]] = Counter()
    whys: dict[tuple[str, str, str], str] = {}
    for number in range(DRAWS):
        app = question.app if question.app.id else replace(question.app, id=f"application_{number}_{number:04d}")
        own = policies.for_app(app)
        route = choose(policies, _ask(own, question, app), queue, Random(number), question.at_s)
        mode = policies.mode(app)
        key = (route.kind.value, mode, own.name or "base")
        counts[key] += 1
        whys.setdefault(key, route.reason)
    return [WhatIfOutcome(100 * count / DRAWS, *key, whys[key]) for key, count in counts.most_common()]


def _ask(own: Policies, question: WhatIfQuestion, app: AppView) -> Ask:
    given_s = question.expected_s if question.expected_s is not None else own.ruled_s(app, question.priority)
    return Ask(
        app,
        question.priority,
        question.resources,
        expected_s=own.estimate(app).default_s if given_s is None else given_s,
        known=given_s is not None,
        at_s=question.at_s,
    )


def _windows(policies: Policies, hours: Hours, question: WhatIfQuestion) -> str:
    """Say which windows are open and which begin or end soon; "" where the settings have none."""
    if not policies.windows:
        return ""
    uses = {w.name: f"{w.name} (alternative {w.use}, queues {', '.join(w.queue)})" for w in policies.windows}
    parts = [f"open: {', '.join(uses[name] for name in hours.open)}" if hours.open else "none is open"]
    parts += [f"{change} in {change.at_s - question.at_s:.0f} s, and drains" for change in hours.coming]
    return "; ".join(parts)


def _rollouts(policies: Policies, question: WhatIfQuestion) -> str:
    section = policies.section
    parts = []
    for rollout in getattr(section, "rollout", ()):
        part = f"{rollout.use}: {rollout.percent:g} % of the applications in {', '.join(rollout.queue)}"
        if question.app.id:
            part += f"; {question.app.id} is {'' if rollout.takes(question.app.id) else 'not '}drawn"
        parts.append(part)
    return "; ".join(parts)


def _expected(own: Policies, ask: Ask, question: WhatIfQuestion) -> str:
    if question.expected_s is not None:
        return f"{ask.expected_s:g} s, as given"
    if ask.known:
        return f"{ask.expected_s:g} s, by estimate.rules"
    return (
        f"not known before its siblings ended; {own.estimate(ask.app).default_s:g} s (estimate.default_s) stand for it"
    )


def _order(own: Policies, ask: Ask, question: WhatIfQuestion) -> Iterator[tuple[str, str]]:
    """Yield who goes first at the proxy, where a container waits, and who goes first at a node."""
    dispatch = own.choices["dispatch"]
    text = _named(dispatch)
    if isinstance(dispatch.cfg, Levels):
        open_s = ask.expected_s if question.open_s is None else question.open_s
        level = dispatch.cfg.level(open_s)
        bounds = f"0 to {dispatch.cfg.base_s:g} s is level 0, each next one {dispatch.cfg.factor:g} times as wide"
        text += f"; {open_s:g} task-seconds of open work: level {ceil(level)} ({bounds}); lower levels go first"
    if dispatch.name != "none":
        yield "next place", text
    yield "place", _named(own.choices["place"])
    yield "order at the node", _named(own.choices["order"])


def _gives_way(own: Policies, app_type: str) -> str:
    """Say how a running container of the type makes room for a guaranteed one."""
    preempt = own.choices["preempt"]
    if not isinstance(preempt.cfg, Shrinking):
        return _named(preempt)
    way = preempt.cfg.by_type.get(app_type.upper(), preempt.cfg.own_way())
    return f"{_named(preempt)}; containers of {app_type}: {way.value}"


def _named(bound: BoundPolicy) -> str:
    """Return a policy with the settings that differ from its defaults."""
    settings = plain(bound.cfg.model_dump(mode="json", exclude_defaults=True))
    return f"{bound.name} {json.dumps(settings)}" if settings else bound.name


def moment(unix_s: float) -> str:
    """Write a time of the answer, in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
