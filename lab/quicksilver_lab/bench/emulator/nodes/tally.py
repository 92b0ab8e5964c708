"""Counts that all nodes of a run share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class NodeTally:
    """What all nodes of a run share: what runs now, and what happened."""

    processes: int = 0
    used_vcores: int = 0
    heartbeats: int = 0
    missed: int = 0
    """Heartbeats without an answer."""
    answer_s: float = 0.0
    """How long the answers took, together."""
    late_ends: int = 0
    """Ends of containers during a heartbeat, which wait for the next one."""
    refused: Counter[str] = field(default_factory=Counter)
    """Starts that were refused and sessions that were broken off, by the first words of the reason."""

    def counts(self) -> dict[str, int]:
        """Return the figures of the heartbeats; `nm_answer_us` is the mean time to an answer, in microseconds."""
        mean_s = self.answer_s / self.heartbeats if self.heartbeats else 0.0
        counts = {"heartbeats": self.heartbeats, "missed": self.missed, "late_ends": self.late_ends}
        return {f"nm_{name}": value for name, value in counts.items()} | {"nm_answer_us": round(mean_s * 1e6)}
