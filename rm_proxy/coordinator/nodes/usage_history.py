"""Use of each node by guaranteed containers, by the time of the week and lately (Mercury, ATC '15, §4.3).

A week has 672 quarters of an hour, each with the weeks that were seen, mean and peak. A mean counts the last weeks
most; a peak rises at once and comes down with the weeks. Application masters are among the guaranteed containers.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from policies.model import Resources, Usual
from rm_proxy.domain.records import UseRecord

SLOTS: Final = 672
SLOT_S: Final = 900.0
AHEAD: Final = 17
"""Slots that policies are shown: the one that runs, and four hours after it."""
MAX_NODES: Final = 20_000
"""Nodes whose weeks are remembered, 13 KB each; of more, those that were counted longest ago are forgotten."""
MEMORY_WEEKS: Final = 8
"""A mean moves like one over this number of weeks, even if more were seen."""
MINUTES: Final = 60
SEEN_S: Final = 300.0
"""A slot is counted only if at least this much of it was seen."""
_GAP_S: Final = 60.0
_COLUMNS: Final = 5


class LocalTime(Protocol):
    """A local time, as `time.localtime` returns it."""

    @property
    def tm_wday(self) -> int: ...  # noqa: D102
    @property
    def tm_hour(self) -> int: ...  # noqa: D102
    @property
    def tm_min(self) -> int: ...  # noqa: D102
    @property
    def tm_sec(self) -> int: ...  # noqa: D102


def utc(now_s: float) -> LocalTime:
    """Return a Unix time in UTC."""
    return datetime.fromtimestamp(now_s, UTC).timetuple()


class Week:
    """The slots of one node: weeks, mean and peak memory (MB), mean and peak vcores, as a flat array."""

    def __init__(self) -> None:
        self._cells = array("f", bytes(4 * _COLUMNS * SLOTS))

    def of(self, slot: int) -> tuple[int, Resources, Resources]:
        """Return weeks, mean and peak of a slot."""
        weeks, mean_mb, peak_mb, mean_vcores, peak_vcores = self._cells[_COLUMNS * slot : _COLUMNS * (slot + 1)]
        return int(weeks), Resources(round(mean_mb), mean_vcores), Resources(round(peak_mb), peak_vcores)

    def put(self, slot: int, weeks: int, memory_mb: tuple[float, float], vcores: tuple[float, float]) -> None:
        """Set a slot; memory_mb and vcores: mean and peak."""
        self._cells[_COLUMNS * slot : _COLUMNS * (slot + 1)] = array("f", (weeks, *memory_mb, *vcores))

    def add(self, slot: int, memory_mb: tuple[float, float], vcores: tuple[float, float]) -> None:
        """Add a slot of this week; memory_mb and vcores: mean and peak."""
        weeks, mean_mb, peak_mb, mean_vcores, peak_vcores = self._cells[_COLUMNS * slot : _COLUMNS * (slot + 1)]
        part = 1 / min(weeks + 1, MEMORY_WEEKS)
        self.put(
            slot,
            int(weeks) + 1,
            _follow((mean_mb, peak_mb), memory_mb, part),
            _follow((mean_vcores, peak_vcores), vcores, part),
        )

    def after(self, earlier: Week) -> Week:
        """Return an earlier week with the slots that this one has seen since taken in."""
        for slot in range(SLOTS):
            at = slice(_COLUMNS * slot, _COLUMNS * (slot + 1))
            if self._cells[at.start]:
                _, mean_mb, peak_mb, mean_vcores, peak_vcores = self._cells[at]
                earlier.add(slot, (mean_mb, peak_mb), (mean_vcores, peak_vcores))
        return earlier


def _follow(known: tuple[float, float], seen: tuple[float, float], part: float) -> tuple[float, float]:
    """Return mean and peak with this part of the way to those of a week gone; a peak rises all the way."""
    mean, peak = (k + part * (s - k) for k, s in zip(known, seen, strict=True))
    return mean, max(peak, seen[1])


def weeks_of(rows: Iterable[UseRecord]) -> dict[str, Week]:
    """Return the weeks by node of stored rows; a row out of range is left out."""
    weeks: dict[str, Week] = {}
    for row in rows:
        if 0 <= row.slot < SLOTS and row.count > 0:
            week = weeks.setdefault(row.node_id, Week())
            week.put(row.slot, row.count, (row.mean_mb, row.peak_mb), (row.mean_vcores, row.peak_vcores))
    return weeks


@dataclass(slots=True)
class _Running:
    """One node's present: the slot that runs, summed over the time seen, and the minutes."""

    slot: int
    ends_s: float
    at_s: float
    use: Resources
    seen_s: float = 0.0
    sum_mb: float = 0.0
    sum_vcores: float = 0.0
    peak: Resources = field(default_factory=Resources)
    minutes: deque[tuple[int, Resources]] = field(default_factory=lambda: deque(maxlen=MINUTES))
    """(minute since 1970, its peak), the running one first."""
    shown: tuple[Usual, ...] | None = None


