"""Short and long jobs, and the nodes that are kept for short ones (Hawk; thesis §2.3.3, §2.3.4; Eagle §3.3.1)."""

from __future__ import annotations


def is_long(estimate_s: float, cutoff_s: float) -> bool:
    """Return whether a job is long: by the mean duration of its tasks, as it is estimated (§2.3.3)."""
    return estimate_s > cutoff_s


def kept_for_short(nodes: int, ratio: float) -> int:
    """Return how many of the nodes run short tasks alone (§2.3.4); long ones always have at least one node.

    ratio: 0..1, the share of all work that short jobs bring: 0.17, 0.09, 0.02, 0.02 in the traces of Google, Cloudera,
    Facebook, Yahoo (§2.4.1).
    """
    return min(int(nodes * ratio + 1e-9), nodes - 1)
