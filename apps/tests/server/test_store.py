"""The store in SQLite and PostgreSQL: steps of its tables, writes in one transaction, bounds, outages."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from click.testing import CliRunner
from sqlalchemy import Connection, inspect

from apps.tests.server.fake_cluster import FakeCluster
from apps.tests.server.small_server import Client, served, settings, simple
from quicksilver.cli import cli
from quicksilver.common.errors import SettingsError
from quicksilver_apps.server.records import InstanceSpan, ServedApplication, StateChange
from quicksilver_apps.server.states import State, UnexpectedStateError
from quicksilver_apps.server.store import applications, instances
from quicksilver_apps.server.store.database import Database, DatabaseUnavailableError
from quicksilver_apps.server.store.migrations import MIGRATIONS
from quicksilver_apps.server.store.tables import NEWEST, AppsBase
from tests.rm_proxy.databases import fresh

_serial = itertools.count()
RECORD = ServedApplication(
    id="r1",
    yarn_id="",
    user="ann",
    role="user",
    name="one",
    title="",
    app_class="batch",
    queue="",
    state=State.RECEIVED,
    why="stored",
    description=simple(),
    template="",
    template_version=0,
    labels={"team": "red"},
    key="k",
    memory_mb=384,
    vcores=2,
    elastic=2,
    received_s=100.0,
    changed_s=100.0,
    submitted_s=None,
    started_s=None,
    ended_s=None,
    tries=0,
    kill_s=None,
    kill_why="",
    master_url="",
    tracking_url="",
    diagnostics="",
    view={},
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'apps.db'}"
    return fresh(request.getfixturevalue("postgres"), f"apps{next(_serial)}")


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    made = Database(url)
    made.open()
    yield made
    made.close()


def test_the_steps_make_the_tables_of_the_models(database: Database) -> None:
    with database.engine.begin() as connection:
        assert MIGRATIONS.versions(connection).known[-1] == NEWEST
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, AppsBase.metadata) == []
        before = inspect(connection).get_table_names()
    assert {"applications", "transitions", "instances", "templates"} <= set(before)


def test_a_record_comes_back_as_it_was(database: Database) -> None:
    async def scene() -> None:
        change = await database.write(lambda c: applications.receive(c, RECORD))
        assert change is not None and (change.source, change.target) == ("", "received")
        assert await database.write(lambda c: applications.receive(c, RECORD)) is None
        assert await database.read(lambda c: applications.get(c, "r1")) == RECORD
        moved = await database.write(
            lambda c: applications.move(
                c, "r1", State.RECEIVED, State.CHECKED, "fits", 101.0, yarn_id="application_1_0001"
            )
        )
        assert moved is not None and moved.seq > change.seq
        late = await database.write(lambda c: applications.move(c, "r1", State.RECEIVED, State.KILLED, "x", 102.0))
        assert late is None, "it is in another state"
        with pytest.raises(UnexpectedStateError):
            await database.write(lambda c: applications.move(c, "r1", State.CHECKED, State.READY, "x", 102.0))
        found = await database.read(lambda c: applications.get(c, "application_1_0001"))
        assert found is not None and found.state is State.CHECKED and found.changed_s == 101.0

    asyncio.run(scene())


def test_one_write_that_fails_leaves_the_others(database: Database) -> None:
    def fails(connection: Connection) -> None:
        applications.receive(connection, replace(RECORD, id="bad"))
        raise ValueError("no")

    async def scene() -> None:
        def stored(number: int) -> Any:
            return lambda c: applications.receive(c, replace(RECORD, id=f"r{number}"))

        works = [database.write(stored(number)) for number in range(20)]
        results = await asyncio.gather(*works[:10], database.write(fails), *works[10:], return_exceptions=True)
        assert isinstance(results[10], ValueError)
        changes = [result for result in results if not isinstance(result, ValueError)]
        assert len(changes) == 20 and all(type(change) is StateChange for change in changes)
        assert len(await database.read(lambda c: applications.listing(c, applications.Selection(), 100, 0))) == 20
        assert await database.read(applications.counts) == {"received": 20}

    asyncio.run(scene())


def test_containers_end_with_their_application_and_stay_so(database: Database) -> None:
    live = InstanceSpan("r1", "work", 0, "c1", "core", "n1", "ready", "", None, 100.0, 150.0, None, "")

    async def scene() -> None:
        await database.write(lambda c: applications.receive(c, RECORD))
        await database.write(lambda c: instances.save(c, [live], limit=3))
        await database.write(lambda c: applications.move(c, "r1", State.RECEIVED, State.KILLED, "x", 500.0))
        closed = replace(live, state="ended", ended_s=500.0)
        assert await database.read(lambda c: instances.of(c, "r1")) == [closed]
        await database.write(lambda c: instances.save(c, [live], limit=3))  # of an answer that came late
        assert await database.read(lambda c: instances.of(c, "r1")) == [closed]

    asyncio.run(scene())


def test_old_applications_go_with_all_that_belongs_to_them(database: Database) -> None:
    def span(number: int) -> InstanceSpan:
        return InstanceSpan(
            "r1", "work", 0, f"c{number}", "core", "n1", "ended", "", 0, 100.0 + number, None, 200.0, ""
        )

    async def scene() -> None:
        await database.write(lambda c: applications.receive(c, RECORD))
        await database.write(lambda c: instances.save(c, [span(number) for number in range(5)], limit=3))
        kept = await database.read(lambda c: instances.of(c, "r1"))
        assert [one.container_id for one in kept] == ["c2", "c3", "c4"]
        await database.write(lambda c: applications.move(c, "r1", State.RECEIVED, State.KILLED, "x", 500.0))
        assert await database.write(lambda c: applications.prune(c, 400.0)) == 0
        assert await database.write(lambda c: applications.prune(c, 600.0)) == 1
        assert await database.read(lambda c: applications.history(c, "r1")) == []
        assert await database.read(lambda c: instances.of(c, "r1")) == []

    asyncio.run(scene())


def test_a_server_on_each_kind_of_store(url: str, tmp_path: Path) -> None:
    cluster = FakeCluster()
    with served(settings(tmp_path, store_url=url), cluster) as (_, at):
        client = Client(at)
        one = client("POST", "/v1/applications", 202, description=simple())["id"]
        cluster_id = client.until_state(one, "accepted")["yarn_id"]
        cluster.start(cluster_id)
        client.until_state(one, "ready")
        client(
            "PUT",
            "/v1/templates/a",
            200,
            text="version: 1\nname: a\nservices: [{name: a, core: 1, command: x, resources: {memory_mb: 1}}]",
        )
        assert [each["name"] for each in client("GET", "/v1/applications?text=ON", 200)["items"]] == ["one"]
    with served(settings(tmp_path, store_url=url), cluster) as (_, at):
        cluster.end(cluster_id)
        Client(at).until_state(one, "finished")
        assert len(Client(at)("GET", "/v1/templates", 200)["items"]) == 1


def test_urls_that_are_no_store(tmp_path: Path) -> None:
    for text in ("mysql://x/y", "nothing", "sqlite://", f"sqlite:///{tmp_path}/none/x.db"):
        with pytest.raises(SettingsError, match=r"^app_server\.store_url: "):
            Database(text)


def test_a_deleted_file_is_an_outage_and_no_write_is_lost_silently(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'apps.db'}")
    database.open()
    (tmp_path / "apps.db").unlink()
    with pytest.raises(DatabaseUnavailableError, match="look at the database"):
        asyncio.run(database.write(lambda c: applications.receive(c, RECORD)))
    database.close()


def test_the_commands_of_the_store(tmp_path: Path) -> None:
    config = tmp_path / "quicksilver.yaml"
    config.write_text(f"app_server: {{store_url: 'sqlite:///{tmp_path / 'apps.db'}'}}\n")
    missing = CliRunner().invoke(cli, ["app-server", "store", "status", "--config", str(config)])
    assert missing.exit_code == 1 and "there is no such file" in missing.output
    database = Database(f"sqlite:///{tmp_path / 'apps.db'}")
    database.open()
    database.close()
    shown = CliRunner().invoke(cli, ["app-server", "store", "status", "--config", str(config)])
    assert shown.exit_code == 0 and f"tables of version {NEWEST}" in shown.output
    down = CliRunner().invoke(cli, ["app-server", "store", "downgrade", "0000", "--yes", "--config", str(config)])
    assert down.exit_code == 1 and "is not an earlier version; there is nothing to go down to" in down.output
