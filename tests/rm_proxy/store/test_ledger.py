"""The ledger: what the store's rows add up to, and how it is exported."""

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import text

from policies.model import Kind
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.domain.records import AppRecord, CompletionRecord, DecisionRecord, GrantRecord
from rm_proxy.store.ledger import By, Ledger, Scope, csv_header, csv_lines
from rm_proxy.store.rows import NodeEvent, Row
from rm_proxy.store.store import Store
from rm_proxy.store.writer import StoreUnavailableError
from rm_proxy.views.history_models import LedgerRow
from tests.rm_proxy.records import grant_record

DAY_S = 86400.0
START_S = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
ONE = AppRecord("application_1_0001", "root.a", "ann", "MAPREDUCE", "sort", (), 0, START_S)
TWO = replace(ONE, id="application_1_0002", queue="root.b", user="bob", name="=cmd()")


def grant(number: int, app: AppRecord = ONE, kind: Kind = Kind.QUEUEABLE, at_s: float = START_S) -> GrantRecord:
    return grant_record(f"container_{number}", app_id=app.id, kind=kind, asked_s=at_s, granted_s=at_s)


def happened(seq: int, number: int, kind: EventKind, at_s: float = START_S, **more: Any) -> NodeEvent:
    event = ContainerEvent(seq=seq, container_id=f"container_{number}", kind=kind, at_s=at_s, **more)
    return NodeEvent("n1:1", "boot", event)


def promoted(number: int, app: AppRecord = ONE, at_s: float = START_S, chosen: str = "promoted") -> DecisionRecord:
    return DecisionRecord(
        at_s=at_s,
        slot="promote",
        policy="on_start",
        chosen=chosen,
        reason="",
        app_id=app.id,
        container_id=f"container_{number}",
        node_id="n1:1",
        id=f"d{number}{chosen}",
    )


def end(number: int, status: int, original: int | None = None, own: bool = False) -> CompletionRecord:
    return CompletionRecord(f"container_{number}", ONE.id, status, original, "", START_S, own)


def of(store: Store, by: By, **scope: Any) -> dict[str, LedgerRow]:
    return {row.key: row for row in Ledger(store).rows(Scope(by, **scope), limit=1000)}


EXAMPLE: list[Row] = [
    ONE,
    TWO,
    *(grant(n) for n in range(1, 8)),
    grant(8, kind=Kind.GUARANTEED),
    grant(9, TWO),
    happened(1, 1, EventKind.HELD),
    happened(2, 1, EventKind.STARTED, waited_s=4.0),
    happened(3, 1, EventKind.ENDED, ran_s=20.0, attained_s=9.0, times_shrunk=2, saved_s=7.5),
    happened(4, 2, EventKind.STARTED, waited_s=1.0),
    happened(5, 2, EventKind.KILLED, ran_s=6.0, times_shrunk=1, cause="room"),  # nobody measured: 6 s of wall time
    end(2, -102, -105),
    happened(6, 3, EventKind.KILLED, ran_s=6.0, attained_s=2.5, cause="memory"),
    happened(7, 4, EventKind.ENDED, ran_s=3.0, times_shrunk=1, saved_s=1.0),  # the NodeManager killed it: -108
    end(4, -102, -108),
    happened(8, 5, EventKind.SHED, cause="hold"),
    end(5, -102, own=True),
    happened(9, 6, EventKind.SHED, cause="steal"),
    happened(10, 7, EventKind.SHED, cause="correct"),
    happened(11, 8, EventKind.STARTED),
    happened(12, 8, EventKind.ENDED, ran_s=5.0),  # the ResourceManager preempted a guaranteed one
    end(8, -102),
    happened(13, 9, EventKind.STARTED, waited_s=2.0),
    happened(14, 9, EventKind.ENDED, ran_s=8.0),
    end(9, 0),
    happened(15, 99, EventKind.KILLED, ran_s=100.0),  # of nobody that was delivered through quicksilver
    promoted(1),
    promoted(1, chosen="asked"),
    promoted(9, TWO),
]
SUMS_ONE = {
    "containers_g": 1,
    "containers_q": 7,
    "started_q": 2,
    "queueing_s": 5.0,
    "work_s": 9.0,
    "kills": 4,
    "lost_s": 6.0 + 2.5 + 3.0 + 5.0,
    "shrinks": 4,
    "saved_s": 7.5,
    "sheds": 1,
    "moves": 2,
    "promotions": 1,
    "lost_ratio": round(16.5 / 25.5, 4),
}


