"""What changes a stream on its way, traces by name, and the commands."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.simulator.model import ApplicationJob, SimulatedJob
from quicksilver.simulator.traces.cli import WRITERS, trace
from quicksilver.simulator.traces.formats.registry import read
from quicksilver.simulator.traces.generators import generate
from quicksilver.simulator.traces.jobs import dump_jobs
from quicksilver.simulator.traces.lines import Mistakes, TraceError
from quicksilver.simulator.traces.shaping import Errors, faster, head, measured, misestimated, speed_for
from quicksilver.simulator.traces.source import Source

JOBS = [SimulatedJob(n, 10.0 * n, (float(n), 2.0 * n), 1.5 * n) for n in range(1, 51)]
HAWK = "1 2 15 10 20\n3 1 5 5\n7 1 8 9\n"


@given(st.floats(0, 1), st.sampled_from(("both", "under", "over")), st.integers())
def test_estimates_are_wrong_within_their_range_and_nothing_else_is(error: float, which: Errors, seed: int) -> None:
    result = list(misestimated(JOBS, error, seed, which))
    low, high = 1 - error * (which != "over"), 1 + error * (which != "under")
    for job, was in zip(result, JOBS, strict=True):
        assert low - 1e-9 <= job.estimate_s / was.estimate_s <= high + 1e-9
        assert (job.arrives_s, job.durations_s, job.number) == (was.arrives_s, was.durations_s, was.number)
    assert result == list(misestimated(JOBS, error, seed, which))


def test_large_errors_reach_both_ends() -> None:
    shares = [job.estimate_s / was.estimate_s for job, was in zip(misestimated(JOBS, 0.9, 1), JOBS, strict=True)]
    assert min(shares) < 0.3 and max(shares) > 1.7
    assert list(misestimated(JOBS, 0.9, 1)) != list(misestimated(JOBS, 0.9, 2))
    with pytest.raises(ValueError):
        misestimated(JOBS, 1.1, 1)


def test_arrivals_scale_and_the_first_jobs_are_taken() -> None:
    assert [job.arrives_s for job in head(faster(JOBS, 4.0), 2)] == [2.5, 5.0]
    assert len(list(head(JOBS, None))) == 50
    for wrong in (0.0, -1.0, float("inf")):
        with pytest.raises(ValueError):
            faster(JOBS, wrong)


def test_a_stream_is_summed_up_and_a_load_reached() -> None:
    result = measured(JOBS, 60.0)
    assert (result.jobs, result.tasks, result.most_tasks, result.longest_s) == (50, 100, 2, 100.0)
    assert (result.long_jobs, result.long_work_s) == (10, sum(3.0 * n for n in range(41, 51)))
    assert result.slots == pytest.approx(3 * 1275 / 490)
    assert measured(faster(JOBS, speed_for(result, 20, 0.5))).slots == pytest.approx(10.0)
    assert measured([]).slots == 0.0
    for wrong in (measured([]), measured(JOBS[:1])):
        with pytest.raises(ValueError):
            speed_for(wrong, 20, 0.5)


def test_a_source_is_a_file_or_a_generator_with_all_that_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(HAWK)
    plain = list(read(path))
    assert list(Source(str(path)).stream()) == plain
    assert list(Source(str(path), jobs=2, speed=2.0).stream()) == list(faster(plain[:2], 2.0))
    assert [job.estimate_s for job in Source(str(path), as_eagle=True).stream()] == [15.0, 5.0, 8.0]
    loaded = Source(str(path), load=0.5, slots=8)
    assert measured(loaded.stream()).slots == pytest.approx(4.0)
    assert list(Source("gen:yahoo", jobs=9, seed=5).stream()) == list(generate("yahoo", 9, 5))
    assert list(Source("gen:yahoo:5", jobs=9).stream()) == list(generate("yahoo", 9, 5))
    with pytest.raises(TraceError, match="'x' is no seed; write gen:yahoo:7"):
        Source("gen:yahoo:x").stream()
    wrong = Source("gen:yahoo", jobs=9, seed=5, error=0.6, errors="under")
    assert list(wrong.stream()) == list(misestimated(generate("yahoo", 9, 5), 0.6, 5, "under"))


def test_a_load_leaves_broken_jobs_out_once(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(HAWK + "oops\n")
    mistakes = Mistakes(skip=True)
    assert len(list(Source(str(path), skip=True, load=0.5, slots=8).stream(mistakes))) == 3
    assert mistakes.count == 1
    with pytest.raises(TraceError, match=":4: "):
        list(Source(str(path), load=0.5, slots=8).stream())
    (tmp_path / "one.txt").write_text("1 1 1 1\n")
    with pytest.raises(TraceError, match="one after the other"):
        Source(str(tmp_path / "one.txt"), load=0.5, slots=8).stream()


@pytest.mark.parametrize(
    "wrong",
    (
        {"speed": 0},
        {"error": 2},
        {"load": 0.5},
        {"slots": 5},
        {"load": 1, "slots": 1, "speed": 2},
        {"load": -1, "slots": 1},
    ),
)
def test_sources_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Source("x", **wrong)


def ran(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(trace, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


@pytest.mark.parametrize("fmt", WRITERS)
def test_generated_jobs_are_a_trace_in_each_format(tmp_path: Path, fmt: str) -> None:
    out, _ = ran("generate", "yahoo", "--jobs", "20", "--seed", "3", "--format", fmt)
    path = tmp_path / "trace"
    path.write_text(out)
    result, drawn = list(read(path)), list(generate("yahoo", 20, 3))
    assert [job.durations_s for job in result] == [job.durations_s for job in drawn]
    if fmt == "jobs":
        assert result == drawn
    if fmt == "hawk":
        assert [(job.arrives_s, job.estimate_s) for job in result] == [(job.arrives_s, job.estimate_s) for job in drawn]


def test_applications_are_a_trace_that_keeps_their_core(tmp_path: Path) -> None:
    sizes = (1, 2)
    jobs = [ApplicationJob(n, n / 2, (3.0,) * (n + 1), 3.0, "B-E", core=n, klass="B-E", priority=n) for n in sizes]
    path = tmp_path / "trace"
    with path.open("w") as file:
        assert dump_jobs(jobs, file) == 2
    assert list(read(path)) == jobs


def test_a_trace_is_converted_and_shown(tmp_path: Path) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.jsonl"
    source.write_text(HAWK + "8 2 1 1\n")
    _, error = ran("convert", str(source), str(target), code=1)
    assert ":4: 1 durations of 2 tasks" in error and "write one job a line" in error
    _, error = ran("convert", str(source), str(target), "--skip", "--speed", "2")
    assert "3 jobs written" in error and "1 broken jobs left out" in error and ":4: " in error
    assert [job.arrives_s for job in read(target)] == [0.5, 1.5, 3.5]
    out, _ = ran("convert", str(target), "-", "--format", "hawk", "--first", "1")
    assert out == "0.5 2 15.0 10.0 20.0\n"
    shown = json.loads(ran("show", str(target), "--json", "--cutoff", "10")[0])
    assert (shown["jobs"], shown["tasks"], shown["work_s"], shown["long_jobs"]) == (3, 4, 44.0, 1)
    out, _ = ran("show", str(target), "--cutoff", "10")
    assert "3 jobs, 4 tasks, 44 s" in out and "long: 1 jobs (33.33%), 68.18% of the work" in out


def test_mistakes_of_usage_are_told(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text(HAWK)
    assert "is the trace itself" in ran("convert", str(source), str(source), code=2)[1]
    assert source.read_text() == HAWK
    assert "give a load with the slots" in ran("show", str(source), "--load", "1", code=2)[1]
    assert "take yahoo" in ran("generate", "yaho", code=1)[1]
    assert "not both" in ran("generate", "yahoo", "--busy", "1", "--interarrival", "1", code=2)[1]
    assert "cannot be read" in ran("show", str(tmp_path / "none"), code=1)[1]


def test_what_cannot_be_written_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text(HAWK + "8 2 1 1\n")
    target.write_text("kept")
    assert ":4: " in ran("convert", str(source), str(target), code=1)[1]
    assert target.read_text() == "kept" and {path.name for path in tmp_path.iterdir()} == {"a.txt", "b.txt"}
    assert "No such file" in ran("convert", str(source), str(tmp_path / "none" / "b.txt"), code=1)[1]
    assert "No space left" in ran("convert", "gen:yahoo", "/dev/full", code=1)[1]


def test_a_target_named_gz_is_packed(tmp_path: Path) -> None:
    source, target = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    source.write_text(HAWK)
    ran("convert", str(source), str(target), "--format", "hawk")
    assert gzip.decompress(target.read_bytes()).decode() == ran("convert", str(source), "-", "--format", "hawk")[0]


def test_generators_are_listed() -> None:
    out, _ = ran("generators")
    assert "yahoo: 24,262 jobs" in out
    rows = json.loads(ran("generators", "--json")[0])
    assert {row["name"] for row in rows} >= {"hawk_example", "google", "mercury_fixed_2s"} and "shapes" not in rows[0]


def test_a_simulation_of_a_file_imports_no_database() -> None:
    code = (
        "import sys, quicksilver.simulator.cli\n"
        "print([name for name in ('sqlalchemy', 'structlog') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
