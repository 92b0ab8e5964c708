"""Outages of real databases under load: nothing is written twice, what is lost is counted, and each is told once."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from quicksilver.common.store import sqlite_file
from quicksilver.common.store.sqlite_file import MAX_ASIDE
from quicksilver_lab.workloads.servers.postgres import Postgres
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.store import writer as recorder_module
from rm_proxy.store.rows import Row
from rm_proxy.store.store import Store
from rm_proxy.store.tables import Completion, Event, GrantRow
from rm_proxy.store.writer import StoreUnavailableError, Writer
from tests.paths import ROOT
from tests.rm_proxy.databases import fresh
from tests.rm_proxy.store.test_store import grant, happened

OUT, BACK = "the store accepts no rows; scheduling continues, rows wait", "the store accepts rows again"


class Load:
    """A writer that threads put rows into, until it is told to stop."""

    def __init__(self, store: Store, **settings: Any) -> None:
        self.store, self.metrics = store, ProxyMetrics()
        self.writer = Writer(store, self.metrics, batch_rows=50, now=lambda: 2000.0, **settings)
        self.writer.start()
        self._numbers = iter(range(1, 10**9))
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.put = 0
        self._threads = [threading.Thread(target=self._feed) for _ in range(3)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _feed(self) -> None:
        while not self._stop.wait(0.002):
            with self._lock:
                number = next(self._numbers)
                self.put += 1
            self.writer.grant(grant(number))
            self.writer.keep(happened(number, number))

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, sample: str, least: float, **labels: str) -> None:
        deadline = time.monotonic() + 120
        while (self.sample(sample, **labels) or 0.0) < least:
            assert time.monotonic() < deadline, f"{sample} stays at {self.sample(sample, **labels)}"
            threading.Event().wait(0.01)

    def wait_for_outage(self) -> None:
        deadline = time.monotonic() + 120
        while self.writer.outage is None:
            assert time.monotonic() < deadline, "the writer notices no outage"
            threading.Event().wait(0.01)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"quicksilver_proxy_{name}", labels)

    def kept(self, what: Any = GrantRow.container_id) -> list[Any]:
        with self.store.engine.connect() as connection:
            return list(connection.scalars(select(what)))

    def check_all_kept_once(self) -> None:
        assert self.writer.flush(60) and self.writer.outage is None
        assert sorted(self.kept()) == sorted(grant(n).container_id for n in range(1, self.put + 1))
        assert len(self.kept(Event.seq)) == self.put
        assert self.sample("store_rows_total", table="grants") == self.put


@contextmanager
def told() -> Iterator[list[str]]:
    """Yield what the log says of outages."""
    lines: list[str] = []
    with capture_logs() as logs:
        yield lines
        lines += [line["event"] for line in logs if line["event"] in (OUT, BACK)]


@pytest.mark.postgres
@pytest.mark.parametrize("end", [Postgres.stop, Postgres.kill_all])
def test_postgresql_goes_down_under_load(postgres: Postgres, end: Callable[[Postgres], None]) -> None:
    store = Store(fresh(postgres, f"load_{end.__name__}"))
    load = Load(store)
    with told() as lines:
        load.start()
        load.wait_for("store_rows_total", 200, table="grants")
        end(postgres)
        try:
            while load.writer.outage is None:
                threading.Event().wait(0.01)
            assert load.sample("store_up") == 0
        finally:
            postgres.start()
        load.wait_for("store_up", 1)
        load.stop()
        load.check_all_kept_once()
    assert lines == [OUT, BACK]
    load.writer.close()
    store.close()


class Doubtful:
    """A store of which nobody hears that a commit came through."""

    def __init__(self, store: Store) -> None:
        self._store, self.writes = store, 0

    def open(self) -> None:
        self._store.open()

    def write(self, rows: Sequence[Row]) -> None:
        self._store.write(rows)
        self.writes += 1
        if self.writes % 2:
            raise StoreUnavailableError("the connection broke at the commit")

    def prune(self, before_s: float) -> int:
        return self._store.prune(before_s)


def test_a_commit_of_which_nobody_heard_doubles_nothing(store: Store) -> None:
    doubtful = Doubtful(store)
    writer = Writer(doubtful, ProxyMetrics(), now=lambda: 2000.0)
    writer.start()
    for number in range(1, 4):
        writer.grant(grant(number))
        writer.keep(happened(number, number))
        assert writer.flush(120)
    writer.close()
    with store.engine.connect() as connection:
        assert len(list(connection.scalars(select(GrantRow.container_id)))) == 3
        assert len(list(connection.scalars(select(Event.seq)))) == 3
    assert doubtful.writes == 6


def sqlite_load(tmp_path: Path) -> tuple[Path, Load]:
    file = tmp_path / "proxy.db"
    load = Load(Store(f"sqlite:///{file}"))
    load.writer.grant(grant(10_001))
    assert load.writer.flush()
    return file, load


def end(load: Load) -> None:
    load.writer.close()
    load.store.close()


def test_a_deleted_file_is_missed_and_made_anew(tmp_path: Path) -> None:
    file, load = sqlite_load(tmp_path)
    with told() as lines:
        file.unlink()
        load.writer.grant(grant(2))
        assert load.writer.flush(120)
    assert load.kept() == [grant(2).container_id] and file.stat().st_mode & 0o777 == 0o600
    assert lines == [OUT, BACK]
    shutil.copy(file, tmp_path / "other.db")
    (tmp_path / "other.db").rename(file)
    load.writer.grant(grant(3))
    assert load.writer.flush(120)
    assert set(load.kept()) >= {grant(3).container_id}
    end(load)


def test_a_deleted_directory_is_an_outage_until_it_is_back(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    load = Load(Store(f"sqlite:///{tmp_path / 'lib' / 'proxy.db'}"))
    load.writer.grant(grant(1))
    assert load.writer.flush()
    shutil.rmtree(tmp_path / "lib")
    load.writer.grant(grant(2))
    assert not load.writer.flush(0.7)
    load.wait_for_outage()
    (tmp_path / "lib").mkdir()
    assert load.writer.flush(120) and load.kept() == [grant(2).container_id]
    end(load)


@pytest.mark.parametrize("damage", ["no database", "a page"])
def test_a_broken_file_is_set_aside(tmp_path: Path, damage: str) -> None:
    file, load = sqlite_load(tmp_path)
    load.writer.close()
    load.store.close()  # so that all is in the one file
    content = bytearray(file.read_bytes())
    if damage == "no database":
        content[:100] = b"x" * 100
    else:
        content[4096:] = b"\xff" * (len(content) - 4096)
    file.write_bytes(content)
    load = Load(Store(f"sqlite:///{file}"))
    with capture_logs() as logs:
        load.writer.grant(grant(2))
        assert load.writer.flush(120)
    (aside,) = tmp_path.glob("proxy.db.broken-*")
    assert aside.read_bytes() == bytes(content)
    assert load.kept() == [grant(2).container_id]
    assert any(f"kept as {aside.name}" in line.get("why", "") for line in logs)
    end(load)


def test_not_more_than_a_few_are_set_aside(tmp_path: Path) -> None:
    for number in range(MAX_ASIDE):
        (tmp_path / f"proxy.db.broken-{number}").touch()
    (tmp_path / "proxy.db").write_bytes(b"no database" * 1000)
    store = Store(f"sqlite:///{tmp_path / 'proxy.db'}")
    with pytest.raises(StoreUnavailableError, match="not a database; look at the database and its disk"):
        store.open()
    assert len(list(tmp_path.glob("proxy.db.broken-*"))) == MAX_ASIDE
    store.close()


_HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_of_another_process_is_an_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "LOCK_WAIT_S", 0.1)
    file, load = sqlite_load(tmp_path)
    with told() as lines:
        command = [sys.executable, "-c", _HOLD, str(file)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None and other.stdout.readline() == "held\n"
            load.writer.grant(grant(2))
            while load.writer.outage is None:
                threading.Event().wait(0.01)
            assert "locked" in load.writer.outage
            other.kill()
        assert load.writer.flush(120)
    assert lines == [OUT, BACK]
    assert len(load.kept()) == 2
    end(load)


def test_memory_is_bounded_and_what_is_lost_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_RETRY_S", (0.05,))
    monkeypatch.setattr(sqlite_file, "LOCK_WAIT_S", 0.05)
    store = Store(f"sqlite:///{tmp_path / 'proxy.db'}")
    store.open()
    blocker = sqlite3.connect(tmp_path / "proxy.db", isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN EXCLUSIVE")
    load = Load(store, queue_rows=100)
    with capture_logs() as logs:
        for number in range(1000):
            load.writer.grant(grant(number))
        assert load.writer.backlog <= 100
        lost = load.sample("store_dropped_total", reason="full") or 0
        assert 1000 - 100 - 50 <= lost <= 900, "a batch may be out of the queue already"
        blocker.rollback()
        assert load.writer.flush(120)
    assert len(load.kept()) == 1000 - lost
    (again,) = [line for line in logs if line["event"] == "the queue of the store has room again"]
    assert again["dropped"] == lost
    blocker.close()
    end(load)


def test_long_texts_are_cut_before_they_wait() -> None:
    writer = Writer(Doubtful(None), ProxyMetrics())  # type: ignore[arg-type]
    long = happened(1, 1).event.model_copy(update={"reason": "x" * 1_000_000})
    writer.event("n:1", "b", long)
    assert len(writer._queue.popleft().event.reason) == recorder_module.MAX_TEXT  # type: ignore[union-attr]


class Faulty(Doubtful):
    """A store whose own code fails."""

    def write(self, rows: Sequence[Row]) -> None:
        if any(getattr(row, "container_id", "").endswith("000002") for row in rows):
            raise RuntimeError("a bug")
        self._store.write(rows)


def test_a_fault_of_our_own_does_not_end_all_writing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_RETRY_S", (0.01,))
    metrics = ProxyMetrics()
    writer = Writer(Faulty(store), metrics, now=lambda: 2000.0)
    writer.start()
    for number in (1, 2, 3):
        writer.grant(grant(number))
        assert writer.flush(120)
    writer.close()
    assert metrics.registry.get_sample_value("quicksilver_proxy_store_dropped_total", {"reason": "fault"}) == 1
    with store.engine.connect() as connection:
        assert len(list(connection.scalars(select(GrantRow.container_id)))) == 2
        assert not list(connection.scalars(select(Completion.container_id)))


# A disk of its own: a small tmpfs in a mount namespace of a process, gone with it

_ON_A_SMALL_DISK = """
import subprocess, sys, threading, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.rm_proxy.store.test_outages import Load
from tests.rm_proxy.store.test_store import grant
from rm_proxy.store.store import Store
disk = Path(sys.argv[1])
load = Load(Store(f"sqlite:///{disk / 'proxy.db'}"))
load.writer.grant(grant(1))
assert load.writer.flush()
def fill():
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError as error:
            assert error.errno == 28, error
