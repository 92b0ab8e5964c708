"""CPU time of the proxy's event loop by part: of the innermost function that runs, among those that are wrapped."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from time import thread_time
from typing import Any, Final

from rm_proxy.api.report_connections import ReportConnection
from rm_proxy.attempt.allocate_exchange import AllocateExchange
from rm_proxy.attempt.routing.router import Router
from rm_proxy.attempt.routing.steering import Steering
from rm_proxy.coordinator.placement import Placer
from rm_proxy.coordinator.reports.sidecar_reports import SidecarReports
from rm_proxy.coordinator.rounds import Rounds
from rm_proxy.dispatch.central_queue import CentralQueue
from rm_proxy.relay.relay import Relay
from rm_proxy.service.attempt_journal import AttemptJournal
from rm_proxy.service.connections.am_connections import AmConnection
from rm_proxy.service.effect_handlers import EffectHandlers
from rm_proxy.service.grant_announcer import GrantAnnouncer
from rm_proxy.service.recovery import Recovery
from rm_proxy.service.report_handler import ReportHandler
from rm_proxy.service.server import Proxy
from rm_proxy.store.writer import Writer

LOOP: Final = "loop"
"""All that is in none of the functions below: the event loop, its system calls, tasks."""
Functions = tuple[tuple[type, tuple[str, ...]], ...]
PARTS: Final[Mapping[str, Functions]] = {
    "sockets": ((AmConnection, ("data_received", "from_rm")), (Relay, ("from_am", "from_rm"))),
    "attempt": (
        (AllocateExchange, ("passes_up", "on_allocate", "passes_down", "on_answer")),
        (AttemptJournal, ("write",)),
        (Recovery, ("write_due", "round")),
    ),
    "placement": (
        (Steering, ("place_all",)),
        (Router, ("charge",)),
        (Placer, ("place", "count_asked", "count_granted")),
        (CentralQueue, ("waits", "allowance")),
    ),
    "report_frames": ((ReportConnection, ("data_received", "grant", "notify")), (GrantAnnouncer, ("send",))),
    "report_state": ((ReportHandler, ("handle",)), (SidecarReports, ("report",))),
    "store": ((EffectHandlers, ("handle",)), (Writer, ("event", "grant", "completion", "decision", "keep"))),
    "rounds": ((Rounds, ("in_parts",)), (Proxy, ("_on_round",))),
}
"""Functions of each part, by class."""
_GENERATORS: Final = frozenset(("in_parts",))


class PartClock:
    """CPU time of the thread that made it, by part; a part has none while another one runs that it called."""

    def __init__(self, now: Callable[[], float] = thread_time) -> None:
        self.spent_s: defaultdict[str, float] = defaultdict(float)
        self._now, self._thread = now, threading.get_ident()
        self._running, self._since_s = [LOOP], now()

    def reading(self) -> dict[str, float]:
        """Return the seconds of each part up to now."""
        self._settle()
        return dict(self.spent_s)

    def _settle(self) -> None:
        now_s = self._now()
        self.spent_s[self._running[-1]] += now_s - self._since_s
        self._since_s = now_s

    def with_timer(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and counts for a part."""

        @wraps(function)
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*arguments, **keywords)
            self._settle()
            self._running.append(part)
            try:
                return function(*arguments, **keywords)
            finally:
                self._settle()
                self._running.pop()

        return wrapper

    def with_timed_steps(self, part: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """Return a generator function that does the same and counts for a part."""

        @wraps(function)
        def wrapper(*arguments: Any, **keywords: Any) -> Iterator[Any]:
            end = object()
            step = self.with_timer(part, next)
            steps = function(*arguments, **keywords)
            while (item := step(steps, end)) is not end:
                yield item

        return wrapper


def watch(clock: PartClock, parts: Mapping[str, Functions] = PARTS) -> None:
    """Wrap the functions of all parts, for the rest of the process."""
    for part, functions in parts.items():
        for owner, names in functions:
            for name in names:
                timer = clock.with_timed_steps if name in _GENERATORS else clock.with_timer
                setattr(owner, name, timer(part, getattr(owner, name)))
