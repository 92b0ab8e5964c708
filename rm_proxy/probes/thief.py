"""Idle nodes take over probes from the queues of others, by the `steal` policy (Hawk, thesis §2.3.6).

A probe moves within the proxy, so that its application may use the idle node with its next allocate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import NodeQueue, NodeView, Resources
from policies.value_types import replace
from rm_proxy.attempt.effects import Effect, Faulted
from rm_proxy.domain.comparison import Compare, Question, not_compared, shadowed
from rm_proxy.domain.lazy_sequence import LazySequence
from rm_proxy.probes.place_move import may_go, move, tell
from rm_proxy.probes.probe_queue import Probe
from rm_proxy.probes.prober import Prober

_SHADOW: Final = Random(0)
"""For alternatives, whose decisions change nothing."""
_TYPICAL: Final = Resources(1, 1)
"""Size of container for which an idle node has room."""


class Thief:
    """A machine: reports of nodes in, moves of probes out."""

    def __init__(
        self,
        prober: Prober,
        policies: Callable[[], Policies],
        rng: Random,
        emit: Callable[[Effect], None],
        compare: Compare = not_compared,
    ) -> None:
        self._prober, self._policies, self._rng, self._emit = prober, policies, rng, emit
        self._compare = compare
        self._idle_since: dict[str, float] = {}

    def look(self, node_id: str, now_s: float) -> bool:
        """Let a node take over probes if it has room and nobody's turn is there; returns whether it did."""
        prober, policies = self._prober, self._policies().for_nodes
        steals = policies.policy_name("steal") != "none" or shadowed(self._policies(), "steal")
        if not prober.queues or not steals or not self._idle(node_id):
            self._idle_since.pop(node_id, None)
            return False
        view = prober.cluster.nodes[node_id].view
        since_s = self._idle_since.setdefault(node_id, now_s)
        probes: dict[str, Probe] = {}
        offers = self._offers(view, probes)
        try:
            thief = replace(view, idle_s=now_s - since_s)
            probe_ids = policies.cluster.steal(thief, offers, self._rng, now_s) if offers else []
        except PolicyFaultError as error:
            self._emit(Faulted("", str(error)))
            return False
        by_id = {probe_id: probes[probe_id] for probe_id in probe_ids}
        if offers:
            self._compare(Question("steal", None, probe_ids, partial(_steals, thief, offers, now_s), _taken))
        moved = [self._move(probe, view, now_s) for probe in by_id.values()]
        return any(moved)

    def forget_node(self, node_id: str) -> None:
        """Forget a node that left the cluster."""
        self._idle_since.pop(node_id, None)

    def _idle(self, node_id: str) -> bool:
        view = self._prober.cluster.usable(node_id)
        if view is None or view.queue_length or not view.has_room(_TYPICAL):
            return False
        return next(self._prober.served(node_id, 1), None) is None

    def _offers(self, thief: NodeView, probes: dict[str, Probe]) -> Sequence[NodeQueue]:
        """Return the queues that an idle node may look at; `probes` gets the probes of those that are looked at."""
        prober = self._prober

        def queue(node_id: str) -> NodeQueue:
            waiting = []
            for probe in prober.in_order(node_id):
                view = replace(prober.view(probe), movable=may_go(prober.jobs[probe.attempt_id], thief))
                probes[view.id] = probe
                waiting.append(view)
            return NodeQueue(prober.cluster.nodes[node_id].view, prober.cluster.running(node_id), tuple(waiting))

        return LazySequence(sorted(node_id for node_id in prober.queues if node_id != thief.id), queue)

    def _move(self, probe: Probe, thief: NodeView, now_s: float) -> bool:
        job = self._prober.jobs[probe.attempt_id]
        if not may_go(job, thief):
            return False
        move(self._prober, probe, thief.id, now_s)
        chosen_by = "steal", self._policies().for_nodes.policy_name("steal")
        reason = f"{thief.id} has room and nothing waits there"
        tell(self._emit, chosen_by, probe, job.app.id, thief.id, reason, now_s)
        return True


def _steals(thief: NodeView, offers: Sequence[NodeQueue], now_s: float, rival: Policies) -> list[str]:
    return rival.cluster.steal(thief, offers, _SHADOW, now_s)


def _taken(probe_ids: Sequence[str]) -> str:
    return f"takes {len(probe_ids)}"
