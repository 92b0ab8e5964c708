"""Targets of each node until the next round: shedding and policing (Mercury §4.2, §4.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from policies.common.damping import Damped, Damping
from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import Limit, NodeUse, NodeView, Resources, ShedTarget
from quicksilver.common.messages import Report, Targets
from rm_proxy.attempt.effects import Decided, Effect, Faulted
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.coordinator.nodes.usage_history import LocalTime, UsageHistory, utc
from rm_proxy.domain.comparison import Compare, InTurn, Question, not_compared, shadowed
from rm_proxy.domain.records import DecisionRecord

SCORES: Final = 10
"""Nodes that the record of a shedding limit names, those with the longest waits."""
MAX_COMPARED: Final = 20
"""Nodes in a round of which alternatives alone are asked for limits."""
_FAULTS: Final = (PolicyFaultError, ValueError, TypeError, AttributeError)
"""Exceptions that a policy, or the check of its answer, may raise."""


@dataclass(frozen=True, slots=True)
class TargetSummary:
    """Sums of the targets in force over all nodes, for metrics."""

    shedding: int = 0
    """Nodes with a limit of waiting containers."""
    min_wait_s: float | None = None
    """The lowest limit of waiting; None without any."""
    policed: int = 0
    """Nodes that leave queueable containers only a part."""
    left_mb: int = 0
    """Sum of these parts."""


class TargetSetter:
    """A machine: nodes in, targets out, once a round. `history` learns from the reports."""

    def __init__(self, local: Callable[[float], LocalTime] = utc, compare: Compare = not_compared) -> None:
        self._compare, self._compared = compare, InTurn(MAX_COMPARED)
        self.history = UsageHistory(local)
        self._nodes: dict[str, _InForce] = {}
        self._policies: dict[str, str] = {}
        self._policed: set[str] = set()
        """Nodes with a figure of policing in force."""
        self._common: _Line | None = None
        """The target in force at all nodes; None if nodes differ, or may differ."""
        self._looked: tuple[object, list[NodeView], Mapping[str, ShedTarget]] = None, [], {}
        """Last question to a steady policy, and its answer."""

    def observe(self, node_id: str, report: Report, now_s: float) -> None:
        """Learn the use of a node by guaranteed containers."""
        self.history.observe(node_id, Resources(report.used_g_mb, report.used_g_vcores), now_s)

    def round(self, policies: Policies, nodes: Mapping[str, Node], now_s: float) -> list[Effect]:
        """Compute the targets of all nodes; returns the decisions, for the record.

        A policy that fails sets no limits in this round.
        """
        if self._nodes.keys() != nodes.keys():
            self._follow_nodes(nodes)
        self._forget_other_policies(policies)
        effects: list[Effect] = []
        views = [view for node in nodes.values() if (view := node.view).usable]
        self._shed(policies, views, now_s, effects)
        self._police(policies, nodes, now_s, effects)
        return effects

    def _follow_nodes(self, nodes: Mapping[str, Node]) -> None:
        self._common = None
        for gone in self._nodes.keys() - nodes.keys():
            del self._nodes[gone]
            self._policed.discard(gone)
            self.history.forget(gone)
        for node_id in nodes.keys() - self._nodes.keys():
            self._nodes[node_id] = _InForce()

    def of(self, node_id: str) -> Targets | None:
        """Return the targets of a node; None before its first round."""
        known = self._nodes.get(node_id)
        return known.targets if known is not None else None

    def summary(self) -> TargetSummary:
        """Return the sums of the targets in force."""
        targets = [known.targets for known in self._nodes.values()]
        waits = [t.max_wait_s for t in targets if t.max_wait_s is not None]
        limits_mb = [t.limit_q_mb for t in targets if t.limit_q_mb is not None]
        shedding = sum(t.max_wait_s is not None or t.max_queue is not None for t in targets)
        return TargetSummary(shedding, min(waits, default=None), len(limits_mb), sum(limits_mb))

    def _forget_other_policies(self, policies: Policies) -> None:
        """Begin anew where another policy is in force: its limits must not be damped by those of the previous one."""
        for slot in ("shed", "police"):
            name = policies.for_nodes.policy_name(slot)
            if self._policies.get(slot) != name:
                self._common = None
                anew = {known.line.shown: _Line(known.line.shown) for known in self._nodes.values()}
                for known in self._nodes.values():
                    if slot == "shed":
                        known.line = anew[known.line.shown]
                    else:
                        known.memory_part, known.vcores_part = Damped(), Damped()
            self._policies[slot] = name

    # Shedding

    def _shed(self, policies: Policies, views: list[NodeView], now_s: float, effects: list[Effect]) -> None:
        targets: Mapping[str, ShedTarget] = {}
        damping = policies.cluster.damping("shed")
        try:
            targets = self._shed_targets(policies, views, now_s)
            changed = self._take_shed(targets, damping, now_s)
        except _FAULTS as error:
            effects.append(Faulted("", str(error)))
            changed = self._take_shed({}, damping, now_s)
        if not changed:
            return
        longest = sorted(views, key=lambda v: (-v.queued_s, v.id))[:SCORES]
        scores = tuple((v.id, round(v.queued_s, 3)) for v in longest)
        name = policies.for_nodes.policy_name("shed")
        for target, node_ids in changed.items():
            node_id = node_ids[0] if len(node_ids) == 1 else ""
            decision = f"{_shed_text(target)}, {len(node_ids)} nodes"
            effects.append(Decided(_record("shed", name, node_id, decision, target.shed_reason, now_s, scores)))

    def _shed_targets(self, policies: Policies, views: list[NodeView], now_s: float) -> Mapping[str, ShedTarget]:
        """Return what the policy wants; one that is steady is not asked again of the same nodes."""
        steady = policies.cluster.shed_steady()
        if steady is None:
            return policies.cluster.shed(views, now_s)
        if self._looked[0] is not steady or self._looked[1] != views:
            self._looked = steady, views, policies.cluster.shed(views, now_s)
        return self._looked[2]

    def _take_shed(self, targets: Mapping[str, ShedTarget], damping: Damping, now_s: float) -> dict[_Shed, list[str]]:
        """Put shedding limits in force; returns the nodes by what is new for them.

        Nodes with equal figures share them: they are computed once for all nodes that are to have the same.
        """
        common, of_all = self._common, self._all(targets) if self._common is not None else None
        if common is not None and of_all is not None and common.follow(of_all, damping, now_s) is common:
            return {}
        changed: dict[_Shed, list[str]] = {}
        lines: dict[tuple[object, ...], _Line] = {}
        moves: dict[tuple[int, int], tuple[_Line, dict[int, Targets], ShedTarget]] = {}
        line, target, now, copies = _NO_LINE, _NO_SHED, _NO_LINE, dict[int, Targets]()
        for node_id, known in self._nodes.items():
            of_node = targets.get(node_id, _NO_SHED)
            if of_node is not target or known.line is not line or not moves:
                line, target = known.line, of_node
                key = id(line), id(target)
                if key not in moves:
                    now = line.follow(target, damping, now_s)
                    moves[key] = lines.setdefault(now.key, now), {}, target
                now, copies, _ = moves[key]
            if now is line:
                continue
            known.line, before = now, known.targets
            if now.shown.differs(before):
                if id(before) not in copies:
                    copies[id(before)] = before.model_copy(update=now.shown.fields())
                known.targets = copies[id(before)]
                changed.setdefault(now.shown, []).append(node_id)
        in_force = {id(line): line for line, _, _ in moves.values()}
        self._common = in_force.popitem()[1] if len(in_force) == 1 else None
        return changed

    def _all(self, targets: Mapping[str, ShedTarget]) -> ShedTarget | None:
        """Return the target wanted for all nodes alike; None if targets differ."""
        if not targets:
            return _NO_SHED
        if len({id(target) for target in targets.values()}) > 1 or targets.keys() != self._nodes.keys():
            return None
        return next(iter(targets.values()))

    # Policing

    def _police(self, policies: Policies, nodes: Mapping[str, Node], now_s: float, effects: list[Effect]) -> None:
        name = policies.for_nodes.policy_name("police")
        if name == "none":
            self._compare_police(policies, nodes, now_s)
            if not self._policed:
                return
        damping = policies.cluster.damping("police")
        fault = ""
        for node_id, node in nodes.items():
            limit = None
            try:
                if name != "none" and node.view.capacity.memory_mb > 0 and not fault:
                    use = self._use(node)
                    limit = policies.cluster.police(use, now_s)
                    self._compare(Question("police", None, limit, partial(_polices, use, now_s), _limited))
                change = self._take_limit(node, limit, damping, now_s)
            except _FAULTS as error:
                fault, limit = str(error), None
                change = self._take_limit(node, None, damping, now_s)
            if change is not None:
                reason = limit.reason if limit is not None else fault
                effects.append(Decided(_record("police", name, node_id, change, reason, now_s)))
        if fault:
            effects.append(Faulted("", fault))

    def _compare_police(self, policies: Policies, nodes: Mapping[str, Node], now_s: float) -> None:
        """Compare having no limit with those of alternatives, at some nodes in turn."""
        none: Limit | None = None
        for node_id in self._compared.of(list(nodes)) if shadowed(policies, "police") else ():
            if nodes[node_id].view.capacity.memory_mb > 0:
                use = self._use(nodes[node_id])
                self._compare(Question("police", None, none, partial(_polices, use, now_s), _limited))

    def _use(self, node: Node) -> NodeUse:
        view = node.view
        recent, usual = self.history.recent(node.id), self.history.usual(node.id)
        return NodeUse(node.id, view.capacity, view.used_g, recent, usual)

    def _take_limit(self, node: Node, limit: Limit | None, damping: Damping, now_s: float) -> str | None:
        """Put a policing limit in force; returns the change in words, None if there is none."""
        known, capacity = self._nodes[node.id], node.view.capacity
        size = limit.resources if limit is not None else None
        memory = known.memory_part.take(_part(size, "memory_mb", capacity), damping, now_s)
        vcores = known.vcores_part.take(_part(size, "vcores", capacity), damping, now_s)
        now = None
        if memory is not None and vcores is not None:
            now = Resources(round(memory * capacity.memory_mb), round(vcores * capacity.vcores, 3))
        if now is None:
            self._policed.discard(node.id)
        else:
            self._policed.add(node.id)
        node.limit_to(now)
        before = known.targets
        if (before.limit_q_mb, before.limit_q_vcores) == ((now.memory_mb, now.vcores) if now else (None, None)):
            return None
        known.targets = before.model_copy(
            update={
                "limit_q_mb": now.memory_mb if now else None,
                "limit_q_vcores": now.vcores if now else None,
                "limit_reason": limit.reason if limit is not None else "",
            }
        )
        return f"{now.memory_mb} MB, {now.vcores:g} vcores for queueables" if now else "no limit"


@dataclass(frozen=True, slots=True)
class _Shed:
    """The part of `Targets` that is about shedding; equal but for the reason means the same."""

    max_wait_s: float | None
    max_queue: int | None
    max_sheds: int
    max_share_ratio: float
    settle_s: float
    shed_reason: str = field(compare=False)

    @classmethod
    def of(cls, target: ShedTarget, wait_s: float | None, length: float | None) -> _Shed:
        """Return a target with its limits as they are in force."""
        return cls(
            max_wait_s=wait_s,
            max_queue=None if length is None else round(length),
            max_sheds=target.max_sheds,
            max_share_ratio=target.max_share_ratio,
            settle_s=target.settle_s,
            shed_reason=target.reason,
        )

    def fields(self) -> dict[str, object]:
        """Return the fields of `Targets`."""
        return {name: getattr(self, name) for name in self.__slots__}

    def differs(self, targets: Targets) -> bool:
        """Return whether a sidecar would behave differently with this than with `targets`."""
        if (self.max_wait_s, self.max_queue) == (None, None) == (targets.max_wait_s, targets.max_queue):
            return False
        return any(getattr(self, name) != getattr(targets, name) for name in self.__slots__ if name != "shed_reason")


_NO_SHED: Final = ShedTarget()


@dataclass(frozen=True, slots=True)
class _Line:
    """Shedding limits as they follow what a policy wants; many nodes have the same, and it never changes."""

    shown: _Shed
    max_wait: Damped = field(default_factory=Damped)
    max_queue: Damped = field(default_factory=Damped)

    def follow(self, target: ShedTarget, damping: Damping, now_s: float) -> _Line:
        """Return what is in force now; this very object when nothing is new. Raises ValueError for a bad target."""
        wait = Damped(self.max_wait.value, self.max_wait.changed_s)
        length = Damped(self.max_queue.value, self.max_queue.changed_s)
        shown = _Shed.of(
            target, wait.take(target.max_wait_s, damping, now_s), length.take(target.max_queue, damping, now_s)
        )
        if shown != self.shown:
            Targets.model_validate(shown.fields())  # what a sidecar would not take is the policy's fault
        now = _Line(shown, wait, length)
        return self if now == self else now

    @property
    def key(self) -> tuple[object, ...]:
        """Key that equal ones share."""
        return self.shown, self.max_wait.value, self.max_wait.changed_s, self.max_queue.value, self.max_queue.changed_s


_NO_LINE: Final = _Line(_Shed.of(_NO_SHED, None, None))


@dataclass(slots=True)
class _InForce:
    """The limits of one node as they follow what the policies want."""

    line: _Line = _NO_LINE
    memory_part: Damped = field(default_factory=Damped)
    vcores_part: Damped = field(default_factory=Damped)
    targets: Targets = field(default_factory=Targets)


def _part(amount: Resources | None, of: str, whole: Resources) -> float | None:
    """Return memory or vcores as a part of the node's; of a node that has none of it, all."""
    if amount is None:
        return None
    there: float = getattr(whole, of)
    return max(0.0, getattr(amount, of) / there) if there else 1.0


def _shed_text(target: _Shed) -> str:
    parts = []
    if target.max_wait_s is not None:
        parts.append(f"at most {target.max_wait_s:g} s of waiting")
    if target.max_queue is not None:
        parts.append(f"at most {target.max_queue} waiting")
    return ", ".join(parts) or "no limit"


def _record(
    slot: str,
    policy: str,
    node_id: str,
    decision: str,
    reason: str,
    now_s: float,
    scores: tuple[tuple[str, float], ...] = (),
) -> DecisionRecord:
    return DecisionRecord(
        at_s=now_s,
        slot=slot,
        policy=policy,
        node_id=node_id,
        chosen=decision,
        reason=reason,
        scores=scores,
        unit="s" if scores else "",
    )


def _polices(use: NodeUse, now_s: float, rival: Policies) -> Limit | None:
    return rival.cluster.police(use, now_s)


def _limited(limit: Limit | None) -> str:
    return "no limit" if limit is None else f"{limit.resources.memory_mb} MB, {limit.resources.vcores:g} vcores"