def out(word, number):
    for more in range(number, number + 300):
        load.writer.grant(grant(more))
    end = time.monotonic() + 120
    while load.writer.outage is None and time.monotonic() < end:
        threading.Event().wait(0.01)
    assert word in (load.writer.outage or ""), load.writer.outage
fill()
out("full", 1000)
(disk / "filler").unlink()
assert load.writer.flush(120) and load.writer.outage is None
assert len(load.kept()) == 301, len(load.kept())
load.store.close()  # a disk with files that are open to be written cannot be made read-only
subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
out("unable to open", 2000)
subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
assert load.writer.flush(120) and load.writer.outage is None
assert len(load.kept()) == 601, len(load.kept())
load.writer.close()
print("survived")
"""


def _may_mount() -> list[str] | None:
    """Return how to get a mount namespace here, None when that is not allowed."""
    for words in (["unshare", "-m"], ["unshare", "-Urm"]):
        if (
            shutil.which("unshare")
            and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
        ):
            return words
    return None


@pytest.mark.root
@pytest.mark.skipif(_may_mount() is None, reason="needs the right to make a mount namespace")
def test_a_full_disk_and_a_read_only_one(tmp_path: Path) -> None:
    words = _may_mount()
    assert words is not None
    mounted = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1" "$4"'
    arguments = [str(tmp_path), sys.executable, _ON_A_SMALL_DISK, str(ROOT)]
    command = [*words, "sh", "-c", mounted, "sh", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert done.returncode == 0 and done.stdout.endswith("survived\n"), done.stdout + done.stderr
    assert not list(tmp_path.iterdir()), "nothing is left of it"
