import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, event, inspect, text

from policies.model import Kind, Resources
from quicksilver.common.errors import SettingsError
from quicksilver.common.messages import ContainerEvent, EventKind
from quicksilver_lab.workloads.servers.postgres import Postgres
from rm_proxy.domain.records import AppRecord, CompletionRecord, GrantRecord
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.store.queries import DecisionFilter, History
from rm_proxy.store.rows import NodeEvent, NodeSeen
from rm_proxy.store.store import Store
from rm_proxy.store.tables import Base
from rm_proxy.store.writer import BadRowError, StoreUnavailableError, Writer
from rm_proxy.views.delays import OpenWaits, delays
from tests.rm_proxy.databases import fresh
from tests.rm_proxy.records import grant_record

APP = AppRecord("application_1_0001", "root.prod", "ann", "MAPREDUCE", "wordcount", ("a", "b"), 2, 1000.0)


def grant(number: int, kind: Kind = Kind.QUEUEABLE, *, node: str = "n1:1", delay_s: float = 0.01) -> GrantRecord:
    return grant_record(
        f"container_1_0001_01_{number:06}",
        kind=kind,
        node_id=node,
        wanted_node=node if kind is Kind.QUEUEABLE else None,
        scores=(("n1:1", 1.5), ("n2:1", float("inf"))),
        asked_s=2000.0 + number,
        granted_s=2000.0 + number + delay_s,
    )


def happened(seq: int, number: int, kind: EventKind = EventKind.STARTED, **more: float) -> NodeEvent:
    container = f"container_1_0001_01_{number:06}"
    return NodeEvent(
        "n1:1", "boot", ContainerEvent(seq=seq, container_id=container, kind=kind, at_s=2000.0 + seq, **more)
    )


