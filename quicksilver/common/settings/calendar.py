"""When windows open, by their cron expressions; APScheduler's CronTrigger knows the calendar and summer time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from policies.config.binding import entries
from policies.config.schema import Window
from policies.config.validation import Path, shorten
from policies.config.windows import Hours, WindowSpan, hours, next_change_s
from policies.errors import Mistake

_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PROLONGED: Final = 100
"""Number of begins within an opening that are checked at once; later ones are found when they come."""


def trigger(cron: str, time_zone: str) -> Any:
    """Return the trigger of a crontab expression. Raises ValueError that says what is wrong with it."""
    minute, hour, day, month, weekday = cron.split()
    zone = ZoneInfo(time_zone) if time_zone else None
    trigger = CronTrigger(
        minute=minute, hour=hour, day=day, month=month, day_of_week=_weekdays(weekday), second=0, timezone=zone
    )
    if trigger.get_next_fire_time(None, datetime.now(UTC)) is None:
        raise ValueError("never comes")
    return trigger


def _weekdays(field: str) -> str:
    """Return crontab's weekdays (0 and 7 are Sunday) as names, since the trigger counts from Monday."""
    return ",".join(_weekday(part) for part in field.split(","))


def _weekday(part: str) -> str:
    days, _, step = part.partition("/")
    first, _, last = days.partition("-")
    if not first.isdigit() or not (last or first).isdigit():
        return part
    begin, end = int(first), int(last or first)
    if not 0 <= begin <= end <= 7 or not (step or "1").isdigit() or step == "0":
        raise ValueError(f"{part} is no weekday; 0 to 7, or mon to sun")
    return ",".join(dict.fromkeys(_DAYS[day] for day in range(begin, end + 1, int(step or 1))))


def calendar_mistakes(section: Mapping[str, Any], path: Path) -> list[Mistake]:
    """Return mistakes that the schema of the section `policies` cannot find: unknown time zones, impossible times.

    They are found in a section with other mistakes, too.
    """
    mistakes = []
    time_zone = section.get("time_zone") or ""
    try:
        zone = ZoneInfo(time_zone).key if time_zone and isinstance(time_zone, str) else ""
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        zone = ""
        why = f"unknown time zone {shorten(time_zone)}; give a name such as Europe/Berlin (`ls /usr/share/zoneinfo`)"
        mistakes.append(Mistake((*path, "time_zone"), why))
    for number, window in entries(section, "windows"):
        cron = window.get("cron")
        if not isinstance(cron, str) or len(cron.split()) != 5:
            continue  # the schema's own mistake
        try:
            trigger(cron, zone)
        except (ValueError, TypeError) as error:
            why = f"is no cron expression: {error}, got {shorten(cron)} (minute hour day month weekday)"
            mistakes.append(Mistake((*path, "windows", number, "cron"), why))
    return mistakes


class Calendar:
    """The windows of one settings file; the ones in force are computed again only when something changes."""

    def __init__(self, windows: Sequence[Window], time_zone: str = "") -> None:
        self._windows = windows
        self._triggers = {window.name: trigger(window.cron, time_zone) for window in windows}
        self._hours = Hours()
        self._holds = (0.0, float("inf") if not windows else 0.0)

    def hours(self, now_s: float) -> Hours:
        """Return which windows are open, and what comes."""
        since_s, until_s = self._holds
        if not since_s <= now_s < until_s:
            spans = self.spans(now_s)
            self._hours = hours(self._windows, spans, now_s)
            self._holds = (now_s, next_change_s(self._windows, spans, now_s))
        return self._hours

    def spans(self, now_s: float) -> dict[str, WindowSpan]:
        """Return the opening of each window that lasts, or its next one; a window without one never opens again."""
        return {window.name: span for window in self._windows if (span := self._span(window, now_s)) is not None}

    def _span(self, window: Window, now_s: float) -> WindowSpan | None:
        """Return the opening that lasts, or the next; a begin within it prolongs it."""
        begins_s = self._next_s(window, now_s - window.length_s)
        if begins_s is None:
            return None
        last_s = begins_s
        for _ in range(_PROLONGED):
            again_s = self._next_s(window, last_s)
            if again_s is None or again_s > last_s + window.length_s:
                break
            last_s = again_s
            if last_s > now_s + window.drain_s:
                break
        return WindowSpan(begins_s, last_s + window.length_s)

    def _next_s(self, window: Window, after_s: float) -> float | None:
        """Return the first begin after a time."""
        after = datetime.fromtimestamp(after_s, UTC) + timedelta(microseconds=1)
        begin = self._triggers[window.name].get_next_fire_time(None, after)
        return begin.timestamp() if begin is not None else None
