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
from sidecar.node.queue.waiting_queue import WaitingQueue, WaitingStart

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
        alternatives = self._alternatives("order", now_s)
        head = queue.head(now_s) if alternatives and len(queue) > 1 and now_s >= self._order_s else None
        if head is None:
            return
        self._order_s = now_s + max(PERIOD_S, len(queue) * len(alternatives) / CONTAINERS_PER_S)
        for alternative in alternatives:
            first = partial(_first, alternative.node, list(queue), now_s)
            self._compare(alternative, "order", head.view.id, first, str)

    def looks_for_gaps(self, now_s: float) -> bool:
        """Return whether gaps are to be looked at now for alternatives alone."""
        if not any(alternative.node.fills for alternative in self._alternatives("fill", now_s)) or now_s < self._fill_s:
            return False
        self._fill_s = now_s + PERIOD_S
        return True

    def fill(self, waiting: ContainerView, gap: Gap, decision: bool, now_s: float) -> None:
        """Compare whether a container may start before the first of the queue; counted when an answer is new."""
        for alternative in self._alternatives("fill", now_s):
            key = alternative.name, gap.head.id, waiting.id
            before = self._fills.pop(key, None)
            answer = self._answer(alternative, "fill", partial(alternative.node.fill, waiting, gap))
            if answer is None:
                continue
            self._fills[key] = decision, answer
            if len(self._fills) > MAX_FILLS:
                self._fills.popitem(last=False)
            if before != (decision, answer):
                self._count(self._comparison(alternative, "fill"), decision, answer, partial(_starts, waiting.id))

    def preempt(self, need: Resources, running: Sequence[ContainerView], decision: Sequence[str], now_s: float) -> None:
        """Compare which containers make room for a guaranteed one."""
        for alternative in self._alternatives("preempt", now_s):
            victims = partial(_victims, alternative.node, need, running, now_s)
            self._compare(alternative, "preempt", sorted(decision), victims, _killed)

    def counts(self) -> list[Comparison]:
        """Return the counts since the settings were read."""
        return [count.model_copy() for count in self._counts.values()]

    def _alternatives(self, slot: str, now_s: float) -> list[Policies]:
        """Return the alternatives with something else in a slot; other settings begin new counts."""
        policies = self._policies()
        if policies is not self._of:
            self._of, own = policies, policies.for_nodes
            alternatives = [policies.alternatives[name] for name in policies.shadow]
            alternatives = [alternative for alternative in alternatives if alternative is not own]
            self._differing = {
                name: [alternative for alternative in alternatives if own.differs(alternative, name)] for name in _SLOTS
            }
            if policies.shadow and policies.digest != self._digest:
                self._digest, self._since_s = policies.digest, now_s
                self._counts.clear()
                self._fills.clear()
        return self._differing[slot]

    def _compare(
        self, alternative: Policies, slot: str, decision: T, decide: Callable[[], T], show: Callable[[T], str]
    ) -> None:
        answer = self._answer(alternative, slot, decide)
        if answer is not None:
            self._count(self._comparison(alternative, slot), decision, answer, show)

    def _comparison(self, alternative: Policies, slot: str) -> Comparison:
        key = alternative.name, slot
        if key not in self._counts:
            self._counts[key] = Comparison(alternative=alternative.name, slot=slot, since_s=self._since_s)
        return self._counts[key]

    def _answer(self, alternative: Policies, slot: str, decide: Callable[[], T]) -> T | None:
        try:
            return decide()
        except PolicyFaultError as error:
            count = self._comparison(alternative, slot)
            count.faults += 1
            count.fault = str(error)[:MAX_FAULT]
            return None

    def _count(self, count: Comparison, decision: T, answer: T, show: Callable[[T], str]) -> None:
        count.decisions += 1
        if decision != answer:
            count.differ += 1
            count.chosen, count.other = show(decision), show(answer)


def _first(slots: NodeSlots, waiting: Sequence[WaitingStart], now_s: float) -> str:
    """Return the first of these containers by the order, and its limits of overtaking, of other policies."""
    size = sum(start.size for start in waiting)
    queue = WaitingQueue(slots.order_key, len(waiting), size, slots.bypass_limit_s)
    for start in waiting:
        queue.add(start)
    try:
        head = queue.head(now_s)
    except TypeError as error:
        raise PolicyFaultError(f"order: keys that cannot be compared: {error}") from error
    return head.view.id if head is not None else ""


def _victims(slots: NodeSlots, need: Resources, running: Sequence[ContainerView], now_s: float) -> list[str]:
    return sorted(slots.victims(need, running, now_s))


def _starts(container_id: str, may: bool) -> str:
    return f"{container_id} {'starts' if may else 'waits'}"


def _killed(victims: Sequence[str]) -> str:
    more = len(victims) - _NAMED
    return f"kills {', '.join(victims[:_NAMED]) or 'none'}{f' and {more} more' if more > 0 else ''}"
