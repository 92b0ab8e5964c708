"""Deltas: what the proxy has after each is the report, whatever changed; times that run may be a little off."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.common.messages import ContainerEvent, ContainerReport, ContainerState, EventKind, Report, WaitBySize
from quicksilver.common.reports.deltas import CLOCKS, DELTA_BYTES, TOLERANCE_S, DeltaReader, DeltaWriter
from quicksilver.common.reports.frames import FrameError, FrameKind
from rm_proxy.api.received_report import MAX_NUMBER, read_delta, read_report

STEPS = ("time", "new", "gone", "state", "measure", "order", "event", "ack", "drain", "waits", "queue")


class Side:
    """A node that changes step by step, its writer, and the proxy's reader."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = Random(seed)
        self.now_s = 100.0
        self.writer = DeltaWriter(lambda: self.now_s)
        self.reader = DeltaReader(read_report, read_delta)
        self.fields: dict[str, Any] = {"queue_length": 0}
        self.since: dict[str, float] = {}
        self.containers: dict[str, dict[str, Any]] = {}
        self.events: list[ContainerEvent] = []
        self.seq = self.event_seq = 0

    def step(self, kind: str) -> None:
        """Let something happen."""
        rng, known = self.rng, list(self.containers)
        if kind == "time":
            self.now_s += rng.choice((0.0, 0.02, 1.0, 2.0, 40.0))
        elif kind == "new":
            name = f"c{len(self.since)}"
            self.since[name] = self.now_s
            self.containers[name] = {"state": ContainerState.WAITING, "starts_in_s": 3.0, "why": "no room"}
        elif kind == "event":
            self.event_seq += 1
            self.events.append(
                ContainerEvent(seq=self.event_seq, container_id="c0", kind=EventKind.ENDED, at_s=self.now_s)
            )
        elif kind == "ack":
            del self.events[: rng.randint(0, len(self.events))]
        elif kind == "drain":
            self.fields["draining"] = not self.fields.get("draining", False)
        elif kind == "waits":
            self.fields["waits"] = [WaitBySize(memory_mb=1, vcores=1, wait_s=rng.random())]
        elif kind == "queue":
            self.fields["queue_length"] = rng.randint(0, 9)
        elif known:
            self._container(kind, rng.choice(known))

    def _container(self, kind: str, name: str) -> None:
        if kind == "gone":
            del self.containers[name]
        elif kind == "state":
            self.since[name] = self.now_s
            self.containers[name] = {"state": ContainerState.RUNNING, "attained_s": 0.0, "shrunk_ago_s": 0.5}
        elif kind == "measure":
            self.containers[name]["attained_s"] = self.rng.random()
        else:
            self.containers[name] = self.containers.pop(name)

    def report(self) -> Report:
        """Return the report of now."""
        self.seq += 1
        containers = [
            ContainerReport(
                container_id=name, app_id="a", kind="Q", memory_mb=1, vcores=1, since_s=self.now_s - since, **fields
            )
            for name, fields in self.containers.items()
            if (since := self.since[name]) is not None
        ]
        return Report(
            node_id="n:1",
            boot="b",
            seq=self.seq,
            sidecar_url="http://n:2",
            memory_mb=1,
            vcores=1,
            containers=containers,
            events=list(self.events),
            **self.fields,
        )

    def send(self) -> tuple[FrameKind, dict[str, Any]]:
        """Send a report; check what the proxy makes of it. Returns what was sent."""
        report = self.report()
        kind, body = self.writer.write(report)
        assert _steady(self.reader.read(kind, body)) == _steady(report)
        return kind, json.loads(body)


def _steady(report: Report) -> dict[str, Any]:
    """Return the fields, those that run with time in steps of twice the tolerance or none."""
    fields = report.model_dump()
    for container in fields["containers"]:
        for name in CLOCKS:
            container[name] = None if container[name] is None else Near(container[name])
    return fields


