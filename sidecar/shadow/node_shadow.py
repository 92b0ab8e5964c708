"""Compares what alternatives (`policies.shadow`) would decide at a node with the policies in force; changes nothing.

The slots are those that decide here: `order`, `fill` and `preempt`. The counts grow until the settings change, and go
to the proxies with each report, so that a report that is lost, or handled twice, counts once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from policies.config.node_slots import NodeSlots
from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import ContainerView, Gap, Resources
from quicksilver.common.messages import Comparison
from sidecar.node.waiting_queue import Waiting, WaitingQueue

T = TypeVar("T")
PERIOD_S: Final = 1.0
"""How often the first of the queue is compared, and gaps are looked at for alternatives alone."""
CONTAINERS_PER_S: Final = 1_000
"""Waiting containers that alternatives order within a second: a longer queue is compared less often."""
MAX_FILLS: Final = 1_000
"""Answers of `fill` that are remembered: the same container is asked about again with each event of the node."""
MAX_FAULT: Final = 500
"""Characters of a fault that are reported."""
_SLOTS: Final = ("order", "fill", "preempt")
_NAMED: Final = 3


class NodeShadow:
    """A machine: decisions of one node in, counts out. policies: returns those in force."""

    def __init__(self, policies: Callable[[], Policies]) -> None:
        self._policies = policies
        self._of: Policies | None = None
        self._differing: dict[str, list[Policies]] = {}
        """The alternatives to ask, by slot."""
        self._digest = ""
        self._since_s = 0.0
        self._counts: dict[tuple[str, str], Comparison] = {}
        self._fills: OrderedDict[tuple[str, str, str], tuple[bool, bool]] = OrderedDict()
        """The last answers by alternative, first of the queue and container: of the policy in force, and its own."""
        self._order_s = self._fill_s = 0.0

    def order(self, queue: WaitingQueue, now_s: float) -> None:
        """Compare which of the waiting containers is the first of the queue."""
        others = self._others("order", now_s)
        head = queue.head(now_s) if others and len(queue) > 1 and now_s >= self._order_s else None
        if head is None:
            return
        self._order_s = now_s + max(PERIOD_S, len(queue) * len(others) / CONTAINERS_PER_S)
        for other in others:
            self._compare(other, "order", head.view.id, partial(_first, other.node, list(queue), now_s), str)

    def looks_for_gaps(self, now_s: float) -> bool:
        """Return whether gaps are to be looked at now for alternatives alone."""
        if not any(other.node.fills for other in self._others("fill", now_s)) or now_s < self._fill_s:
            return False
        self._fill_s = now_s + PERIOD_S
        return True

    def fill(self, waiting: ContainerView, gap: Gap, chosen: bool, now_s: float) -> None:
        """Compare whether a container may start before the first of the queue; counted when an answer is new."""
        for other in self._others("fill", now_s):
            key = other.name, gap.head.id, waiting.id
            before = self._fills.pop(key, None)
            answer = self._answer(other, "fill", partial(other.node.fill, waiting, gap))
            if answer is None:
                continue
            self._fills[key] = chosen, answer
            if len(self._fills) > MAX_FILLS:
                self._fills.popitem(last=False)
            if before != (chosen, answer):
                self._count(self._comparison(other, "fill"), chosen, answer, partial(_starts, waiting.id))

    def preempt(self, need: Resources, running: Sequence[ContainerView], chosen: Sequence[str], now_s: float) -> None:
        """Compare which containers make room for a guaranteed one."""
        for other in self._others("preempt", now_s):
            victims = partial(_victims, other.node, need, running, now_s)
            self._compare(other, "preempt", sorted(chosen), victims, _killed)

    def counts(self) -> list[Comparison]:
        """Return the counts since the settings were read."""
        return [one.model_copy() for one in self._counts.values()]

    def _others(self, slot: str, now_s: float) -> list[Policies]:
        """Return the alternatives with something else in a slot; other settings begin new counts."""
        policies = self._policies()
        if policies is not self._of:
            self._of, own = policies, policies.for_nodes
            others = [policies.alternatives[name] for name in policies.shadow]
            others = [other for other in others if other is not own]
            self._differing = {one: [other for other in others if own.differs(other, one)] for one in _SLOTS}
            if policies.shadow and policies.digest != self._digest:
                self._digest, self._since_s = policies.digest, now_s
                self._counts.clear()
                self._fills.clear()
        return self._differing[slot]

    def _compare(
        self, other: Policies, slot: str, chosen: T, decide: Callable[[], T], show: Callable[[T], str]
    ) -> None:
        answer = self._answer(other, slot, decide)
        if answer is not None:
            self._count(self._comparison(other, slot), chosen, answer, show)

    def _comparison(self, other: Policies, slot: str) -> Comparison:
        key = other.name, slot
        if key not in self._counts:
            self._counts[key] = Comparison(alternative=other.name, slot=slot, since_s=self._since_s)
        return self._counts[key]

    def _answer(self, other: Policies, slot: str, decide: Callable[[], T]) -> T | None:
        try:
            return decide()
        except PolicyFaultError as error:
            count = self._comparison(other, slot)
            count.faults += 1
            count.fault = str(error)[:MAX_FAULT]
            return None

    def _count(self, count: Comparison, chosen: T, answer: T, show: Callable[[T], str]) -> None:
        count.decisions += 1
        if chosen != answer:
            count.differ += 1
            count.chosen, count.other = show(chosen), show(answer)


def _first(slots: NodeSlots, waiting: Sequence[Waiting], now_s: float) -> str:
    """Return the first of these containers by the order, and its limits of overtaking, of other policies."""
    size = sum(one.size for one in waiting)
    queue = WaitingQueue(slots.order_key, len(waiting), size, slots.bypass_limit_s)
    for one in waiting:
        queue.add(one)
    try:
        head = queue.head(now_s)
    except TypeError as error:
        raise PolicyFaultError(f"order: keys that cannot be compared: {error}") from error
    return head.view.id if head is not None else ""


def _victims(slots: NodeSlots, need: Resources, running: Sequence[ContainerView], now_s: float) -> list[str]:
    return sorted(slots.victims(need, running, now_s))


def _starts(container_id: str, may: bool) -> str:
    return f"{container_id} {'starts' if may else 'waits'}"


def _killed(chosen: Sequence[str]) -> str:
    more = len(chosen) - _NAMED
    return f"kills {', '.join(chosen[:_NAMED]) or 'none'}{f' and {more} more' if more > 0 else ''}"
