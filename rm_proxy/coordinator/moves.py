"""Waiting containers that move to another node: taken over by an idle one, or corrected (Hawk §2.3, Apollo §3.4).

A move takes several steps: the container's node is ordered to shed it, its end is reported to the
application, which asks again, and that ask goes to the new node, where room is kept for it meanwhile.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from policies.common.move_limits import Moving
from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, ContainerView, NodeQueue, NodeView, Placement, Resources
from policies.value_types import replace
from quicksilver.common.messages import ContainerEvent, EventKind, Shed
from rm_proxy.attempt.effects import Decided, Effect, Faulted, Moved
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.coordinator.nodes.node_queues import Cluster, NodeQueues, StageWaits
from rm_proxy.domain.comparison import Compare, Question, not_compared, shadowed
from rm_proxy.domain.ids import app_of_container
from rm_proxy.domain.records import DecisionRecord

MAX_THIEVES: Final = 50
"""Idle nodes that look for work in one round."""
MAX_LOOKED: Final = 2_000
"""Waiting containers that are checked in one round, of nodes in random order."""
ROUND_S: Final = 1.0
"""How far apart reports are; a wait is known no better than this (Apollo §3.4, randomisation)."""
COMPARED_THIEVES: Final = 10
"""Idle nodes that look for work in one round for alternatives alone."""
MAX_COMPARED: Final = 100
"""Waiting containers that are checked in one round for alternatives alone."""
_TYPICAL: Final = Resources(1, 1)
"""Size of container for which an idle node has room."""


@dataclass(frozen=True, slots=True)
class Move:
    """A container on its way to another node."""

    container_id: str
    app_id: str
    cause: str
    """steal or correct."""
    source: str
    target: str
    wait_s: float
    """Expected wait at the target when that was chosen."""
    until_s: float


@dataclass(frozen=True, slots=True)
class MoveTurn:
    """One round of one policy."""

    slot: str
    policies: Policies
    bounds: Moving
    queues: NodeQueues
    rng: Random
    now_s: float
    in_force: bool
    """Whether anything can come of it: else only alternatives are asked, and less is looked at."""


class Mover:
    """A machine: nodes in, containers to shed out, once a round; it remembers where each of them is to go."""

    def __init__(self, cluster: Cluster, compare: Compare = not_compared) -> None:
        self.moves: OrderedDict[str, Move] = OrderedDict()
        """By the container that is shed; as many as the bounds allow."""
        self.waits = StageWaits()
        self._cluster, self._compare = cluster, compare
        self._sheds: dict[str, list[Shed]] = {}
        self._ways: Counter[str] = Counter()
        """Containers on their way from or to each node."""
        self._idle_since: dict[str, float] = {}
        self._effects: list[Effect] = []
        self._shadow_rng = Random(0)
        """Of slots in which only alternatives decide: nothing else is to depend on them."""

    # Sheds

    def shed(self, node_id: str, shed: Shed) -> None:
        """Have a waiting container shed: with the node's next report, or after the round where that comes sooner."""
        self._sheds.setdefault(node_id, []).append(shed)

    @property
    def nodes_to_shed(self) -> Collection[str]:
        """Nodes that have something to shed."""
        return self._sheds.keys()

    def take(self, node_id: str) -> list[Shed]:
        """Return the containers that the node has to shed, and forget them."""
        return self._sheds.pop(node_id, [])

    def take_effects(self) -> list[Effect]:
        """Return the effects since the last call, and forget them."""
        effects, self._effects = self._effects, []
        return effects

    # Outcome of moves

    def on_event(self, event: ContainerEvent, live: HeldContainer) -> None:
        """Handle an event of a container that an application holds."""
        if event.kind is EventKind.STARTED:
            self.waits.started(app_of_container(live.id), live.priority, event.waited_s)
        if event.kind not in (EventKind.HELD, EventKind.SHED, EventKind.LOST):
            self._over(event.container_id, "kept")

    def move_target(self, follows: str) -> str:
        """Return the node for which a container was shed; "" for none."""
        move = self.moves.get(follows)
        return move.target if move is not None else ""

    def arrive(self, ask: Ask, follows: str) -> Placement | None:
        """Place the replacement of a container that was shed for a node; None if it may not go there.

        It may while it could start there, or (if it was corrected) would wait no longer than was expected.
        """
        move = self.moves.get(follows)
        node = self._cluster.nodes.get(move.target) if move is not None else None
        if move is None or node is None:
            return None
        node.unreserve(follows)
        view = node.view
        starts = view.queue_length == 0 and view.has_room(ask.resources)
        if ask.tier(view) is None or not (starts or (move.cause == "correct" and view.wait_s <= move.wait_s)):
            return None
        self._over(follows, "there")
        why = f"{move.cause}: it was shed at {move.source} to go here"
        return Placement(move.target, ((move.target, view.wait_s),), "s", why, view.wait_s)

    def placed_elsewhere(self, follows: str) -> None:
        """Note that the replacement was placed on another node than the one it was shed for."""
        self._over(follows, "elsewhere")

    def cancel_move(self, follows: str) -> None:
        """Note that the replacement is requested as guaranteed."""
        self._over(follows, "guaranteed")

    def _over(self, container_id: str, outcome: str) -> None:
        move = self.moves.pop(container_id, None)
        if move is None:
            return
        self._ways -= Counter((move.source, move.target))
        node = self._cluster.nodes.get(move.target)
        if node is not None:
            node.unreserve(container_id)
        self._effects.append(Moved(move.cause, outcome))

    # Rounds

    def round(self, policies: Policies, rng: Random, now_s: float) -> None:
        """Choose containers to move."""
        for move in [m for m in self.moves.values() if m.until_s <= now_s]:
            self._over(move.container_id, "lost" if self._cluster.attempts.live(move.container_id) is None else "kept")
        for gone in self._sheds.keys() - self._cluster.nodes.keys():
            del self._sheds[gone]
        in_force = [slot for slot in ("steal", "correct") if policies.for_nodes.policy_name(slot) != "none"]
        slots = [slot for slot in ("steal", "correct") if slot in in_force or shadowed(policies, slot)]
        if "steal" not in slots:
            self._idle_since.clear()
        if not slots:
            return
        queues = NodeQueues(
            self._cluster,
            lambda live, app: self._movable(policies, live, app),
            self.waits.with_waiting(self._cluster.nodes, now_s)
            if "correct" in slots
            else lambda app_id, priority: None,
            now_s,
        )
        for slot in slots:
            chance = rng if slot in in_force else self._shadow_rng
            turn = MoveTurn(slot, policies, policies.cluster.moving(slot), queues, chance, now_s, slot in in_force)
            try:
                self._steal(turn) if slot == "steal" else self._correct(turn)
            except PolicyFaultError as error:
                self._effects.append(Faulted("", str(error)))

    def _movable(self, policies: Policies, live: HeldContainer, app: AppView) -> bool:
        return not live.released and live.id not in self.moves and self._cluster.modes.mode(app) == "active"

    # Stealing

    def _steal(self, turn: MoveTurn) -> None:
        thieves = self._idle(turn.now_s)
        turn.rng.shuffle(thieves)
        remainder = turn.bounds.max_per_round
        for thief in thieves[: MAX_THIEVES if turn.in_force else COMPARED_THIEVES]:
            if remainder <= 0:
                return
            offers = turn.queues.seen_by(thief)
            ids = set(turn.policies.cluster.steal(thief, offers, turn.rng, turn.now_s) if offers else ())
            if offers:
                self._compare(Question("steal", None, sorted(ids), partial(_steals, thief, offers, turn), _taken))
            if not ids:
                continue
            queue = next(queue for queue in offers if any(view.id in ids for view in queue.waiting))
            for view in queue.waiting:
                if view.id in ids and remainder > 0 and self._has_room(thief.id, view):
                    scores = ((thief.id, 0.0), (queue.node.id, view.starts_in_s or 0.0))
                    why = f"{thief.id} is idle since {thief.idle_s:.1f} s"
                    remainder -= self._move(turn, view, queue.node, self._cluster.nodes[thief.id].view, why, scores)

    def _has_room(self, thief: str, view: ContainerView) -> bool:
        now = self._cluster.nodes[thief].view
        return view.movable and now.queue_length == 0 and now.has_room(view.resources)

    def _idle(self, now_s: float) -> list[NodeView]:
        """Return the nodes that have room and no queue, with the time since when; in the order of their ids."""
        idle: dict[str, float] = {}
        for node in self._cluster.nodes.values():
            if node.view.usable and node.view.queue_length == 0 and node.view.has_room(_TYPICAL):
                idle[node.id] = self._idle_since.get(node.id, now_s)
        self._idle_since = idle
        nodes = self._cluster.nodes
        return [replace(nodes[node_id].view, idle_s=now_s - since_s) for node_id, since_s in sorted(idle.items())]

    # Correction

    def _correct(self, turn: MoveTurn) -> None:
        ranked = sorted(
            (node.view.wait_s + turn.rng.uniform(0, max(ROUND_S, turn.now_s - node.reported_s)), node.id)
            for node in self._cluster.nodes.values()
            if node.view.usable and not self._full(turn, node.id)
        )
        remainder, looked = turn.bounds.max_per_round, 0
        limit = MAX_LOOKED if turn.in_force else MAX_COMPARED
        for queue in self._shuffled(turn):
            for view in reversed(queue.waiting):
                looked += 1
                if remainder <= 0 or looked > limit:
                    return
                if self._full(turn, queue.node.id):
                    break
                best = self._best(view, queue.node.id, ranked) if view.movable else None
                if best is None:
                    continue
                here = replace(queue, waiting=tuple(neighbour for neighbour in queue.waiting if neighbour is not view))
                why = turn.policies.cluster.correct(view, here, best, turn.now_s)
                self._compare(Question("correct", None, why, partial(_corrects, view, here, best, turn), _moves))
                if why is None:
                    continue
                scores = ((best.id, best.wait_s), (queue.node.id, view.starts_in_s or 0.0))
                if self._move(turn, view, queue.node, best, why, scores):
                    remainder -= 1
                    was = next(at for at, (_, node_id) in enumerate(ranked) if node_id == best.id)
                    noise_s = ranked.pop(was)[0] - best.wait_s
                    if not self._full(turn, best.id):
                        insort(ranked, (self._cluster.nodes[best.id].view.wait_s + noise_s, best.id))

    def _shuffled(self, turn: MoveTurn) -> Iterator[NodeQueue]:
        ids = list(turn.queues.ids)
        turn.rng.shuffle(ids)
        return (turn.queues.of(node_id) for node_id in ids)

    def _best(self, view: ContainerView, here: str, ranked: list[tuple[float, str]]) -> NodeView | None:
        """Return the node of the least wait where a container may go; where it finds no room there has to be a wait."""
        live = self._cluster.attempts.live(view.id)
        if live is None or live.ask is None:
            return None
        for _, node_id in ranked:
            node = self._cluster.nodes[node_id].view
            known = node.wait_s > 0 or node.has_room(view.resources)
            if known and node_id != here and live.ask.tier(node) is not None:
                return node
        return None

    # Both

    def _full(self, turn: MoveTurn, node_id: str) -> bool:
        return self._ways[node_id] >= turn.bounds.max_per_node

    def _move(
        self,
        turn: MoveTurn,
        view: ContainerView,
        source: NodeView,
        target: NodeView,
        why: str,
        scores: tuple[tuple[str, float], ...],
    ) -> bool:
        """Have a container shed and keep room for it; False when the bounds forbid it."""
        if self._full(turn, source.id) or self._full(turn, target.id):
            return False
        if view.sheds >= turn.bounds.max_moves or view.id in self.moves:
            return False
        until_s = turn.now_s + turn.bounds.timeout_s
        self._ways.update((source.id, target.id))
        self.moves[view.id] = Move(view.id, view.app, turn.slot, source.id, target.id, target.wait_s, until_s)
        expected_s = view.expected_s * target.slow_ratio / source.slow_ratio
        self._cluster.nodes[target.id].reserve(view.id, view.resources, expected_s)
        self.shed(source.id, Shed(container_id=view.id, cause=turn.slot, reason=f"moves to {target.id}: {why}"))
        record = DecisionRecord(
            at_s=turn.now_s,
            slot=turn.slot,
            policy=turn.policies.for_nodes.policy_name(turn.slot),
            app_id=view.app,
            container_id=view.id,
            node_id=target.id,
            chosen=f"moves to {target.id}",
            reason=why,
            scores=scores,
            unit="s",
        )
        self._effects.append(Decided(record))
        return True


def _steals(thief: NodeView, offers: Sequence[NodeQueue], turn: MoveTurn, rival: Policies) -> list[str]:
    return sorted(rival.cluster.steal(thief, offers, Random(0), turn.now_s))


def _taken(ids: Sequence[str]) -> str:
    return f"takes {', '.join(ids) or 'none'}"


def _corrects(view: ContainerView, here: NodeQueue, best: NodeView, turn: MoveTurn, rival: Policies) -> str | None:
    return rival.cluster.correct(view, here, best, turn.now_s)


def _moves(why: str | None) -> str:
    return "stays" if why is None else "moves"
