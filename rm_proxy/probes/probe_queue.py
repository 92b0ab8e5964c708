"""The probes of one node: places of applications in its queue, in the order of the `order` policy.

A later probe may go before earlier ones as far as the limit of the policy allows it (Eagle, thesis §3.4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from policies.common.overtaking import LEAST_S
from policies.model import AppView, ContainerView, Kind, Resources

STEADY_S = 1.0
"""How long an order is kept though nothing came or went: the work that jobs have left changes."""
Key = Callable[[ContainerView, float], tuple[float, ...]]
Limit = Callable[[ContainerView], float | None]


@dataclass(slots=True, eq=False)
class Probe:
    """A place in a node's queue."""

    number: int
    """Grows with each probe of the cluster."""
    attempt_id: str
    node_id: str
    arrived_s: float
    bypassed_s: float = 0.0
    """Work that went before it though it came later."""
    passed_until_s: float = 0.0
    """Its application had the turn and did not use it: others go before it until then."""
    passes: int = 0
    """How often that was so."""
    moves: int = 0
    """How often its application's place moved here from another node."""
    placed_wait_s: float | None = None
    """How long it was expected to wait when it came, once that was looked at."""


@dataclass(slots=True)
class Ordering:
    """How probes are ordered: by the `order` policy, and what it says of overtaking."""

    view: Callable[[Probe], ContainerView]
    """Returns a probe as a container that waits."""
    key: Key
    limit_s: Limit


def seen(probe: Probe, app: AppView, expected_s: float, left_s: float) -> ContainerView:
    """Return a probe as a waiting container of its application; left_s: work of the job that is left."""
    return ContainerView(
        id=f"probe {probe.number}",
        app=app.id,
        app_type=app.type,
        kind=Kind.QUEUEABLE,
        resources=Resources(),
        app_priority=app.priority,
        job_submitted_s=app.submitted_s,
        arrived_s=probe.arrived_s,
        expected_s=expected_s,
        job_remaining_s=left_s,
        bypassed_s=probe.bypassed_s,
        queue=app.queue,
        user=app.user,
        job_class=app.job_class,
    )


class ProbeQueue:
    """A machine: probes in, their order out."""

    __slots__ = ("_in_order", "_ordered_s", "by_number", "changes")

    def __init__(self) -> None:
        self.by_number: dict[int, Probe] = {}
        """As they came."""
        self.changes = 1
        """Counts probes that came or went."""
        self._in_order: Sequence[Probe] | None = None
        self._ordered_s = -inf

    def __len__(self) -> int:
        return len(self.by_number)

    def add(self, probe: Probe) -> None:
        """Put a probe at the end."""
        self.by_number[probe.number] = probe
        self._in_order = None
        self.changes += 1

    def remove(self, probe: Probe) -> None:
        """Take a probe out."""
        del self.by_number[probe.number]
        self._in_order = None
        self.changes += 1

    def served(self, probe: Probe, work_s: float) -> None:
        """Note that a task of this many seconds starts on behalf of a probe: those that came earlier were overtaken."""
        work_s = max(LEAST_S, work_s)
        for number, rival in self.by_number.items():
            if number >= probe.number:
                break
            rival.bypassed_s += work_s
            self._in_order = None

    def in_order(self, ordering: Ordering, now_s: float) -> Sequence[Probe]:
        """Return the probes, first the one whose turn is next.

        Those that may not overtake all that came before them follow the others, as they came. Raises PolicyFaultError
        when the `order` policy fails.
        """
        if self._in_order is None or now_s - self._ordered_s >= STEADY_S:
            self._in_order, self._ordered_s = self.ordered(ordering, now_s), now_s
        return self._in_order

    def ordered(self, ordering: Ordering, now_s: float) -> Sequence[Probe]:
        """Return the probes in this order as of now, which is not kept. Raises PolicyFaultError."""
        may_s = inf
        first: list[tuple[tuple[float, ...], int, Probe]] = []
        held_back: list[Probe] = []
        for number, probe in self.by_number.items():
            view = ordering.view(probe)
            if max(LEAST_S, view.expected_s) <= may_s:
                first.append((ordering.key(view, now_s), number, probe))
            else:
                held_back.append(probe)
            limit_s = ordering.limit_s(view)
            if limit_s is not None:
                may_s = min(may_s, limit_s - probe.bypassed_s)
        return [*(probe for _, _, probe in sorted(first)), *held_back]