def test_what_a_job_lost_saved_and_waited(store: Store) -> None:
    store.write(EXAMPLE)
    rows = of(store, "app")
    assert list(rows) == [TWO.id, ONE.id], "the newest first"
    one, two = rows[ONE.id], rows[TWO.id]
    assert (one.name, one.queue, one.user) == ("sort", "root.a", "ann")
    assert one.model_dump(include=set(SUMS_ONE)) == SUMS_ONE
    assert (two.name, two.work_s, two.lost_s, two.queueing_s, two.promotions) == ("=cmd()", 8.0, 0.0, 2.0, 1)
    assert (two.lost_ratio, LedgerRow(key="nothing ran").lost_ratio) == (0.0, None)


@pytest.mark.parametrize(("by", "keys"), [("queue", ["root.a", "root.b"]), ("user", ["ann", "bob"])])
def test_queues_and_users(store: Store, by: By, keys: list[str]) -> None:
    store.write(EXAMPLE)
    rows = of(store, by)
    assert list(rows) == keys
    assert rows[keys[0]].model_dump(include=set(SUMS_ONE)) == SUMS_ONE and rows[keys[0]].name == ""
    assert rows[keys[1]].work_s == 8.0


def test_an_application_that_is_not_known_any_more_counts_under_no_name(store: Store) -> None:
    store.write([grant(1), happened(1, 1, EventKind.KILLED, ran_s=3.0)])
    assert {key: row.lost_s for key, row in of(store, "queue").items()} == {"": 3.0}
    assert of(store, "app")[ONE.id].user == ""


def test_days_begin_at_midnight_of_the_zone(store: Store) -> None:
    late_s, early_s = START_S + DAY_S - 1, START_S + DAY_S
    store.write([ONE, grant(1, at_s=late_s), grant(2, at_s=early_s)])
    store.write(
        [happened(1, 1, EventKind.KILLED, late_s, ran_s=1.0), happened(2, 2, EventKind.KILLED, early_s, ran_s=2.0)]
    )
    assert {key: row.lost_s for key, row in of(store, "day").items()} == {"2026-11-21": 2.0, "2026-11-20": 1.0}
    assert {key: row.lost_s for key, row in of(store, "day", zone_min=60).items()} == {"2026-11-21": 3.0}
    assert {key: row.lost_s for key, row in of(store, "day", zone_min=-60).items()} == {"2026-11-20": 3.0}


def test_only_what_happened_within_the_time(store: Store) -> None:
    store.write(
        [ONE, grant(1), happened(1, 1, EventKind.KILLED, START_S + 50, ran_s=1.0), promoted(1, at_s=START_S + 60)]
    )
    whole = of(store, "user", since_s=START_S, until_s=START_S + 61)["ann"]
    assert (whole.containers_q, whole.lost_s, whole.promotions) == (1, 1.0, 1)
    later = of(store, "user", since_s=START_S + 1, until_s=START_S + 60)["ann"]
    assert (later.containers_q, later.lost_s, later.promotions) == (0, 1.0, 0), "the end is exclusive"
    assert of(store, "user", since_s=START_S + 61) == {}


@pytest.mark.parametrize("by", ["app", "queue", "user", "day"])
def test_pages_are_the_whole_in_order(store: Store, by: By) -> None:
    rng = Random(5)
    for number in range(40):
        app = replace(ONE, id=f"application_1_{number:04}", queue=f"root.q{number}", user=f"user {number}")
        at_s = START_S + number * DAY_S + rng.random() * 1000
        store.write([app, grant(number, app, at_s=at_s)])
    ledger = Ledger(store)
    whole = ledger.rows(Scope(by), limit=1000)
    assert len(whole) == 40
    assert [row for page in ledger.pages(Scope(by), size=7) for row in page] == whole
    assert [row for page in ledger.pages(Scope(by), size=8) for row in page] == whole
    assert ledger.rows(Scope(by), limit=5, offset=10) == whole[10:15]
    assert [len(page) for page in ledger.pages(Scope(by, since_s=START_S * 2))] == [0]


