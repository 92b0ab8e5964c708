"""Time from ask to delivery in the last seconds, by kind."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from policies.model import Kind
from rm_proxy.views.delays import OpenWaits, delays

WINDOW_S: Final = 30.0
MAX_DELIVERIES: Final = 4000
"""Deliveries of one kind that are remembered, the newest."""


class DelayWindow:
    """A machine: deliveries in, percentiles out."""

    def __init__(self) -> None:
        self._deliveries: dict[Kind, deque[tuple[float, float]]] = {
            kind: deque(maxlen=MAX_DELIVERIES) for kind in (Kind.QUEUEABLE, Kind.GUARANTEED)
        }

    def delivered(self, kind: Kind, delay_s: float, now_s: float) -> None:
        """Note a delivery."""
        self._deliveries[kind].append((now_s, delay_s))

    def percentiles(self, waiting: OpenWaits, now_s: float) -> dict[str, float]:
        """Return p50 and p95 by kind, in seconds; NaN where nothing was delivered lately and nothing waits.

        waiting: containers that still wait; their waits so far count.
        """
        by_name = {}
        for kind, still in ((Kind.QUEUEABLE, waiting.q), (Kind.GUARANTEED, waiting.g)):
            known = self._deliveries[kind]
            while known and known[0][0] < now_s - WINDOW_S:
                known.popleft()
            figures = delays((delay_s for _, delay_s in known), still)
            for name, value in (("p50", figures.p50_s), ("p95", figures.p95_s)):
                by_name[f"delay_{kind.value.lower()}_{name}_s"] = math.nan if value is None else value
        return by_name
