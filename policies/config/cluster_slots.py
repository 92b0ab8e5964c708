"""Policies that decide on all nodes together, once a round: shedding, moves, and limits of queueable containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from policies.common.damping import Damping
from policies.common.move_limits import Moving
from policies.config.guarded_call import call
from policies.config.registry import Bound
from policies.errors import PolicyFaultError
from policies.model import ContainerView, Limit, NodeQueue, NodeUse, NodeView, ShedTarget


class ClusterSlots:
    """The slots `shed`, `police`, `steal` and `correct`. choices: the policies in force by slot."""

    def __init__(self, choices: Mapping[str, Bound]) -> None:
        self._choices = choices

    def shed(self, nodes: Sequence[NodeView], now_s: float) -> Mapping[str, ShedTarget]:
        """Return how much may wait at each node, by node id; no limit for those that are not named."""
        bound = self._choices["shed"]
        answer: Mapping[str, ShedTarget] = call(bound, Mapping, nodes, bound.cfg, now_s)  # type: ignore[type-abstract]
        return answer

    def shed_steady(self) -> object:
        """Return an object that stays the same while equal nodes get the same answer of `shed`, or None."""
        bound = self._choices["shed"]
        return bound if bound.steady else None

    def steal(self, thief: NodeView, others: Sequence[NodeQueue], rng: Random, now_s: float) -> list[str]:
        """Return ids of waiting containers, all of one node, that the idle node takes over."""
        bound = self._choices["steal"]
        answer = call(bound, list, thief, others, bound.cfg, rng, now_s)
        if answer and not any(set(answer) <= {c.id for c in other.waiting} for other in others):
            raise PolicyFaultError(f"{bound}: chose {answer}, which do not wait together at one node")
        return answer

    def moving(self, slot: str) -> Moving:
        """Return the bounds for moves of the policy in `steal` or `correct`."""
        cfg = self._choices[slot].cfg
        return cfg if isinstance(cfg, Moving) else Moving()

    def correct(self, waiting: ContainerView, here: NodeQueue, best: NodeView, now_s: float) -> str | None:
        """Return why a waiting container should move from `here` to `best`, or None to leave it."""
        bound = self._choices["correct"]
        answer: str | None = call(bound, str | None, waiting, here, best, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def police(self, use: NodeUse, now_s: float) -> Limit | None:
        """Return the limit to queueable containers on a node; None for no limit."""
        bound = self._choices["police"]
        answer: Limit | None = call(bound, Limit | None, use, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def damping(self, slot: str) -> Damping:
        """Return the damping of the policy that decides on nodes in a slot: its setting `damping`, else none."""
        own = getattr(self._choices[slot].cfg, "damping", None)
        return own if isinstance(own, Damping) else Damping()