def test_it_adds_up_like_a_loop_over_the_rows(store: Store) -> None:
    rng, apps = Random(9), [replace(ONE, id=f"application_1_{n:04}", user=f"u{n % 3}") for n in range(6)]
    rows: list[Row] = list(apps)
    lost: dict[str, float] = {}
    waited: dict[str, float] = {}
    for number in range(300):
        app, kind = rng.choice(apps), rng.choice(list(Kind))
        rows.append(grant(number, app, kind))
        wait_s, ran_s, last = rng.random(), 10 * rng.random(), rng.choice([EventKind.KILLED, EventKind.ENDED])
        rows.append(happened(2 * number, number, EventKind.STARTED, waited_s=wait_s))
        rows.append(happened(2 * number + 1, number, last, ran_s=ran_s))
        status = rng.choice([0, 1, -102, -108, -100])
        rows.append(end(number, status))
        if kind is Kind.QUEUEABLE:
            waited[app.user] = waited.get(app.user, 0.0) + wait_s
        if last is EventKind.KILLED or status in (-102, -108):
            lost[app.user] = lost.get(app.user, 0.0) + ran_s
    store.write(rows)
    found = of(store, "user")
    assert {key: row.lost_s for key, row in found.items()} == pytest.approx(lost, abs=1e-3)
    assert {key: row.queueing_s for key, row in found.items()} == pytest.approx(waited, abs=1e-3)


def test_a_store_that_is_out_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    store = Store(f"sqlite:///{tmp_path / 'empty.db'}")
    with pytest.raises(StoreUnavailableError, match="no such table"):
        Ledger(store).rows(Scope("app"), limit=1)
    store.close()


def test_rows_of_a_time_are_found_by_index(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'p.db'}")
    store.open()
    statement = Ledger(store)._statement(Scope("app", since_s=5.0), None)
    asked = statement.compile(store.engine, compile_kwargs={"literal_binds": True})
    with store.engine.connect() as connection:
        plan = "\n".join(str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked}"))
    assert "SEARCH container_events USING INDEX ix_container_events_at_s" in plan, plan
    assert "SEARCH grants USING INDEX sqlite_autoindex_grants_1" in plan, plan
    store.close()


# CSV


def parsed(rows: list[LedgerRow], by: By) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_header(by) + csv_lines(rows, by), newline="")))


def test_csv_has_a_header_and_what_names_the_rows() -> None:
    row = LedgerRow(key=ONE.id, name='a "big", job', queue="root.a", user="ann", lost_s=1.5, kills=2)
    header, line = parsed([row], "app")
    assert header[:5] == ["app", "name", "queue", "user", "containers_g"]
    assert line[:4] == [ONE.id, 'a "big", job', "root.a", "ann"]
    by_name = dict(zip(header, line, strict=True))
    assert (by_name["lost_s"], by_name["kills"], by_name["saved_s"]) == ("1.5", "2", "0.0")
    assert parsed([LedgerRow(key="2026-11-20")], "day")[0][:2] == ["day", "containers_g"]
    assert csv_lines([row], "app").endswith("\r\n")


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", '=HYPERLINK("http://x";"y")']
)
def test_no_name_becomes_a_formula(name: str) -> None:
    for row in (LedgerRow(key="a", name=name), LedgerRow(key=name), LedgerRow(key="a", user=name)):
        line = parsed([row], "app")[1]
        assert f"'{name}" in line and name not in line


def test_numbers_and_plain_names_stay_as_they_are() -> None:
    line = parsed([LedgerRow(key="a", name="sort-1=2", lost_s=1e15)], "app")[1]
    assert line[1] == "sort-1=2" and "1000000000000000.0" in line


def test_a_ledger_changes_nothing(store: Store) -> None:
    store.write(EXAMPLE)
    before = of(store, "app")
    with store.engine.connect() as connection:
        count = connection.execute(text("SELECT count(*) FROM container_events")).scalar_one()
    assert of(store, "app") == before and count == 15
