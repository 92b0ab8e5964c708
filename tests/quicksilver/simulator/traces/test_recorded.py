"""Jobs out of a proxy's store: tries of one task are one, what never ended is left out; the record as a system."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lab.tests.papers.checks import wrong
from policies.model import Kind, Resources
from quicksilver.common.messages import ContainerEvent, EventKind
from quicksilver.simulator import systems
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, SimulatedJob
from quicksilver.simulator.systems.recorded import SYSTEM, RecordedSettings
from quicksilver.simulator.traces.formats.recorded import RecordedTask, by_stage, read_recorded
from quicksilver.simulator.traces.formats.registry import format_of, read
from quicksilver.simulator.traces.lines import Mistakes, TraceError
from quicksilver.simulator.traces.source import Source
from quicksilver_lab.workloads.servers.postgres import Postgres
from rm_proxy.domain.records import AppRecord, CompletionRecord, DecisionRecord, GrantRecord
from rm_proxy.store.rows import NodeEvent, Row
from rm_proxy.store.store import Store
from tests.rm_proxy.records import grant_record

ANN = AppRecord("application_1_0001", "root.prod", "ann", "MAPREDUCE", "wordcount", (), 0, 990.0)


def grant(app: int, number: int, asked_s: float, follows: int = 0, kind: Kind = Kind.QUEUEABLE) -> GrantRecord:
    return grant_record(
        f"c_{app}_{number}",
        app_id=f"application_1_{app:04}",
        attempt_id=f"appattempt_1_{app:04}_000001",
        kind=kind,
        resources=Resources(512 * number, 1),
        expected_s=float(number),
        asked_s=asked_s,
        granted_s=asked_s + 0.5,
        follows=f"c_{app}_{follows}" if follows else "",
    )


def event(seq: int, name: str, kind: EventKind, at_s: float, ran_s: float | None = None) -> NodeEvent:
    return NodeEvent("n1:1", "boot", ContainerEvent(seq=seq, container_id=name, kind=kind, at_s=at_s, ran_s=ran_s))


ROWS: tuple[Row, ...] = (
    ANN,
    grant(1, 1, 1000.0),
    grant(1, 2, 1001.0),
    grant(1, 3, 1006.0, follows=2),
    grant(1, 4, 1007.0, follows=3),
    grant(1, 5, 1001.0, kind=Kind.GUARANTEED),
    grant(1, 6, 1001.0),
    event(1, "c_1_1", EventKind.STARTED, 1002.0),
    event(2, "c_1_1", EventKind.ENDED, 1012.0, 10.0),
    event(3, "c_1_2", EventKind.KILLED, 1005.0, 3.0),
    event(4, "c_1_3", EventKind.SHED, 1006.5),
    event(5, "c_1_4", EventKind.ENDED, 1020.0, 8.0),
    event(6, "c_1_5", EventKind.STARTED, 1003.0),
    CompletionRecord("c_1_5", ANN.id, 0, None, "", 1007.0),
    CompletionRecord("c_1_6", ANN.id, -102, -105, "", 1007.0),
    DecisionRecord(
        at_s=1006.0,
        slot="shed",
        policy="mean_sigma",
        chosen="shed",
        reason="long",
        app_id=ANN.id,
        container_id="c_1_3",
        node_id="n1:1",
        weight=3,
        id="d1",
    ),
    DecisionRecord(
        at_s=1006.0,
        slot="shed",
        policy="none",
        chosen="kept",
        reason="",
        app_id=ANN.id,
        container_id="c_1_3",
        node_id="n1:1",
        alternative="other",
        id="d2",
    ),
    grant(2, 1, 1004.0),
    event(7, "c_2_1", EventKind.ENDED, 1010.0, 5.0),
    grant(3, 1, 1003.0),
    event(8, "c_3_1", EventKind.KILLED, 1005.0, 1.0),
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "proxy.db"
    opened = Store(f"sqlite:///{path}")
    opened.open()
    opened.write(ROWS)
    opened.close()
    return path


def test_applications_are_jobs_and_tries_of_a_task_are_one(store: Path) -> None:
    first, second = read_recorded(store)
    assert first.job == SimulatedJob(
        1, 0.0, (10.0, 4.0, 8.0), pytest.approx((1 + 5 + 4) / 3), "wordcount", "ann", "root.prod", 1.0, 3072
    )
    assert [(task.container_id, task.kind, task.tries, task.lost_s) for task in first.tasks] == [
        ("c_1_1", "Q", 1, 0.0),
        ("c_1_5", "G", 1, 0.0),
        ("c_1_4", "Q", 3, 3.0),
    ]
    assert (first.unfinished, first.choices) == (1, {"shed: shed": 3})
    assert (first.outcome.ended_s, first.outcome.wait_s) == (20.0, pytest.approx((2 + 3 + 12) / 3))
    assert (second.job.number, second.job.arrives_s, second.job.durations_s) == (2, 4.0, (5.0,))
    assert (second.job.name, second.job.queue) == ("application_1_0002", "default"), "an application of which no row is"


def test_a_store_is_a_trace(store: Path) -> None:
    assert format_of(store) == "store"
    assert list(read(store)) == [one.job for one in read_recorded(store)]
    assert list(read_recorded(f"sqlite:///{store}")) == list(read_recorded(store))


@pytest.mark.postgres
def test_a_store_in_postgresql_has_the_same_jobs(store: Path) -> None:
    with Postgres() as server:
        opened = Store(server.url)
        opened.open()
        opened.write(ROWS)
        opened.close()
        assert list(read_recorded(server.url)) == list(read_recorded(store))
        assert list(Source(server.url, jobs=1).stream()) == list(read(store))[:1]


def test_reading_changes_nothing(store: Path) -> None:
    before = store.read_bytes()
    assert len(list(read(store))) == 2
    assert store.read_bytes() == before


def test_the_record_is_a_system_of_its_own(store: Path) -> None:
    assert systems.load("recorded") is SYSTEM
    settings, cluster = RecordedSettings(store=str(store)), ClusterModel(nodes=2)
    jobs = list(read(store))
    found = SYSTEM.run(jobs, cluster, settings, 1)
    assert wrong(found, jobs, cluster) == []
    assert [one.ended_s for one in found.jobs] == [20.0, 10.0]
    assert (found.counts["started"], found.counts["queueable"]) == (6, 3)
    assert found.extra == {"lost_s": 3.0, "unfinished": 1.0}
    (only,) = SYSTEM.run(jobs[1:], cluster, settings, 1).jobs
    assert only.number == 2, "jobs may be left out"


@pytest.mark.parametrize("change", ({"durations_s": (1.0,)}, {"arrives_s": 3.0}, {"name": "other"}))
def test_other_jobs_than_the_recorded_ones_are_refused(store: Path, change: dict[str, object]) -> None:
    job = next(read(store))
    other = SimulatedJob(**{name: getattr(job, name) for name in SimulatedJob.__slots__} | change)  # type: ignore[arg-type]
    with pytest.raises(SimulatorError, match="is not in"):
        SYSTEM.run([other], ClusterModel(1), RecordedSettings(store=str(store)), 1)
    with pytest.raises(SimulatorError, match=r"set recorded\.store"):
        SYSTEM.run([job], ClusterModel(1), RecordedSettings(), 1)


def test_clocks_that_do_not_agree_are_told_or_left_out(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE container_events SET at_s = 100 WHERE container_id = 'c_2_1'")
    connection.close()
    with pytest.raises(TraceError, match="c_2_1 began at 95"):
        list(read(store))
    mistakes = Mistakes(skip=True)
    assert len(list(read(store, mistakes=mistakes))) == 1 and mistakes.count == 1


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE x (y)")
    other.close()
    for name in ("missing.db", "empty.db", "other.db"):
        with pytest.raises(TraceError, match="cannot be read") as caught:
            list(read_recorded(tmp_path / name))
        assert str(tmp_path / name) in caught.value.place and "store status" in caught.value.remedy
    with pytest.raises(TraceError, match="'mysql' is not supported"):
        list(read_recorded("mysql://ann:secret@host/db"))
    with pytest.raises(TraceError) as caught:
        list(read_recorded("postgresql://ann:secret@127.0.0.1:1/db"))
    assert "secret" not in str(caught.value)


def test_reduces_of_a_record_wait_for_its_maps_and_other_requests_where_they_did() -> None:
    def task(name: str, priority: int, begun_s: float, ended_s: float) -> RecordedTask:
        return RecordedTask(name, "Q", "n1:1", "", 0.0, begun_s, ended_s, 1.0, 1, 0.0, priority)

    early, map_, late, again = (
        task("r", 10, 2.0, 9.0),
        task("m", 20, 1.0, 4.0),
        task("s", 10, 7.0, 8.0),
        task("f", 5, 3, 6),
    )
    tasks, stages = by_stage([early, map_, late, again], "MAPREDUCE")
    assert stages == (2, 2)
    assert [(one.container_id, one.begun_s, one.runs_s) for one in tasks] == [
        ("m", 1.0, 3.0),
        ("f", 3.0, 3.0),
        ("r", 6.0, 3.0),
        ("s", 7.0, 1.0),
    ]
    assert by_stage([early, map_, late, again], "SPARK") == ([early, map_, late, again], ())
    assert by_stage([late, map_], "SPARK") == ([map_, late], (1, 1))
    assert by_stage([late, early], "MAPREDUCE") == ([late, early], ())
