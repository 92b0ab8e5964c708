"""Which fault comes when: drawn from a seed, so that a campaign can be run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from quicksilver_lab.workloads.faults.cutter import CallStep

KILL_PROXY, KILL_SIDECAR, KILL_BOTH = "kill proxy", "kill sidecar", "kill proxy and sidecar"
KILL_NM, KILL_RM, KILL_AM, KILL_STORE = "kill NodeManager", "kill ResourceManager", "kill AM", "kill store"
CUT, HOLD, SLOW = "cut", "hold", "slow"
KILL_RELAY = "kill tracker relay"
KINDS: Final[Mapping[str, float]] = {
    KILL_PROXY: 20,
    KILL_SIDECAR: 20,
    KILL_BOTH: 4,
    KILL_NM: 8,
    KILL_RM: 4,
    KILL_AM: 6,
    KILL_STORE: 6,
    CUT: 16,
    HOLD: 8,
    SLOW: 8,
}
"""Weights."""
OWN_GRANTS: Final[Mapping[str, float]] = {KILL_RELAY: 8.0, **{step.value: 10.0 for step in CallStep}}
"""Faults that come beside those where the proxy grants containers itself."""
STOCK: Final = frozenset({KILL_NM, KILL_RM, KILL_AM})
"""Faults that plain YARN knows too."""
NEEDS_NODE: Final = frozenset({KILL_SIDECAR, KILL_BOTH, KILL_NM, KILL_RELAY})
NETWORK: Final = frozenset({CUT, HOLD, SLOW})
_LONGEST_CUT_S: Final = 3.0
_LONGEST_HOLD_S: Final = 4.0
_LONGEST_SLOW_S: Final = 6.0
_SHORTEST_PAUSE_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; `target` is a node's name, a link's name, or ""."""

    number: int
    kind: str
    target: str
    pause_s: float
    """To wait before it."""
    for_s: float = 0.0
    """How long a network fault lasts."""
    delay_s: float = 0.0
    """Of `slow`: how long data is held back on average."""

    def __str__(self) -> str:
        """Return it for progress lines."""
        lasting = f" for {self.for_s:.1f} s" if self.for_s else ""
        return " ".join(part for part in (f"{self.number}:", self.kind, self.target) if part) + lasting


def faults(
    seed: int,
    nodes: Sequence[str],
    links: Sequence[str],
    mean_pause_s: float,
    kinds: Mapping[str, float] = KINDS,
    each_first: bool = False,
) -> Iterator[Fault]:
    """Yield faults for ever. Pauses are exponential, so that two may come right after each other.

    each_first: one of each kind, in an order that is drawn, before any comes twice.
    """
    rng = Random(seed)
    possible = {kind: weight for kind, weight in kinds.items() if links or kind not in NETWORK}
    dealt = rng.sample(list(possible), len(possible)) if each_first else []
    number = 0
    while True:
        number += 1
        kind = dealt.pop() if dealt else rng.choices(list(possible), list(possible.values()))[0]
        pause_s = _SHORTEST_PAUSE_S + rng.expovariate(1 / max(mean_pause_s - _SHORTEST_PAUSE_S, 1e-3))
        if kind in NETWORK:
            longest = {CUT: _LONGEST_CUT_S, HOLD: _LONGEST_HOLD_S, SLOW: _LONGEST_SLOW_S}[kind]
            delay_s = rng.uniform(0.02, 0.3) if kind == SLOW else 0.0
            yield Fault(number, kind, rng.choice(list(links)), pause_s, rng.uniform(0.2, longest), delay_s)
        else:
            yield Fault(number, kind, rng.choice(list(nodes)) if kind in NEEDS_NODE else "", pause_s)
