"""Places in queues move when the decision for their node looks wrong by now, by the `correct` policy (Apollo §3.4).

A place moves within the proxy: its task starts elsewhere with the next allocate of its application. Jobs with more
places than tasks have a choice of nodes anyway; theirs stay.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heapreplace
from random import Random
from typing import Final

from policies.common.move_limits import Moving
from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import ContainerView, NodeQueue, NodeView
from policies.value_types import replace
from rm_proxy.attempt.effects import Effect, Faulted
from rm_proxy.domain.comparison import Compare, Question, not_compared, shadowed
from rm_proxy.probes.place_move import may_go, move, tell
from rm_proxy.probes.probe_queue import Probe
from rm_proxy.probes.prober import Prober, ProbingJob

MAX_LOOKED: Final = 500
"""Places that are looked at in one round, of nodes in random order."""
MAX_COMPARED: Final = 100
"""The same where only alternatives are asked."""
MAX_NODES: Final = 200
"""Nodes among which the better one is chosen, drawn at random in each round where there are more."""
ROUND_S: Final = 1.0
"""How far apart reports are; a wait is known no better than this (Apollo §3.4, randomisation)."""


@dataclass(slots=True, eq=False)
class _Place:
    """A place with when its turn is expected to come; seconds from now."""

    probe: Probe
    job: ProbingJob
    starts_in_s: float


@dataclass(slots=True, eq=False)
class _Round:
    policies: Policies
    bounds: Moving
    now_s: float
    queues: dict[str, list[_Place]]
    """By node, in the order of their turns."""
    averages_s: dict[str, float]
    """Wait of the places of each attempt, past and expected."""
    ranked: list[tuple[float, str]]
    """Nodes by the wait of a place that joins, with noise."""
    remainder: int
    """Moves that this round may still do."""


class Corrector:
    """A machine: once a round, moves of places out."""

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
        self._shadow_rng = Random(0)
        """Where only alternatives decide: nothing else is to depend on them."""

    def round(self, now_s: float) -> bool:
        """Move what would start earlier elsewhere; returns whether a place moved."""
        policies = self._policies().for_nodes
        in_force = policies.policy_name("correct") != "none"
        if not self._prober.queues or not (in_force or shadowed(self._policies(), "correct")):
            return False
        rng, limit = (self._rng, MAX_LOOKED) if in_force else (self._shadow_rng, MAX_COMPARED)
        queues = self._queues(rng, limit, now_s)
        if not queues:
            return False
        bounds = policies.cluster.moving("correct")
        averages_s, ranked = _averages_s(queues, now_s), self._ranked(rng, now_s)
        turn = _Round(policies, bounds, now_s, queues, averages_s, ranked, bounds.max_per_round)
        try:
            for node_id in queues:
                self._correct(node_id, turn)
        except PolicyFaultError as error:
            self._emit(Faulted("", str(error)))
        return turn.remainder < bounds.max_per_round

    def _queues(self, rng: Random, limit: int, now_s: float) -> dict[str, list[_Place]]:
        """Return queues with places that may move; of some nodes, drawn at random, where there are many."""
        prober, queues, looked = self._prober, {}, 0
        ids = [node_id for node_id in prober.queues if prober.cluster.usable(node_id) is not None]
        rng.shuffle(ids)
        for node_id in ids:
            if looked >= limit:
                break
            places = self._places(node_id, now_s)
            looked += len(places)
            if any(_single(place.job) for place in places):
                queues[node_id] = places
        return queues

    def _places(self, node_id: str, now_s: float) -> list[_Place]:
        """Return the places of a node; each task takes the slot that is free first."""
        prober = self._prober
        free = prober.cluster.probed(node_id, 0.0, False, False, now_s)
        slots = list(free.slots_s)
        heapify(slots)
        places = []
        for probe in prober.in_order(node_id)[:MAX_LOOKED]:
            job = prober.jobs[probe.attempt_id]
            place = _Place(probe, job, slots[0])
            heapreplace(slots, slots[0] + job.expected_s * free.node.slow_ratio * min(1.0, job.tasks / job.count))
            if probe.placed_wait_s is None:
                probe.placed_wait_s = place.starts_in_s
            places.append(place)
        return places

    def _ranked(self, rng: Random, now_s: float) -> list[tuple[float, str]]:
        prober, noise_s = self._prober, partial(rng.uniform, 0, ROUND_S)
        ids = list(prober.cluster.nodes)
        drawn = rng.sample(ids, MAX_NODES) if len(ids) > MAX_NODES else ids
        views = (prober.cluster.usable(node_id) for node_id in drawn)
        return sorted(
            (prober.probed(view, now_s).slots_s[0] + noise_s(), view.id) for view in views if view is not None
        )

    def _correct(self, node_id: str, turn: _Round) -> None:
        """Look at the places of one node, the last first."""
        prober, places = self._prober, turn.queues[node_id]
        here = NodeQueue(
            prober.cluster.nodes[node_id].view,
            prober.cluster.running(node_id),
            tuple(self._view(place, turn) for place in places),
        )
        moved = 0
        for at in reversed(range(len(places))):
            place, view = places[at], here.waiting[at]
            if turn.remainder <= 0 or moved >= turn.bounds.max_per_node:
                return
            best = self._best(place, turn) if view.movable else None
            if best is None:
                continue
            others = replace(here, waiting=here.waiting[:at] + here.waiting[at + 1 :])
            why = turn.policies.cluster.correct(view, others, best, turn.now_s)
            self._compare(Question("correct", None, why, partial(_corrects, view, others, best, turn.now_s), _moves))
            if why is not None:
                self._move(place, best, why, turn)
                moved += 1

    def _view(self, place: _Place, turn: _Round) -> ContainerView:
        return replace(
            self._prober.view(place.probe),
            starts_in_s=place.starts_in_s,
            placed_wait_s=place.probe.placed_wait_s,
            stage_wait_s=turn.averages_s[place.probe.attempt_id],
            sheds=place.probe.moves,
            movable=_single(place.job) and place.probe.moves < turn.bounds.max_moves,
        )

    def _best(self, place: _Place, turn: _Round) -> NodeView | None:
        """Return the node of the least wait where a place may go, with that wait."""
        for _, node_id in turn.ranked:
            view = self._prober.cluster.nodes[node_id].view
            if node_id != place.probe.node_id and may_go(place.job, view):
                return replace(view, queued_s=self._prober.probed(view, turn.now_s).slots_s[0], remaining_s=0.0)
        return None

    def _move(self, place: _Place, best: NodeView, why: str, turn: _Round) -> None:
        prober, probe = self._prober, place.probe
        move(prober, probe, best.id, turn.now_s)
        turn.remainder -= 1
        scores = (best.id, best.wait_s), (probe.node_id, place.starts_in_s)
        by = "correct", turn.policies.policy_name("correct")
        tell(self._emit, by, probe, place.job.app.id, best.id, why, turn.now_s, scores)
        at = next(at for at, (_, node_id) in enumerate(turn.ranked) if node_id == best.id)
        noise_s = turn.ranked.pop(at)[0] - best.wait_s
        wait_s = prober.probed(prober.cluster.nodes[best.id].view, turn.now_s).slots_s[0]
        insort(turn.ranked, (wait_s + noise_s, best.id))


def _single(job: ProbingJob) -> bool:
    """Return whether each place of a job is for a task of its own."""
    return not job.sticky and job.count <= job.tasks


def _averages_s(queues: dict[str, list[_Place]], now_s: float) -> dict[str, float]:
    waits_s: defaultdict[str, list[float]] = defaultdict(list)
    for places in queues.values():
        for place in places:
            waits_s[place.probe.attempt_id].append(now_s - place.probe.arrived_s + place.starts_in_s)
    return {attempt_id: sum(each) / len(each) for attempt_id, each in waits_s.items()}


def _corrects(view: ContainerView, here: NodeQueue, best: NodeView, now_s: float, rival: Policies) -> str | None:
    return rival.cluster.correct(view, here, best, now_s)


def _moves(why: str | None) -> str:
    return "stays" if why is None else "moves"
