"""Steps of the tables up and down, with rows in them; and the commands for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from click.testing import CliRunner, Result
from sqlalchemy import Connection, inspect, text

from quicksilver.cli import cli
from quicksilver.common.store import migrate
from rm_proxy.domain.records import ChangeRecord, CompletionRecord, DecisionRecord, DurationRecord, UseRecord
from rm_proxy.store.migrations import MIGRATIONS
from rm_proxy.store.rows import NodeSeen, Row
from rm_proxy.store.store import Store
from rm_proxy.store.tables import Base
from rm_proxy.store.versions import NEWEST, is_newest
from tests.rm_proxy.store.test_store import APP, grant, happened

ROWS: list[Row] = [
    APP,
    grant(1),
    grant(2),
    happened(1, 1, waited_s=1.5),
    happened(2, 1, ran_s=4.0, attained_s=2.5, times_shrunk=3),
    CompletionRecord(grant(1).container_id, APP.id, -102, -100, "gone", 2010.0, own=True),
    NodeSeen("n1:1", "n1", "/r", "", grant(1).resources, 5.0),
    DecisionRecord(
        at_s=2000.0, slot="quota", policy="absolute", chosen="G", reason="3 are enough", app_id=APP.id, id="d1"
    ),
    ChangeRecord("c1", 2000.0, "ann", "rest", True, "policies.place", '"a"', '"b"'),
    UseRecord("n1:1", 3, 2, 100.0, 200.0, 1.0, 2.0, 2000.0),
    DurationRecord("MAPREDUCE", "wordcount", 20, 5, 12.0, 3.0, 2000.0),
]


def contents(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table that is there."""
    tables = sorted({*inspect(connection).get_table_names()} - {"alembic_version"})
    contents = {t: [dict(r._mapping) for r in connection.execute(text(f"SELECT * FROM {t}"))] for t in tables}
    return {t: sorted(rows, key=lambda r: [str(v) for v in r.values()]) for t, rows in contents.items()}


def kept(before: dict[str, list[dict[str, Any]]], after: dict[str, list[dict[str, Any]]]) -> None:
    """Every table that is there has its rows, with their values in the columns that are there."""
    for table, rows in after.items():
        columns = set(rows[0]) if rows else set()
        narrowed = [{name: value for name, value in row.items() if name in columns} for row in before[table]]
        assert sorted(map(str, (sorted(r.items()) for r in rows))) == sorted(
            map(str, (sorted(r.items()) for r in narrowed))
        )


def test_which_tables_need_no_migration(store: Store) -> None:
    with store.engine.begin() as connection:
        assert MIGRATIONS.versions(connection).newest == NEWEST
        assert is_newest(connection)
        MIGRATIONS.downgrade(connection, MIGRATIONS.versions(connection).known[-2])
        assert not is_newest(connection)
        connection.execute(text("DELETE FROM alembic_version"))
        assert not is_newest(connection)
        connection.execute(text("DROP TABLE alembic_version"))
        assert not is_newest(connection)


def test_each_step_down_and_up_again_keeps_what_both_have(store: Store) -> None:
    store.write(ROWS)
    with store.engine.connect() as connection:
        whole = contents(connection)
        known = MIGRATIONS.versions(connection).known
    assert all(whole[table] for table in Base.metadata.tables), "a row in each table"
    for version in reversed(known[:-1]):
        with store.engine.begin() as connection:
            MIGRATIONS.downgrade(connection, version)
            assert MIGRATIONS.versions(connection).current == version
            fewer = contents(connection)
        kept(whole, fewer)
        assert fewer["grants"] and fewer["applications"]
        store.open()
        with store.engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
            kept(contents(connection), fewer)
        store.write(ROWS)  # rows of before and after go in, and those that are there stay
        with store.engine.connect() as connection:
            again = contents(connection)
        assert {t: len(rows) for t, rows in again.items()} == {t: len(rows) for t, rows in whole.items()}
        with store.engine.begin() as connection:
            MIGRATIONS.downgrade(connection, version)
    with store.engine.connect() as connection:
        assert MIGRATIONS.versions(connection).current == known[0]


def test_all_steps_down_at_once_then_up(store: Store) -> None:
    store.write(ROWS)
    with store.engine.begin() as connection:
        before = MIGRATIONS.downgrade(connection, "0001")
    assert before.current == before.newest
    store.open()
    store.write(ROWS)
    with store.engine.connect() as connection:
        assert all(contents(connection)[table] for table in Base.metadata.tables)


def test_a_step_that_fails_leaves_all_as_it_was(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(ROWS)
    with store.engine.connect() as connection:
        whole = contents(connection)
    real = migrate.command.downgrade

    def fails(config: Any, to: str) -> None:
        real(config, to)
        raise RuntimeError("the power went out")

    monkeypatch.setattr(migrate.command, "downgrade", fails)
    with pytest.raises(RuntimeError), store.engine.begin() as connection:
        MIGRATIONS.downgrade(connection, "0001")
    with store.engine.connect() as connection:
        assert contents(connection) == whole
        versions = MIGRATIONS.versions(connection)
        assert versions.current == versions.newest


# Commands


def run(*words: str, put: str = "") -> Result:
    return CliRunner().invoke(cli, ["store", *words], input=put)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'proxy.db'}"


def test_status_migrate_downgrade(url: str) -> None:
    missing = run("status", "--store", url)
    assert missing.exit_code == 1 and "there is no such file; name another one" in missing.output
    assert "as this program wants them" in run("migrate", "--store", url).output
    store = Store(url)
    store.open()
    store.write(ROWS)
    good = run("status", "--store", url)
    assert good.exit_code == 0 and "grants: 2 rows" in good.output
    refused = run("downgrade", "0003", "--store", url, put="n\n")
    assert refused.exit_code == 1 and run("status", "--store", url).exit_code == 0
    down = run("downgrade", "0003", "--store", url, "--yes")
    assert down.exit_code == 0 and "of version 0003 now" in down.output
    old = run("status", "--store", url)
    assert old.exit_code == 1 and "of version 0003; `quicksilver store migrate` makes" in old.output
    wrong = run("downgrade", "0005", "--store", url, "--yes")
    assert wrong.exit_code == 1 and "0005 is not an earlier version; choose one of 0001, 0002" in wrong.output
    assert run("migrate", "--store", url).exit_code == 0 and run("status", "--store", url).exit_code == 0
    store.close()


def test_tables_of_a_newer_program_are_told_apart(url: str) -> None:
    run("migrate", "--store", url)
    store = Store(url)
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    status = run("status", "--store", url)
    assert status.exit_code == 1 and "of version 9999, newer than this program's" in status.output
    for words in (("migrate",), ("downgrade", "0001", "--yes")):
        refused = run(*words, "--store", url)
        assert refused.exit_code == 1
        assert "are of version 9999, this program knows" in refused.output
        assert "run the newer quicksilver" in refused.output


def test_the_store_of_the_settings_is_the_default(tmp_path: Path, url: str) -> None:
    (tmp_path / "quicksilver.yaml").write_text(f"proxy: {{store_url: '{url}'}}\n")
    assert run("migrate", "--config", str(tmp_path / "quicksilver.yaml")).exit_code == 0
    assert (tmp_path / "proxy.db").exists()