def test_the_migrations_make_the_tables_of_the_models(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        assert set(inspect(connection).get_table_names()) == {*Base.metadata.tables, "alembic_version"}
    store.open()


def test_a_store_of_the_first_version_keeps_its_events(store: Store) -> None:
    with store.engine.begin() as connection:
        for table in ("decisions", "changes", "node_use", "durations"):
            connection.execute(text(f"DROP TABLE {table}"))
        for column in ("attained_s", "times_shrunk", "cause", "saved_s"):
            connection.execute(text(f"ALTER TABLE container_events DROP COLUMN {column}"))
        connection.execute(text("DROP INDEX ix_grants_follows"))
        for column in ("retries", "follows", "version", "place_version", "spread_s", "expected_by"):
            connection.execute(text(f"ALTER TABLE grants DROP COLUMN {column}"))
        connection.execute(text("ALTER TABLE applications DROP COLUMN final_status"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        connection.execute(
            text("INSERT INTO container_events VALUES ('n1:1', 'old', 1, 'container_1', 'ended', 5, '', 0, 3)")
        )
    store.open()
    (known,) = History(store).explanation("container_1").events
    assert (known.ran_s, known.attained_s, known.times_shrunk) == (3.0, None, 0)


def test_ends_keep_what_was_attained(store: Store) -> None:
    store.write([happened(1, 1, EventKind.ENDED, ran_s=9.0, attained_s=2.5, times_shrunk=3)])
    (known,) = History(store).explanation(grant(1).container_id).events
    assert (known.ran_s, known.attained_s, known.times_shrunk) == (9.0, 2.5, 3)


def test_each_row_of_a_batch_goes_in_once_whatever_their_number(store: Store) -> None:
    sizes, number = (1, 2, 31, 33, 70), 0
    for size in sizes:
        batch = [row for n in range(number, number + size) for row in (grant(n), happened(n, n))]
        number += size
        store.write(batch)
        store.write(batch[-3:])
    store.write([replace(APP, name="old"), APP])
    with store.engine.connect() as connection:
        for table in ("grants", "container_events"):
            key = "container_id" if table == "grants" else "seq"
            rows = connection.execute(text(f"SELECT count(*), count(DISTINCT {key}) FROM {table}")).one()
            assert tuple(rows) == (number, number), table
        assert connection.scalar(text("SELECT name FROM applications")) == APP.name


def test_one_row_that_does_not_go_in_keeps_its_batch_out(store: Store) -> None:
    with pytest.raises(BadRowError):
        store.write([grant(1), replace(grant(2), priority=1 << 70), grant(3)])
    with store.engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM grants")) == 0


def test_what_was_written_is_told_again(store: Store) -> None:
    granted = grant(1)
    end = CompletionRecord(granted.container_id, APP.id, -102, -100, "gone", 2010.0, own=True)
    held = happened(1, 1, EventKind.HELD)
    started = happened(2, 1, waited_s=1.5)
    store.write([APP, granted, held, started, end, NodeSeen("n1:1", "n1", "/r", "", Resources(4096, 4), 5.0)])
    known = History(store).explanation(granted.container_id)
    assert known.decision is not None and known.application is not None and known.completion is not None
    decision = known.decision
    assert (decision.kind, decision.node_id, decision.resources) == ("Q", "n1:1", Resources(512, 1))
    assert [(s.node, s.score) for s in decision.scores] == [("n1:1", 1.5), ("n2:1", None)]
    assert decision.delay_s == pytest.approx(0.01) and decision.shadow is None
    assert (known.application.name, known.application.tags) == ("wordcount", ["a", "b"])
    assert [(e.kind, e.waited_s) for e in known.events] == [("held", 0.0), ("started", 1.5)]
    assert (known.completion.exit_status, known.completion.original_exit_status, known.completion.own) == (
        -102,
        -100,
        True,
    )
    assert History(store).explanation("container_9").model_dump(exclude={"container_id", "story", "events"}) == {
        "choices": [],
        "followed_by": [],
        "decision": None,
        "application": None,
        "live": None,
        "completion": None,
    }


def test_writing_again_changes_nothing_but_applications_and_nodes(store: Store) -> None:
    rows = [APP, grant(1), happened(1, 1), CompletionRecord(grant(1).container_id, APP.id, 0, None, "", 1.0)]
    store.write(rows)
    later = replace(APP, finished_s=3000.0, name="renamed")
    store.write([*rows, replace(grant(1), route_reason="changed"), happened(1, 1, EventKind.ENDED), APP, later])
    history = History(store)
    known = history.explanation(grant(1).container_id)
    assert known.decision is not None and known.decision.route_reason == "rule 1"
    assert [e.kind for e in known.events] == ["started"]
    app = history.application(APP.id)
    assert app is not None and (app.finished_s, app.name) == (3000.0, "renamed")
    assert history.application("application_1_0002") is None


def test_nodes_keep_when_they_were_seen_first(store: Store) -> None:
    for at_s in (5.0, 9.0):
        store.write([NodeSeen("n1:1", "n1", "/r", "", Resources(4096, 4), at_s)])
    with store.engine.connect() as connection:
        seen = connection.execute(text("SELECT first_seen_s, last_seen_s FROM nodes")).one()
    assert tuple(seen) == (5.0, 9.0)


def test_decisions_newest_first_by_pages_and_filters(store: Store) -> None:
    other = replace(grant(7), app_id="application_1_0002")
    store.write([*(grant(number) for number in range(5)), other])
    history = History(store)
    page = history.decisions(limit=2)
    assert [d.container_id[-1] for d in page.items] == ["7", "4"] and page.more
    page = history.decisions(DecisionFilter(APP.id), limit=3, offset=2)
    assert [d.container_id[-1] for d in page.items] == ["2", "1", "0"] and not page.more
    assert [d.app_id for d in history.decisions(DecisionFilter("application_1_0002"), limit=9).items] == [
        "application_1_0002"
    ]
    assert len(history.decisions(DecisionFilter(container_id=other.container_id), limit=9).items) == 1


def test_summary_counts_and_nearest_rank_percentiles(store: Store) -> None:
    store.write([grant(n, delay_s=n / 1000) for n in range(1, 101)])
    store.write([grant(n, Kind.GUARANTEED, node="n2:1", delay_s=1.0) for n in range(101, 104)])
    store.write([happened(n, n, waited_s=float(n)) for n in (1, 2, 3, 101)])
    store.write([happened(9, 1, EventKind.ENDED, ran_s=4.0)])
    whole = History(store).summary()
    assert (whole.guaranteed, whole.queueable) == (3, 100)
    assert [(n.node_id, n.guaranteed, n.queueable) for n in whole.nodes] == [("n1:1", 0, 100), ("n2:1", 3, 0)]
    q = whole.allocation_q
    assert q.count == 100 and (q.p50_s, q.p95_s, q.max_s) == pytest.approx((0.05, 0.095, 0.1), abs=1e-6)
    assert (whole.allocation_g.count, whole.allocation_g.p50_s) == (3, 1.0)
    assert (whole.queueing.count, whole.queueing.p50_s, whole.queueing.p95_s) == (3, 2.0, 3.0)
    assert whole.events == {"ended": 1, "started": 4}
    assert History(store).summary(app_id=APP.id).events == {"ended": 1, "started": 4}
    nothing = History(store).summary(since_s=1e9, app_id=APP.id)
    assert (nothing.queueable, nothing.nodes, nothing.allocation_q.p95_s, nothing.events) == (0, [], None, {})


@pytest.mark.parametrize("seed", range(20))
def test_percentiles_count_waits_that_are_not_over(store: Store, seed: int) -> None:
    rng = Random(seed)
    over = [rng.choice([0.5, 1.0, 2.0, 40.0]) for _ in range(rng.randrange(8))]
    waits = [(rng.choice([0.5, 1.0, 62.0]), rng.randrange(1, 5)) for _ in range(rng.randrange(5))]
    store.write([grant(n, delay_s=delay_s) for n, delay_s in enumerate(over, 1)])
    found = History(store).summary(waiting=OpenWaits(q=waits)).allocation_q
    everything = sorted(over + [wait_s for wait_s, times in waits for _ in range(times)])
    assert (found.count, found.waiting) == (len(everything), len(everything) - len(over))
    if everything:
        ranks = [everything[max(1, -(-len(everything) * percent // 100)) - 1] for percent in (50, 95, 100)]
        assert [found.p50_s, found.p95_s, found.max_s] == pytest.approx(ranks, abs=1e-6)
    assert found.model_dump() == pytest.approx(delays(over, waits).model_dump(), abs=1e-6)


def test_pruning_deletes_what_is_old_and_keeps_live_applications(store: Store) -> None:
    ended = replace(APP, id="application_1_0002", finished_s=2000.0)
    store.write([APP, ended, *(grant(n) for n in range(3)), happened(1, 1), happened(9, 1)])
    assert store.prune(2001.5) == 2 + 1 + 1  # two grants, one event, the application that ended
    history = History(store)
    assert [d.container_id[-1] for d in history.decisions(limit=9).items] == ["2"]
    assert history.application(APP.id) is not None and history.application(ended.id) is None
    assert store.prune(2001.5) == 0


def test_awkward_text_and_numbers(store: Store) -> None:
    odd = replace(grant(1), route_reason="nul\0 lone\ud800 " + "x" * 20_000, scores=(("n", float("nan")),))
    store.write([odd])
    (decision,) = History(store).decisions(limit=1).items
    assert decision.route_reason.startswith("nul lone? x") and len(decision.route_reason) <= 10_000
    assert decision.scores[0].score is None


def test_a_row_that_does_not_fit_is_told_apart_from_an_outage(store: Store) -> None:
    with pytest.raises(BadRowError):
        store.write([grant(1), replace(grant(2), priority=2**70)])
    assert History(store).decisions(limit=9).items == []


def test_the_recorder_writes_the_good_rows_of_a_bad_batch(store: Store) -> None:
    metrics = ProxyMetrics()
    writer = Writer(store, metrics, now=lambda: 2000.0)
    writer.start()
    for row in (grant(1), replace(grant(2), priority=2**70), grant(3)):
        writer.grant(row)
    assert writer.flush()
    writer.close()
    assert {d.container_id[-1] for d in History(store).decisions(limit=9).items} == {"1", "3"}
    assert metrics.registry.get_sample_value("quicksilver_proxy_store_dropped_total", {"reason": "refused"}) == 1
    assert metrics.registry.get_sample_value("quicksilver_proxy_store_rows_total", {"table": "grants"}) == 2


def test_tables_of_a_newer_version_are_not_touched(store: Store) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(
        StoreUnavailableError, match=r"of version 9999, this program knows \d+; run the newer quicksilver"
    ):
        store.open()


@pytest.mark.postgres
def test_an_outage_of_postgresql_loses_nothing(postgres: Postgres) -> None:
    store = Store(fresh(postgres, "outage"))
    metrics = ProxyMetrics()
    writer = Writer(store, metrics, now=lambda: 2000.0)
    writer.start()
    try:
        writer.grant(grant(1))
        assert writer.flush(20)
        postgres.stop()
        writer.grant(grant(2))
        while writer.outage is None:
            time.sleep(0.01)
        assert "127.0.0.1" in writer.outage and not writer.flush(0.5)
        assert metrics.registry.get_sample_value("quicksilver_proxy_store_up") == 0
        with pytest.raises(StoreUnavailableError):
            History(store).decisions(limit=1)
    finally:
        postgres.start()
    assert writer.flush(20)
    while writer.outage is not None:  # told a moment after the rows are there
        time.sleep(0.01)
    assert metrics.registry.get_sample_value("quicksilver_proxy_store_up") == 1
    assert len(History(store).decisions(limit=9).items) == 2
    writer.close()
    store.close()


@pytest.mark.postgres
def test_a_password_is_in_no_error() -> None:
    store = Store("postgresql://ann:secret@127.0.0.1:9/db")
    with pytest.raises(StoreUnavailableError, match="ann:") as caught:
        store.open()
    assert "secret" not in str(caught.value) and "***" in store.name


def test_a_full_disk_is_an_outage_and_ends(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'proxy.db'}")
    store.open()
    limit = [200]
    event.listen(
        store.engine, "begin", lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={limit[0]}")
    )
    with pytest.raises(StoreUnavailableError, match="database or disk is full"):
        store.write([grant(n) for n in range(3000)])
    limit[0] = 1_000_000
    store.write([grant(n) for n in range(3000)])
    assert History(store).summary().queueable == 3000
    store.close()


def test_the_sqlite_file_is_private_and_in_wal_mode(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a%20b.db'}")
    store.open()
    (file,) = tmp_path.glob("a*b.db")
    assert file.stat().st_mode & 0o777 == 0o600
    with store.engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
    store.close()


def test_a_failing_migration_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "proxy.db"
    other = create_engine(f"sqlite:///{file}")
    with other.begin() as connection:
        connection.execute(text("CREATE TABLE nodes (id TEXT)"))
    other.dispose()
    store = Store(f"sqlite:///{file}")
    with pytest.raises(StoreUnavailableError, match="table nodes already exists"):
        store.open()
    with store.engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["nodes"]
    store.close()


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("proxy.db", r"not a database URL; write sqlite:////path"),
        ("mysql://h/db", r"'mysql' is not supported; take sqlite or postgresql"),
        ("sqlite://", r"SQLite needs a file"),
        ("sqlite:////no/such/place/proxy.db", r"there is no directory /no/such/place; create it"),
    ],
)
def test_wrong_urls_are_found_before_anything_starts(url: str, error: str) -> None:
    with pytest.raises(SettingsError, match=r"^proxy\.store_url: " + error):
        Store(url)
