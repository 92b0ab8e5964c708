"""Bounds of a process: open files, and lines that would repeat."""

from __future__ import annotations

import resource
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from quicksilver.common.process.logs import get_logger

SELDOM_S: Final = 60.0
OTHER_FILES: Final = 200
"""Files that a process needs beside its connections: store, logs, threads' connections, libraries."""
MAX_PEERS: Final = 1000
"""Peers of whom lines are written within SELDOM_S; those of others are only counted."""
_ENOUGH: Final = 1 << 20
log = get_logger(__name__)


def raise_open_files(connections: int, settings: str) -> int:
    """Raise the limit of open files to the hard limit of this process; return it.

    connections: sockets that the settings allow; settings: these, for the log when the limit is too low for them.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    best = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft == resource.RLIM_INFINITY or soft > best:
        best = _ENOUGH if soft == resource.RLIM_INFINITY else soft
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (best, hard))
    demand = connections + OTHER_FILES
    if best < demand:
        log.warning(
            "too few open files are allowed for what the settings allow",
            allowed=best,
            wanted=demand,
            settings=settings,
            remedy=f"set LimitNOFILE={demand} in the systemd unit (or `ulimit -Hn`), or lower the settings",
        )
    return best


class Seldom:
    """Log lines of one kind, at most one in SELDOM_S; the next one has the number of those left out."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._last_s: dict[str, float] = {}
        self._more: dict[str, int] = {}

    def warning(self, event: str, **keys: Any) -> None:
        """Log a warning, unless one with the same text was logged recently."""
        now_s = self._now()
        last_s = self._last_s.get(event)
        if last_s is not None and now_s - last_s < SELDOM_S:
            self._more[event] = self._more.get(event, 0) + 1
            return
        self._last_s[event] = now_s
        more = self._more.pop(event, 0)
        log.warning(event, **keys, **({"more_since_the_last_line": more} if more else {}))


class SeldomByPeer:
    """Lines about peers that anybody may be: the first of each in SELDOM_S is written, of at most MAX_PEERS."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._last_s: OrderedDict[str, float] = OrderedDict()
        self._more = 0

    def left_out(self, peer: str) -> int | None:
        """Count a line; return how many were left out since the last one that was not, None to leave this one out."""
        now_s = self._now()
        while self._last_s and now_s - next(iter(self._last_s.values())) >= SELDOM_S:
            self._last_s.popitem(last=False)
        if peer in self._last_s or len(self._last_s) >= MAX_PEERS:
            self._more += 1
            return None
        self._last_s[peer] = now_s
        more, self._more = self._more, 0
        return more
