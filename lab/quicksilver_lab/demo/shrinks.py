"""When which containers stood still, as the sidecars' REST shows it: read a few times a second while jobs run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Self

import requests

from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.rest import get_text

EVERY_S: Final = 0.3
_JOIN_S: Final = 60.0

Interval = tuple[float, float]
"""Unix seconds."""


def sidecars(stack: LocalDaemons) -> list[str]:
    """Return the URLs at which the sidecars list their containers."""
    return [f"{stack.sidecar_rest(node).url}/v1/containers" for node in stack.cluster.spec.node_addresses]


class ShrinkIntervals:
    """Polls the sidecars on a thread of its own for the time of a with block."""

    def __init__(self, urls: Sequence[str]) -> None:
        """Prepare; urls: as `sidecars` returns them."""
        self._urls = urls
        self.intervals: dict[str, list[Interval]] = {}
        """By container, the intervals in which it was seen shrunk."""
        self.failures = 0
        """Polls without an answer."""
        self._last_s: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shrinks")

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_S):
            for url in self._urls:
                try:
                    rows = json.loads(get_text(url))
                except requests.RequestException:
                    self.failures += 1
                    continue
                self.look(url, [row["container_id"] for row in rows if row["state"] == "shrunk"], time.time())

    def look(self, node: str, shrunk: Iterable[str], now_s: float) -> None:
        """Add what one node showed: an interval goes on while each look at the node finds the container shrunk."""
        before_s = self._last_s.get(node, now_s)
        self._last_s[node] = now_s
        for container in shrunk:
            intervals = self.intervals.setdefault(container, [])
            if intervals and intervals[-1][1] >= before_s:
                intervals[-1] = (intervals[-1][0], now_s)
            else:
                intervals.append((now_s, now_s))


def total_s(intervals: Sequence[Interval]) -> float:
    """Return the seconds of some intervals."""
    return sum(end_s - begin_s for begin_s, end_s in intervals)
