"""Reports as what changed since the last one: written by a sidecar, made whole again by the proxy.

A container is named by its place in the list of the report before, and what changed of all containers stands in a
column for each field. Times that run by themselves (`CLOCKS`) are sent only where they do something else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from quicksilver.common.messages import ContainerEvent, ContainerReport, Message, Report
from quicksilver.common.reports.frames import FrameError, FrameKind

CLOCKS: Final = ("since_s", "shrunk_ago_s", "starts_in_s")
"""Fields of a container that change with time alone: two of them grow, the last one falls to 0."""
TOLERANCE_S: Final = 0.02
"""How much such a field may be off without being sent."""
DELTA_BYTES: Final = 512 * 1024
"""Bytes of deltas after which a whole report has to come: so what the proxy keeps is bounded, and mended if wrong."""
_FIELDS: Final = tuple(name for name in Report.model_fields if name not in ("containers", "events", "seq"))
"""Fields of a report that are sent as they are when they differ."""
_FIELD_SET: Final = frozenset(_FIELDS)
_ALWAYS: Final = 3
"""How many fields each delta has: base, seq and passed_s."""


class DeltaModel(Message):
    """The fields of each delta; those that a delta may leave out are not set then."""

    base: int
    """`seq` of the report before, on the same connection."""
    seq: int
    passed_s: float = Field(ge=0, le=86_400)
    """The time between the two."""
    forgotten: int = Field(0, ge=0)
    """How many of the first events of the report before are acknowledged."""
    gone: tuple[int, ...] = ()
    """Places of containers that are no more."""
    order: tuple[int, ...] = ()
    """Places of the rest and of the new ones behind it, in their order; where it is not there: as they are."""


def _delta_model() -> type[DeltaModel]:
    """Return the model of deltas.

    Beside those of `DeltaModel` it has `events` and `new` (behind the events and containers so far), `columns` (for
    each field of the containers its values by place in the report before), and the fields of the report that changed.
    """

    def kind(field: FieldInfo) -> Any:
        return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation

    by_place: dict[str, Any] = {
        name: (dict[int, kind(field)], None)  # type: ignore[misc]
        for name, field in ContainerReport.model_fields.items()
        if name != "container_id"
    }
    fields: dict[str, Any] = {name: (kind(Report.model_fields[name]), None) for name in _FIELDS}
    fields["events"] = tuple[ContainerEvent, ...], ()
    fields["new"] = tuple[ContainerReport, ...], ()
    fields["columns"] = create_model("Columns", __base__=Message, **by_place), None
    return create_model("Delta", __base__=DeltaModel, **fields)


Delta: Final = _delta_model()


class DeltaWriter:
    """Writes the reports of one connection: the first one whole, then deltas. `clock_s`: returns a steady time."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._fields: Mapping[str, Any] = {}
        """The fields of the last report."""
        self._containers: list[dict[str, Any]] = []
        """Its containers, as the proxy has them."""
        self._at_s, self._bytes = 0.0, DELTA_BYTES

    def write(self, report: Report) -> tuple[FrameKind, bytes]:
        """Return the next report as a frame's kind and body."""
        now_s = self._clock_s()
        passed_s, self._at_s = round(max(0.0, now_s - self._at_s), 3), now_s
        if self._bytes < DELTA_BYTES:
            body = to_json(self._delta(report, passed_s))
            self._bytes += len(body)
            if self._bytes < DELTA_BYTES:
                self._fields = report.__dict__
                return FrameKind.DELTA, body
        self._bytes = 0
        self._fields = report.__dict__
        self._containers = [container.__dict__.copy() for container in report.containers]
        return FrameKind.REPORT, report.model_dump_json(exclude_defaults=True).encode()

    def _delta(self, report: Report, passed_s: float) -> dict[str, Any]:
        fields, before = report.__dict__, self._fields
        delta = {"base": before["seq"], "seq": report.seq, "passed_s": passed_s}
        for name in _FIELDS:
            if fields[name] != before[name]:
                delta[name] = fields[name]
        delta |= _events(before["events"], report.events)
        return delta | self._changes(report.containers, passed_s)

    def _changes(self, containers: list[ContainerReport], passed_s: float) -> dict[str, Any]:
        known = self._containers
        places = {fields["container_id"]: place for place, fields in enumerate(known)}
        columns: dict[str, dict[int, Any]] = {}
        new, order = list[ContainerReport](), list[int]()
        self._containers = []
        for container in containers:
            fields = container.__dict__.copy()
            place = places.pop(container.container_id, None)
            if place is None:
                order.append(len(known) + len(new))
                new.append(container)
            else:
                order.append(place)
                _compare(fields, known[place], passed_s, place, columns)
            self._containers.append(fields)
        gone = list(places.values())
        changes: dict[str, Any] = {"gone": gone, "new": _brief(new), "columns": columns}
        if gone:
            lower = _lower(len(known) + len(new), gone)
            order = [lower[place] for place in order]
        if order != list(range(len(order))):
            changes["order"] = order
        return {name: value for name, value in changes.items() if value}


