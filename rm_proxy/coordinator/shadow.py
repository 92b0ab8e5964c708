"""Compares decisions of alternatives with those in force, on real traffic; nothing depends on the result.

Each alternative of `policies.shadow` is asked the same question with the same view of the cluster, and a `rng` of its
own. When there are many questions only some are asked; a fault of an alternative is counted, not raised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final, TypeVar

from policies.config.policy_set import Policies
from policies.decisions.choice import choose
from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, NodeView, Placement, QueueView, Route, ShedTarget
from rm_proxy.attempt.effects import Decided, Effect, ShadowFaulted
from rm_proxy.domain.comparison import PerSecond, Question
from rm_proxy.domain.node_comparisons import NodeComparisons, NodeCounts
from rm_proxy.domain.records import DecisionRecord

T = TypeVar("T")
PER_S: Final = 100
"""Questions of one slot that are asked within a second; the rest is left out."""
AT_NODES: Final = ("order", "fill", "preempt")
"""Slots in which sidecars ask alternatives."""
EXAMPLES: Final = 10
_NO_NODE: Final = "none"
_ALIKE: Final = "the same"
"""Decisions of both sides where only their number is known."""


@dataclass(frozen=True, slots=True)
class Example:
    """One decision that an alternative would have made otherwise."""

    at_s: float
    app_id: str
    chosen: str
    other: str
    reason: str


@dataclass(slots=True)
class ShadowTally:
    """How an alternative compares in one slot, since `since_s` (Unix seconds)."""

    alternative: str
    slot: str
    policy: str
    active: str
    """The policy in force."""
    since_s: float
    decisions: int = 0
    differ: int = 0
    compared: int = 0
    """Placements for which both chose a node."""
    wait_less_s: float = 0.0
    """Wait that the alternative would have saved, by estimates, where both chose a node; seconds, summed up."""
    faults: int = 0
    examples: deque[Example] = field(default_factory=lambda: deque(maxlen=EXAMPLES))


class Shadow:
    """A machine: decisions in force in, agreement out."""

    def __init__(self, rng: Random | None = None) -> None:
        self._rng = rng or Random(0)
        self.tallies: dict[tuple[str, str], ShadowTally] = {}
        self.left_out: dict[str, int] = {}
        """Questions that were not asked because there were many, by slot."""
        self._digest = ""
        self._rates: dict[str, PerSecond] = {}
        self.nodes = NodeComparisons()

    def routed(self, policies: Policies, ask: Ask, queue: QueueView, route: Route, now_s: float) -> list[Effect]:
        """Compare whether a container is guaranteed or queueable."""
        effects: list[Effect] = []
        for slot, own, rival in self._questions(policies, ("route", "quota", "admit"), ask.app, now_s):
            tally = self._tally(policies, own, rival, slot, now_s)
            answer = self._answer(tally, partial(choose, rival, ask, queue, self._rng, now_s), effects)
            if answer is not None:
                kinds = route.kind.value, answer.kind.value
                effects.append(self._note(tally, ask.app.id, *kinds, answer.reason, now_s))
        return effects

    def placed(
        self, policies: Policies, ask: Ask, nodes: Sequence[NodeView], placement: Placement, now_s: float
    ) -> list[Effect]:
        """Compare where a queueable container waits."""
        effects: list[Effect] = []
        for slot, own, rival in self._questions(policies, ("place",), ask.app, now_s):
            tally = self._tally(policies, own, rival, slot, now_s)
            answer = self._answer(tally, partial(rival.place, ask, nodes, self._rng), effects)
            if answer is None:
                continue
            if placement.node is not None and answer.node is not None:
                waits_s = {node.id: node.wait_s for node in nodes}
                tally.compared += 1
                tally.wait_less_s += waits_s[placement.node] - waits_s[answer.node]
            named = placement.node or _NO_NODE, answer.node or _NO_NODE
            effects.append(self._note(tally, ask.app.id, *named, answer.reason, now_s, answer))
        return effects

    def compared(self, policies: Policies, question: Question[T], now_s: float) -> list[Effect]:
        """Compare a decision of any other slot."""
        effects: list[Effect] = []
        app, show = question.app, question.show
        for slot, own, rival in self._questions(policies, (question.slot,), app, now_s):
            tally = self._tally(policies, own, rival, slot, now_s)
            answer = self._answer(tally, partial(_boxed, question.decide, rival), effects)
            if answer is not None:
                texts, app_id = (show(question.decision), show(answer[0])), app.id if app is not None else ""
                effects.append(self._note(tally, app_id, *texts, "", now_s))
        return effects

    def shed(self, policies: Policies, nodes: Sequence[NodeView], now_s: float) -> list[Effect]:
        """Compare how much may wait at each node, before damping."""
        effects: list[Effect] = []
        for slot, own, rival in self._questions(policies, ("shed",), None, now_s):
            tally = self._tally(policies, own, rival, slot, now_s)
            try:
                in_force = own.cluster.shed(nodes, now_s)
            except PolicyFaultError:
                return effects  # reported with the targets of nodes
            answer = self._answer(tally, partial(rival.cluster.shed, nodes, now_s), effects)
            if answer is not None:
                effects += self._targets(tally, nodes, in_force, answer, now_s)
        return effects

    def at_nodes(self, policies: Policies, now_s: float) -> list[Effect]:
        """Add what sidecars have counted since the last round: the comparisons of slots that decide at nodes."""
        effects: list[Effect] = []
        own = policies.for_nodes
        for counts in self.nodes.take():
            in_shadow = counts.alternative in policies.shadow and counts.slot in AT_NODES
            rival = policies.alternatives[counts.alternative] if in_shadow else own
            if rival is not own and own.differs(rival, counts.slot):
                tally = self._tally(policies, own, rival, counts.slot, now_s)
                effects += self._counted(tally, counts, now_s)
        return effects

    def _counted(self, tally: ShadowTally, counts: NodeCounts, now_s: float) -> list[Effect]:
        """Add counts to a tally; returns records that stand for all of the decisions."""
        effects: list[Effect] = []
        tally.faults += counts.faults
        if counts.faults:
            effects.append(ShadowFaulted(tally.alternative, tally.slot, counts.fault, counts.faults))
        alike, reason = counts.decisions - counts.differ, f"of {counts.decisions} at {counts.nodes} nodes"
        if alike:
            effects.append(self._note(tally, "", _ALIKE, _ALIKE, reason, now_s, weight=alike))
        if counts.differ:
            texts, reason = (counts.decision, counts.shadow_decision), f"at {counts.node_id}; {counts.differ} {reason}"
            effects.append(self._note(tally, "", *texts, reason, now_s, weight=counts.differ))
        return effects

    def _targets(
        self,
        tally: ShadowTally,
        nodes: Sequence[NodeView],
        in_force: Mapping[str, ShedTarget],
        answer: Mapping[str, ShedTarget],
        now_s: float,
    ) -> list[Effect]:
        """Count the nodes with equal targets; only the first difference is recorded."""
        noted: list[Effect] = []
        for node in nodes:
            texts = _target(in_force.get(node.id)), _target(answer.get(node.id))
            if texts[0] == texts[1] or noted:
                tally.decisions += 1
                tally.differ += texts[0] != texts[1]
            else:
                noted.append(self._note(tally, "", *texts, f"at {node.id}", now_s))
        return noted

    def _questions(
        self, policies: Policies, slots: Sequence[str], app: AppView | None, now_s: float
    ) -> list[tuple[str, Policies, Policies]]:
        """Return the alternatives to ask, each with the first of `slots` in which it differs from the policies used."""
        if not policies.shadow:
            return []
        own = policies.for_nodes if app is None else policies.for_app(app)
        others = [policies.alternatives[name] for name in policies.shadow]
        differing = [
            (slot, own, rival)
            for rival in others
            if rival is not own and (slot := next((s for s in slots if own.differs(rival, s)), ""))
        ]
        if not differing or self._rates.setdefault(slots[0], PerSecond(PER_S)).take(now_s):
            return differing
        self.left_out[slots[0]] = self.left_out.get(slots[0], 0) + 1
        return []

    def _tally(self, policies: Policies, own: Policies, rival: Policies, slot: str, now_s: float) -> ShadowTally:
        """Return the tally of an alternative; other settings begin new ones."""
        if policies.digest != self._digest:
            self._digest = policies.digest
            self.tallies.clear()
            self.left_out.clear()
        tally = self.tallies.get((rival.name, slot))
        if tally is None:
            named = rival.policy_name(slot), own.policy_name(slot)
            tally = self.tallies[rival.name, slot] = ShadowTally(rival.name, slot, *named, since_s=now_s)
        return tally

    def _answer(self, tally: ShadowTally, decide: Callable[[], T], effects: list[Effect]) -> T | None:
        try:
            return decide()
        except PolicyFaultError as error:
            tally.faults += 1
            effects.append(ShadowFaulted(tally.alternative, tally.slot, str(error)))
            return None

    def _note(
        self,
        tally: ShadowTally,
        app_id: str,
        decision: str,
        shadow_decision: str,
        reason: str,
        now_s: float,
        placement: Placement | None = None,
        weight: int = 1,
    ) -> Effect:
        """Count a decision; returns it for the record. weight: how many it stands for."""
        tally.decisions += weight
        if decision != shadow_decision:
            tally.differ += weight
            tally.examples.append(Example(now_s, app_id, decision, shadow_decision, reason))
        return Decided(
            DecisionRecord(
                at_s=now_s,
                slot=tally.slot,
                policy=tally.policy,
                app_id=app_id,
                node_id=(placement.node or "") if placement is not None else "",
                chosen=decision,
                reason=reason,
                scores=placement.scores if placement is not None else (),
                unit=placement.unit if placement is not None else "",
                alternative=tally.alternative,
                other=shadow_decision,
                weight=weight,
            )
        )


def _target(target: ShedTarget | None) -> str:
    if target is None or (target.max_wait_s is None and target.max_queue is None):
        return "no limit"
    wait = "" if target.max_wait_s is None else f"{target.max_wait_s:.1f} s"
    length = "" if target.max_queue is None else f"{target.max_queue} containers"
    return ", ".join(part for part in (wait, length) if part)


def _boxed(decide: Callable[[Policies], T], rival: Policies) -> tuple[T]:
    """Return a decision that may be None in a tuple."""
    return (decide(rival),)