class UsageHistory:
    """A machine: use of nodes in, rows for the store out.

    local: Unix time to the local time, as `time.localtime` does it; a week begins on Monday at 00:00 of it.
    """

    def __init__(self, local: Callable[[float], LocalTime] = utc) -> None:
        self._local = local
        self._weeks: OrderedDict[str, Week] = OrderedDict()
        self._now: dict[str, _Running] = {}
        self._changed: dict[tuple[str, int], None] = {}
        """Node and slot of the rows to store, the oldest first."""

    def restore(self, weeks: dict[str, Week]) -> None:
        """Add the weeks known before the start to those seen since; `weeks` must not be used afterwards."""
        for node_id, week in weeks.items():
            known = self._weeks.get(node_id)
            self._weeks[node_id] = week if known is None else known.after(week)
        self._bound()
        for running in self._now.values():
            running.shown = None

    def forget(self, node_id: str) -> None:
        """Forget the present of a node that is gone; it may come back, and its weeks stay."""
        self._now.pop(node_id, None)

    def observe(self, node_id: str, used_g: Resources, now_s: float) -> None:
        """Learn the use of a node by guaranteed containers from now on."""
        running = self._now.get(node_id)
        if running is None:
            slot, ends_s = self._slot(now_s)
            running = self._now[node_id] = _Running(slot, ends_s, now_s, used_g)
        elif now_s < running.at_s:
            return  # the clock was set back
        if now_s >= running.ends_s:
            self._pass(running, running.ends_s)
            self._end(node_id, running, now_s)
        else:
            self._pass(running, now_s)
        running.at_s, running.use = now_s, used_g
        running.peak = _peak(running.peak, used_g)
        self._minute(running, used_g, int(now_s // 60))

    def recent(self, node_id: str) -> tuple[Resources, ...]:
        """Return the peak of each of the last minutes with any report, the latest first."""
        running = self._now.get(node_id)
        return tuple(use for _, use in running.minutes) if running is not None else ()

    def usual(self, node_id: str) -> tuple[Usual, ...]:
        """Return the slots from now on that were seen in earlier weeks."""
        running, week = self._now.get(node_id), self._weeks.get(node_id)
        if running is None or week is None:
            return ()
        if running.shown is None:
            running.shown = tuple(self._ahead(running, week))
        return running.shown

    def changed(self, limit: int, now_s: float) -> list[UseRecord]:
        """Return slots that were counted, up to `limit`, those that have waited longest first; and forget it."""
        rows = []
        for node_id, slot in list(self._changed)[:limit]:
            del self._changed[node_id, slot]
            week = self._weeks.get(node_id)
            if week is not None:
                weeks, mean, peak = week.of(slot)
                use = mean.memory_mb, peak.memory_mb, mean.vcores, peak.vcores
                rows.append(UseRecord(node_id, slot, weeks, *use, now_s))
        return rows

    def _slot(self, now_s: float) -> tuple[int, float]:
        """Return the slot of a time, and when it ends."""
        at = self._local(now_s)
        into_s = (at.tm_min % 15) * 60 + min(at.tm_sec, 59) + now_s % 1
        return at.tm_wday * 96 + at.tm_hour * 4 + at.tm_min // 15, now_s + SLOT_S - into_s

    def _ahead(self, running: _Running, week: Week) -> Iterable[Usual]:
        for number in range(AHEAD):
            weeks, mean, peak = week.of((running.slot + number) % SLOTS)
            if weeks:
                ends_s = running.ends_s + number * SLOT_S
                yield Usual(ends_s - SLOT_S, ends_s, weeks, mean, peak)

    @staticmethod
    def _pass(running: _Running, now_s: float) -> None:
        """Sum up the time since the last report, but no more than a gap's worth of it."""
        passed_s = now_s - running.at_s
        if passed_s <= 0:
            return
        if passed_s > _GAP_S:
            passed_s = _GAP_S
        running.seen_s += passed_s
        running.sum_mb += passed_s * running.use.memory_mb
        running.sum_vcores += passed_s * running.use.vcores

    def _end(self, node_id: str, running: _Running, now_s: float) -> None:
        """Count the slot that is over, if enough of it was seen, and begin the present one."""
        if running.seen_s >= SEEN_S:
            week = self._weeks.setdefault(node_id, Week())
            self._weeks.move_to_end(node_id)
            week.add(
                running.slot,
                (running.sum_mb / running.seen_s, running.peak.memory_mb),
                (running.sum_vcores / running.seen_s, running.peak.vcores),
            )
            self._changed[node_id, running.slot] = None
            self._bound()
        running.slot, running.ends_s = self._slot(now_s)
        running.seen_s = running.sum_mb = running.sum_vcores = 0.0
        running.peak, running.shown = Resources(), None

    @staticmethod
    def _minute(running: _Running, use: Resources, minute: int) -> None:
        minutes = running.minutes
        if minutes and minutes[0][0] == minute:
            before = minutes[0][1]
            if not use.fits(before):
                minutes[0] = (minute, _peak(before, use))
        else:
            minutes.appendleft((minute, use))

    def _bound(self) -> None:
        while len(self._weeks) > MAX_NODES:
            gone, _ = self._weeks.popitem(last=False)
            for slot in range(SLOTS):
                self._changed.pop((gone, slot), None)


def _peak(first: Resources, second: Resources) -> Resources:
    if second.fits(first):
        return first  # nearly always
    return Resources(max(first.memory_mb, second.memory_mb), max(first.vcores, second.vcores))
