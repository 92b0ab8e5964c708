"""The tables and queries of Hive's sessions, and what is read from a session's output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quicksilver_lab.frameworks import retail
from quicksilver_lab.frameworks.hive import HiveSession, QueryResult
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.errors import OutputError


def test_equal_arguments_give_equal_tables() -> None:
    assert retail.tables(50) == retail.tables(50)
    assert retail.tables(50)["store_sales"] != retail.tables(50, seed=2)["store_sales"]
    for name, rows in retail.tables(50).items():
        assert {len(row) for row in rows} == {len(retail.COLUMNS[name].split(","))}


def test_each_query_has_rows_in_one_order_only() -> None:
    answers = retail.expected(retail.tables(5000))
    assert len(answers) == len(retail.QUERIES) == 10
    for name, rows in answers.items():
        assert rows, name
        assert "order by" in retail.QUERIES[name]
    backwards = {name: rows[::-1] for name, rows in retail.tables(5000).items()}
    assert retail.expected(backwards) == answers


def session(folder: Path, log: str, output: str, queries: tuple[str, ...]) -> HiveSession:
    files = folder / "hive.log", folder / "hive.out"
    for file, text in zip(files, (log, output), strict=True):
        file.write_text(text)
    process = subprocess.Popen([sys.executable, "-c", ""], text=True)
    return HiveSession(Client("hive", process, files[0]), files[1], queries)


def test_a_session_has_rows_and_seconds_of_each_query(tmp_path: Path) -> None:
    log = "INFO x; Time taken: 9.9 seconds\nTime taken: 1.25 seconds, Fetched: 2 row(s)\nTime taken: 0.5 seconds\n"
    results = session(tmp_path, log, "query:first\n1\ta\n2\tb\nquery:second\n", ("first", "second")).wait(20)
    assert results == [QueryResult("first", ["1\ta", "2\tb"], 1.25), QueryResult("second", [], 0.5)]


def test_a_query_may_come_several_times_in_a_session(tmp_path: Path) -> None:
    log, output = "Time taken: 2 seconds\nTime taken: 1 seconds\n", "query:first\n1\nquery:first\n2\n"
    results = session(tmp_path, log, output, ("first", "first")).wait(20)
    assert [(result.rows, result.seconds) for result in results] == [(["1"], 2.0), (["2"], 1.0)]


def test_a_session_that_lacks_a_result_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="1 times and 1 results of 2 queries"):
        session(tmp_path, "Time taken: 1.25 seconds\n", "query:first\n1\n", ("first", "second")).wait(20)
