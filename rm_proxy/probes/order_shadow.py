"""Compares the order of probes: with `probe` in force the queues are at the proxy, and `order` decides there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from rm_proxy.domain.comparison import Compare, InTurn, Question
from rm_proxy.probes.probe_queue import Ordering, ProbeQueue
from rm_proxy.probes.prober import Prober

MAX_NODES: Final = 20
"""Nodes of a round at which the order of probes is compared."""
MAX_PROBES: Final = 500
"""Probes of a node with which it is: a longer queue is left out."""


class OrderShadow:
    """A machine: once a round, which probe is the first of a queue.

    failed: called with a fault of the order in force.
    """

    def __init__(
        self, prober: Prober, policies: Callable[[], Policies], compare: Compare, failed: Callable[[str], None]
    ) -> None:
        self._prober, self._policies, self._compare, self._failed = prober, policies, compare, failed
        self._turn = InTurn(MAX_NODES)

    def round(self, now_s: float) -> None:
        """Compare at some nodes in turn, if an alternative has another order."""
        policies = self._policies()
        own = policies.for_nodes
        if not any(own.differs(policies.alternatives[name], "order") for name in policies.shadow):
            return
        queues = self._prober.queues
        for node_id in self._turn.of([node_id for node_id, queue in queues.items() if 1 < len(queue) <= MAX_PROBES]):
            first = partial(self._first, queues[node_id], now_s)
            try:
                decision = first(own)
            except PolicyFaultError as error:
                self._failed(str(error))
                return
            self._compare(Question("order", None, decision, first))

    def _first(self, queue: ProbeQueue, now_s: float, policies: Policies) -> str:
        """Return the probe of a queue whose turn is next; the order that is in use stays as it is."""
        slots = policies.for_nodes.node
        probe = queue.ordered(Ordering(self._prober.view, slots.order_key, slots.bypass_limit_s), now_s)[0]
        return f"{probe.attempt_id}, probe {probe.number}"
