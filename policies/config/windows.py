"""Windows, in which an alternative is in force: the open ones and the coming ones, from given begins and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policies.config.schema import Window


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """One opening of a window, Unix seconds: the one that lasts, or the next."""

    begins_s: float
    ends_s: float

    def lasts(self, now_s: float) -> bool:
        """Return whether the window is open."""
        return self.begins_s <= now_s < self.ends_s


@dataclass(frozen=True, slots=True)
class Coming:
    """A window that is about to begin or to end."""

    window: str
    begins: bool
    at_s: float
    open: tuple[str, ...]
    """The windows that will be open then."""

    def __str__(self) -> str:
        return f"window {self.window} {'begins' if self.begins else 'ends'}"


@dataclass(frozen=True, slots=True)
class Hours:
    """The open windows, and the changes that come soon enough for the cluster to drain."""

    open: tuple[str, ...] = ()
    coming: tuple[Coming, ...] = ()


def hours(windows: Sequence[Window], spans: Mapping[str, WindowSpan], now_s: float) -> Hours:
    """Return the windows at `now_s`; one without a span never opens again."""
    coming = []
    for window in windows:
        span = spans.get(window.name)
        if span is None or now_s >= span.ends_s:
            continue
        begins = not span.lasts(now_s)
        at_s = span.begins_s if begins else span.ends_s
        if window.drain_s > 0 and at_s - now_s <= window.drain_s:
            coming.append(Coming(window.name, begins, at_s, _open(windows, spans, at_s)))
    coming.sort(key=lambda change: change.at_s)
    return Hours(_open(windows, spans, now_s), tuple(coming))


def next_change_s(windows: Sequence[Window], spans: Mapping[str, WindowSpan], now_s: float) -> float:
    """Return when `hours` answers otherwise next, Unix seconds; infinity for never."""
    times = [
        at_s
        for window in windows
        if (span := spans.get(window.name)) is not None
        for edge_s in (span.begins_s, span.ends_s)
        for at_s in (edge_s - window.drain_s, edge_s)
    ]
    return min((at_s for at_s in times if at_s > now_s), default=float("inf"))


def _open(windows: Sequence[Window], spans: Mapping[str, WindowSpan], now_s: float) -> tuple[str, ...]:
    return tuple(w.name for w in windows if (span := spans.get(w.name)) is not None and span.lasts(now_s))
