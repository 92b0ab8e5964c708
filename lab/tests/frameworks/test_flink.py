"""What a Flink job's lines say, and how Flink's jars get into the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver_lab.cluster.runtime.java import Java
from quicksilver_lab.frameworks.flink import jars
from quicksilver_lab.frameworks.flink.job import KEYS, application_of, summary
from quicksilver_lab.workloads.errors import OutputError


def test_records_that_are_processed_again_and_the_longest_gap() -> None:
    lines = [(1000, 0, 1), (1100, 1, 1), (4100, 1, 1), (4200, KEYS, 2), (4300, KEYS + 1, 2)]
    written = summary(lines)
    assert (written.records, written.repeated, written.wrong) == (4, 1, 0)
    assert (written.longest_gap_s, written.gap_began_s) == (3.0, 1.1)
    assert (written.first_s, written.last_s) == (1.0, 4.3)


def test_a_record_that_counts_twice_is_wrong() -> None:
    assert summary([(1000, 0, 1), (1100, 0, 2)]).wrong == 1


def test_nothing_written_is_an_error() -> None:
    with pytest.raises(OutputError, match=r"a job.*nothing is written"):
        summary([], "a job")


def test_the_application_that_a_client_names() -> None:
    assert application_of("Submitted application application_17_0003\nFound application_17_0003", "x") == (
        "application_17_0003"
    )
    with pytest.raises(OutputError, match="no application in it"):
        application_of("nothing", "x")


def test_the_jars_are_brought_and_the_job_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(argv: list[str], java: Java, problem: str) -> None:
        commands.append(argv)
        if "-DincludeScope=provided" in argv:
            (tmp_path / "tools").mkdir()
            (tmp_path / "tools" / "ecj-1.jar").touch()
        if "-d" in argv:
            (Path(argv[argv.index("-d") + 1]) / "CountedNumbers.class").write_bytes(b"class")

    monkeypatch.setattr(jars, "run_tool", run)
    monkeypatch.setattr(jars, "find_maven", lambda: Path("mvn"))
    java = Java(Path("/java"), 17)
    flink = jars.flink(java, cache=tmp_path)
    assert len(commands) == 3
    assert flink.job.stat().st_size > 0
    assert jars.flink(java, cache=tmp_path) == flink
    assert len(commands) == 3
    (tmp_path / ".made-of").write_text("older sources")
    jars.flink(java, cache=tmp_path)
    assert len(commands) == 6
