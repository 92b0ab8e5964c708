"""Policies that decide at one node: the order of its queue, what fills gaps, how guaranteed containers get room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.common.overtaking import Bypassing
from policies.common.shrinking import Shrinking
from policies.common.victims import Killing
from policies.config.guarded_call import call
from policies.config.registry import BoundPolicy
from policies.errors import PolicyFaultError
from policies.model import ContainerView, Gap, Kind, Resources


class NodeSlots:
    """The slots `order`, `fill` and `preempt`. choices: the policies in force by slot."""

    def __init__(self, choices: Mapping[str, BoundPolicy]) -> None:
        self._choices = choices

    def order_key(self, waiting: ContainerView, now_s: float) -> tuple[float, ...]:
        """Return the sort key of a waiting container: the lowest starts first; break ties by container id."""
        bound = self._choices["order"]
        return call(bound, tuple, waiting, bound.cfg, now_s)

    def order_steady(self) -> object:
        """Return an object that stays the same while keys and limits of unchanged containers do, or None."""
        bound = self._choices["order"]
        return bound if bound.steady else None

    def bypass_limit_s(self, waiting: ContainerView) -> float | None:
        """Return how much expected work (s) may overtake a waiting container; None where the order alone counts."""
        cfg = self._choices["order"].cfg
        return cfg.limit_s(waiting) if isinstance(cfg, Bypassing) else None

    @property
    def waits_by_size(self) -> bool:
        """Whether the `place` policy looks at waits by size."""
        return self._choices["place"].by_size

    @property
    def fills(self) -> bool:
        """Whether any container may start before the first of the queue where that one does not fit."""
        return self._choices["fill"].name != "none"

    def fill(self, waiting: ContainerView, gap: Gap) -> bool:
        """Return whether a waiting container that fits may start though the first of the queue does not fit."""
        bound = self._choices["fill"]
        answer: bool = call(bound, bool, waiting, gap, bound.cfg)
        return answer

    def victims(self, need: Resources, running: Sequence[ContainerView], now_s: float) -> list[str]:
        """Choose running queueable containers that make room for `need`; empty when they cannot, or need not."""
        bound = self._choices["preempt"]
        answer = call(bound, list, need, running, bound.cfg, now_s)
        if not set(answer) <= {c.id for c in running if c.kind is Kind.QUEUEABLE}:
            raise PolicyFaultError(f"{bound}: chose {answer}, but only running queueable containers may be killed")
        return answer

    @property
    def kills_by_work(self) -> bool:
        """Whether the `preempt` policy looks at the CPU time of containers."""
        return self._choices["preempt"].by_work

    @property
    def grace_s(self) -> float:
        """How long a guaranteed container waits for queueable ones that are about to end, before they are killed."""
        cfg = self._choices["preempt"].cfg
        return cfg.grace_s if isinstance(cfg, Killing) else 0.0

    def shrinking(self) -> Shrinking | None:
        """Return the settings of the policy that lets containers give way by shrinking them, None under any other."""
        cfg = self._choices["preempt"].cfg
        return cfg if isinstance(cfg, Shrinking) else None