def _brief(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return messages without what is as it is by default: that is half of their bytes, or more."""
    return [message.model_dump(exclude_defaults=True) for message in messages]


def _lower(count: int, gone: list[int]) -> list[int]:
    """Return what each of `count` places is once some are taken away."""
    taken, places, at = set(gone), [], 0
    for place in range(count):
        places.append(at)
        at += place not in taken
    return places


def _compare(
    fields: dict[str, Any], before: dict[str, Any], passed_s: float, place: int, columns: dict[str, dict[int, Any]]
) -> None:
    """Enter what differs; where a clock ran on, the fields get what the proxy makes of it."""
    _advance(before, passed_s)
    for name in CLOCKS:
        value, known = fields[name], before[name]
        if value != known and value is not None and known is not None and abs(value - known) <= TOLERANCE_S:
            fields[name] = known
    if fields != before:
        for name, value in fields.items():
            if value != before[name]:
                columns.setdefault(name, {})[place] = value


def _advance(fields: dict[str, Any], passed_s: float) -> None:
    """Let the clocks of a container run; to milliseconds, as reports have them."""
    fields["since_s"] = int((fields["since_s"] + passed_s) * 1000 + 0.5) / 1000  # a quarter of what round() takes
    ago_s, starts_s = fields["shrunk_ago_s"], fields["starts_in_s"]
    if ago_s is not None:
        fields["shrunk_ago_s"] = int((ago_s + passed_s) * 1000 + 0.5) / 1000
    if starts_s is not None:
        fields["starts_in_s"] = int((starts_s - passed_s) * 1000 + 0.5) / 1000 if starts_s > passed_s else 0.0


def _events(before: list[ContainerEvent], now: list[ContainerEvent]) -> dict[str, Any]:
    """Return which of the first events are gone, and which are new behind the others."""
    first = now[0].seq if now else math.inf
    forgotten = next((at for at, event in enumerate(before) if event.seq >= first), len(before))
    shared = len(before) - forgotten
    if [event.seq for event in before[forgotten:]] != [event.seq for event in now[:shared]]:
        forgotten, shared = len(before), 0
    news = {"forgotten": forgotten, "events": _brief(now[shared:])}
    return {name: value for name, value in news.items() if value}


class DeltaReader:
    """Makes the reports of one connection whole again; deltas change the last whole report and its containers in place.

    read_report, read_delta: read a body within bounds, and raise ValidationError.
    """

    def __init__(self, read_report: Callable[[bytes], Report], read_delta: Callable[[bytes], dict[str, Any]]) -> None:
        self._read_report, self._read_delta = read_report, read_delta
        self._report: Report | None = None
        self._bytes = 0

    def read(self, kind: FrameKind, body: bytes) -> Report:
        """Return the report of a frame. Raises FrameError."""
        try:
            if kind is FrameKind.REPORT:
                self._bytes = 0
                self._report = self._read_report(body)
            elif kind is FrameKind.DELTA and self._report is not None:
                self._bytes += len(body)
                if self._bytes >= DELTA_BYTES:
                    raise FrameError(f"more than {DELTA_BYTES} bytes of changes came since the last whole report")
                _apply(self._report, self._read_delta(body))
            else:
                expected = "a report" if self._report is not None else "a whole report"
                raise FrameError(f"a frame of the kind {kind.name} came in place of {expected}")
        except ValidationError as error:
            fault = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(step) for step in fault["loc"])
            raise FrameError(f"{place}: {fault['msg']}") from error
        return self._report


def _apply(report: Report, delta: dict[str, Any]) -> None:
    """Change a report. Raises FrameError before anything is changed."""
    if delta["base"] != report.seq:
        raise FrameError(f"a change of report {delta['base']} came after report {report.seq}")
    now, known = report.__dict__, report.containers  # the values are checked
    if len(delta) == _ALWAYS:  # nothing changed but the time
        now["seq"], passed_s = delta["seq"], delta["passed_s"]
        for container in known:
            _advance(container.__dict__, passed_s)
        return
    columns, gone, forgotten = delta.get("columns", {}), delta.get("gone", ()), delta.get("forgotten", 0)
    for places in (gone, *columns.values()):
        _check_places(places, len(known))
    if forgotten > len(report.events):
        raise FrameError(f"{forgotten} of {len(report.events)} events are forgotten")
    new, order = delta.get("new", ()), delta.get("order")
    if gone or new or order is not None:
        now["containers"] = _listed(known, set(gone), new, order)
    if forgotten or "events" in delta:
        now["events"] = [*report.events[forgotten:], *delta.get("events", ())]
    for name in delta.keys() & _FIELD_SET:
        now[name] = delta[name]
    now["seq"] = delta["seq"]
    passed_s = delta["passed_s"]
    for container in known:
        _advance(container.__dict__, passed_s)
    for name, values in columns.items():
        for place, value in values.items():
            known[place].__dict__[name] = value


def _listed(
    known: list[ContainerReport], gone: set[int], new: Sequence[ContainerReport], order: Sequence[int] | None
) -> list[ContainerReport]:
    """Return the containers after a delta. Raises FrameError."""
    containers = [container for place, container in enumerate(known) if place not in gone]
    containers += new
    if order is None:
        return containers
    if sorted(order) != list(range(len(containers))):
        raise FrameError(f"the order is none of {len(containers)} containers")
    return [containers[place] for place in order]


def _check_places(places: Iterable[int], count: int) -> None:
    for place in places:
        if not 0 <= place < count:
            raise FrameError(f"place {place} is none of {count} containers")