class Near(float):
    """A time that equals those within the tolerance."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Near) and abs(self - other) <= TOLERANCE_S + 1e-3

    __hash__ = float.__hash__


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.lists(st.sampled_from(STEPS), max_size=6), min_size=1, max_size=12))
def test_the_proxy_has_each_report_as_it_was(seed: int, rounds: list[list[str]]) -> None:
    side = Side(seed)
    for number, steps in enumerate(rounds):
        for step in steps:
            side.step(step)
        kind, _ = side.send()
        assert kind is (FrameKind.DELTA if number else FrameKind.REPORT)


def test_what_only_runs_on_is_not_sent() -> None:
    side = Side()
    for step in ("new", "new", "state", "event"):
        side.step(step)
    side.send()
    side.now_s += 2
    for container in side.containers.values():
        for name, direction in (("starts_in_s", -2), ("shrunk_ago_s", 2)):
            if name in container:
                container[name] += direction
    kind, sent = side.send()
    assert (kind, sent) == (FrameKind.DELTA, {"base": 1, "seq": 2, "passed_s": 2.0})


def test_one_change_is_one_entry_of_a_column() -> None:
    side = Side()
    for _ in range(3):
        side.step("new")
    side.send()
    side.containers["c1"]["why"] = "memory"
    side.containers["c1"]["starts_in_s"] = 9.0
    _, sent = side.send()
    assert sent["columns"] == {"why": {"1": "memory"}, "starts_in_s": {"1": 9.0}}
    assert "new" not in sent and "order" not in sent


def test_errors_in_time_do_not_add_up() -> None:
    side = Side()
    side.step("new")
    for _ in range(500):
        side.now_s += 0.0104  # each is rounded to milliseconds
        side.send()


def test_after_so_many_bytes_a_whole_report_comes() -> None:
    side = Side()
    side.step("new")
    kinds = []
    for number in range(12):
        side.containers["c0"]["why"] = str(number) * (DELTA_BYTES // 5)
        kinds.append(side.send()[0])
    places = [place for place, kind in enumerate(kinds) if kind is FrameKind.REPORT]
    assert places == [0, 5, 10]


HEAD = {"base": 1, "seq": 2, "passed_s": 0}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"base": 0}, "a change of report 0 came after report 1"),
        ({"base": None}, "base"),
        ({"seq": 10 * MAX_NUMBER}, "seq"),
        ({"passed_s": -1}, "passed_s"),
        ({"passed_s": 1e9}, "passed_s"),
        ({"gone": [2]}, "place 2 is none of 2 containers"),
        ({"gone": [-1]}, "place -1 is none"),
        ({"order": [0]}, "the order is none of 2 containers"),
        ({"order": [0, 0]}, "the order is none of 2 containers"),
        ({"order": [0, 10**20]}, "the order is none of 2 containers"),
        ({"gone": [0], "order": [0, 1]}, "the order is none of 1 containers"),
        ({"forgotten": 1}, "1 of 0 events are forgotten"),
        ({"forgotten": -1}, "forgotten"),
        ({"columns": {"why": {"7": "x"}}}, "place 7 is none"),
        ({"columns": {"why": {"-1": "x"}}}, "place -1 is none"),
        ({"columns": {"why": {"first": "x"}}}, "columns.why.first"),
        ({"columns": {"since_s": {"0": 10 * MAX_NUMBER}}}, "columns.since_s.0"),
        ({"columns": {"attained_s": {"0": "NaN"}}}, "columns.attained_s.0"),
        ({"columns": {"state": {"0": "gone"}}}, "columns.state.0"),
        ({"columns": 1}, "columns"),
        ({"new": [{}]}, "new.0"),
        ({"vcores": 1e300}, "vcores"),
        ({"vcores": None}, "vcores"),
        ({"waits": [{"memory_mb": 1, "vcores": 1, "wait_s": 1}] * 65}, "waits"),
        ({"events": [{"seq": 1}]}, "events.0"),
    ],
)
def test_what_fits_nothing_is_refused_and_changes_nothing(more: dict[str, Any], why: str) -> None:
    side = Side()
    side.step("new")
    side.step("new")
    side.send()
    before = side.reader.read(FrameKind.DELTA, json.dumps(HEAD | {"seq": 1}).encode()).model_dump()
    with pytest.raises(FrameError, match=why):
        side.reader.read(FrameKind.DELTA, json.dumps(HEAD | more).encode())
    assert side.reader.read(FrameKind.DELTA, json.dumps(HEAD | {"seq": 1}).encode()).model_dump() == before


def test_keys_of_a_newer_version_are_ignored() -> None:
    side = Side()
    side.step("new")
    side.send()
    more = {"later": 1, "columns": {"later": {"0": 1}, "why": {"0": "x"}}}
    report = side.reader.read(FrameKind.DELTA, json.dumps(HEAD | more).encode())
    assert report.containers[0].why == "x"


@pytest.mark.parametrize("kind", [FrameKind.DELTA, FrameKind.ACK, FrameKind.NOTICE])
def test_the_first_frame_is_a_whole_report(kind: FrameKind) -> None:
    with pytest.raises(FrameError, match="in place of a whole report"):
        DeltaReader(read_report, read_delta).read(kind, json.dumps(HEAD).encode())


def test_more_changes_than_allowed_are_refused() -> None:
    side = Side()
    side.step("new")
    side.send()
    with pytest.raises(FrameError, match="bytes of changes"):
        side.reader.read(FrameKind.DELTA, b" " * DELTA_BYTES)
