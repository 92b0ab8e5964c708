"""Formats are known by how a trace begins; arrivals, order, and broken jobs that are left out and counted."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quicksilver.simulator.model import SimulatedJob
from quicksilver.simulator.traces.formats.dynoyarn import dump_dynoyarn
from quicksilver.simulator.traces.formats.hawk import dump_hawk, read_hawk
from quicksilver.simulator.traces.formats.registry import FORMATS, format_of, read, read_specs
from quicksilver.simulator.traces.jobs import dump_jobs, read_jobs
from quicksilver.simulator.traces.lines import Mistakes, TraceError
from quicksilver.simulator.traces.spec import REDUCE, JobSpec, Submitted, TaskSpec, in_order, job_of, spec_of
from tests.examples import of_share
from tests.paths import DATA

RECORDED = DATA / "workloads"
SECONDS = st.floats(0, 1e9, allow_nan=False)
JOBS = st.lists(
    st.builds(
        SimulatedJob,
        number=st.just(0),
        arrives_s=SECONDS,
        durations_s=st.lists(SECONDS, min_size=1, max_size=5).map(tuple),
        estimate_s=SECONDS,
        name=st.text(),
        user=st.text(),
        queue=st.text(),
        cores=st.floats(0.1, 64),
        memory_mb=st.integers(0, 2**40),
    ).flatmap(
        lambda job: st.sampled_from(((), (len(job.durations_s),), (1,) * len(job.durations_s))).map(
            lambda stages: replace(job, stages=stages)
        )
    ),
    max_size=6,
).map(lambda jobs: numbered(sorted(jobs, key=lambda job: job.arrives_s)))
QUICK = settings(max_examples=of_share(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def numbered(jobs: list[SimulatedJob]) -> list[SimulatedJob]:
    return [replace(job, number=n) for n, job in enumerate(jobs, start=1)]


def written(tmp_path: Path, text: str, name: str = "trace") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@QUICK
@given(JOBS)
def test_jobs_that_are_written_are_read_again(tmp_path: Path, jobs: list[SimulatedJob]) -> None:
    path = tmp_path / "trace"
    with path.open("w") as file:
        assert dump_jobs(jobs, file) == len(jobs)
    assert list(read_jobs(path)) == jobs


@QUICK
@given(JOBS)
def test_the_text_format_keeps_all_times(tmp_path: Path, jobs: list[SimulatedJob]) -> None:
    path = tmp_path / "trace"
    with path.open("w") as file:
        assert dump_hawk(jobs, file) == len(jobs)
    assert list(read_hawk(path)) == [
        SimulatedJob(job.number, job.arrives_s, job.durations_s, job.estimate_s) for job in jobs
    ]
    if jobs:
        assert format_of(path) == "hawk"


@QUICK
@given(st.binary(max_size=300), st.sampled_from(FORMATS))
def test_whatever_the_bytes_a_trace_is_read_or_refused(tmp_path: Path, octets: bytes, fmt: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(octets)
    for mistakes in (None, Mistakes(skip=True)):
        try:
            jobs = list(read(path, fmt, mistakes=mistakes))
        except TraceError as error:
            assert str(path) in error.place and error.remedy
        else:
            assert all(job.durations_s and min(job.durations_s) >= 0 for job in jobs)


@QUICK
@given(st.data())
def test_a_broken_line_costs_its_own_job_alone(tmp_path: Path, data: st.DataObject) -> None:
    text = StringIO()
    jobs = numbered([SimulatedJob(0, float(n), (float(n), 1.0), 2.0) for n in range(5)])
    fmt = data.draw(st.sampled_from(("hawk", "jobs", "swim", "dynoyarn")))
    if fmt == "swim":
        text.write("".join(f"job{n}\t{n}\t1\t{n}\t0\t1\n" for n in range(5)))
    elif fmt == "dynoyarn":
        dump_dynoyarn(map(spec_of, jobs), text)
    else:
        (dump_hawk if fmt == "hawk" else dump_jobs)(jobs, text)
    rows = text.getvalue().splitlines()
    hit = data.draw(st.integers(1, 4))
    cut = data.draw(st.integers(1, len(rows[hit]) - 1))
    rows[hit] = data.draw(st.sampled_from((rows[hit][:cut] + "\x00", "oops", "[]", "1 2", "-1 1 1 1", '{"}"')))
    path = written(tmp_path, "\n".join(rows))
    with pytest.raises(TraceError, match=f":{hit + 1}: ") as caught:
        list(read(path, fmt))
    assert caught.value.remedy
    mistakes = Mistakes(skip=True)
    assert [job.number for job in read(path, fmt, mistakes=mistakes)] == [1, 2, 3, 4]
    assert mistakes.count == len(mistakes.first) == 1


def test_the_first_line_tells_the_format(tmp_path: Path) -> None:
    app = {"appId": "a", "submitTime": 0, "resourceRequestSpecs": [{"runtimes": [5], "resource": {"memoryMB": 1}}]}
    texts = {
        "job0\t1\t1\t1\t0\t1\n": "swim",
        "7\t1\t1\t1\t0\t1\n": "swim",
        "10 3 20 10 20 30\n": "hawk",
        "10\t3\t20\t10\t20\t30\n": "hawk",
        "\n 0.5 1 1e3 999\n": "hawk",
        json.dumps(app): "dynoyarn",
        '{"arrives_s": 1, "durations_s": [1]}': "jobs",
        '{\n "jobID" : "job_1"}': "rumen",
        json.dumps(app, indent=1): "dynoyarn",
        json.dumps(app | {"jobID": "job_1"}, indent=1): "rumen",
        json.dumps({"arrives_s": 1, "durations_s": [1]}, indent=1): "jobs",
        '{"num.nodes": 3}': "sls",
        json.dumps({"job.start.ms": 0, "job.tasks": []}, indent=1): "sls",
        "one\t1\t1\t1\t0\t1\tin1\t\t\n": "swim",
    }
    for text, expected in texts.items():
        assert format_of(written(tmp_path, text)) == expected, text
    assert format_of(RECORDED / "trace.json") == "rumen"
    assert format_of(RECORDED / "json.jhist") == format_of(RECORDED / "binary.jhist") == format_of(RECORDED) == "jhist"
    for text in ("1.5\n2\n", "", "job one two three four"):
        with pytest.raises(TraceError, match="format is not known"):
            read(written(tmp_path, text))
    with pytest.raises(TraceError, match="it is empty"):
        read(written(tmp_path, " \n"))
    with pytest.raises(TraceError, match="cannot be read"):
        format_of(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="format of a pipe is not known; name it with"):
        format_of(tmp_path / "pipe")


def test_packed_texts_and_byte_order_marks_need_no_name(tmp_path: Path) -> None:
    path, text = tmp_path / "trace", "10 3 20 10 20 30\n"
    for octets in (gzip.compress(text.encode()), b"\xef\xbb\xbf" + text.encode(), text.encode()):
        path.write_bytes(octets)
        assert [job.durations_s for job in read(path)] == [(10, 20, 30)], octets


def test_a_named_format_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="1 fields; a job has 6"):
        list(read(written(tmp_path, "10 3 20 10 20 30\n"), "swim"))


def test_jobs_of_other_formats_keep_their_stages(tmp_path: Path) -> None:
    path = written(tmp_path, f"a\t5\t5\t{2**28}\t10\t10\nb\t9\t4\t1\t0\t1\n")
    first, second = read(path)
    assert (first.number, first.arrives_s, len(first.durations_s), first.name) == (1, 0.0, 3, "a")
    assert first.estimate_s == pytest.approx(sum(first.durations_s) / 3)
    assert (first.stages, second.stages) == ((2, 1), ())
    maps = list(read(path, stages="map"))
    assert [(len(job.durations_s), job.stages) for job in maps] == [(2, ()), (1, ())]
    with (tmp_path / "jobs").open("w") as file:
        dump_jobs([first, second], file)
    assert list(read(tmp_path / "jobs")) == [first, second]
    assert list(read(tmp_path / "jobs", stages="map")) == maps
    assert second.arrives_s == 4.0


def test_the_mean_that_was_told_is_the_estimate_and_jobs_become_specs_again() -> None:
    spec = JobSpec(3, 1.0, "k", (TaskSpec(2.0, slow_times=2.0), TaskSpec(1.0, REDUCE)), "q", "u", 7.0, 512, "n")
    job = job_of(spec)
    assert job == SimulatedJob(3, 1.0, (4.0, 1.0), 7.0, "n", "u", "q", memory_mb=512, stages=(1, 1))
    assert spec_of(job) == JobSpec(3, 1.0, "job", (TaskSpec(4.0), TaskSpec(1.0, REDUCE)), "q", "u", 7.0, 512, "n")
    mixed = JobSpec(1, 0.0, "k", (TaskSpec(1.0, 2), TaskSpec(2.0), TaskSpec(3.0, 2), TaskSpec(4.0)))
    assert job_of(mixed) == SimulatedJob(1, 0.0, (2.0, 4.0, 1.0, 3.0), 2.5, user="bench", stages=(2, 2))
    assert job_of(JobSpec(1, 0.0, "k", (TaskSpec(1.0, REDUCE),)), "map") is None


@pytest.mark.parametrize(
    ("text", "what"),
    (
        ("1 1 1 1\n0 1 1 1\n", ":2: arrives at 0 s, the job before it at 1 s"),
        ("1 2 5 1\n", ":1: 1 durations of 2 tasks"),
        ("1 0 5\n", ":1: 0 durations of 0 tasks"),
        ("1 1\n", ":1: 2 words"),
        ("1 1 1 inf\n", ":1: a time below 0, or none"),
        ("1 1 nan 1\n", ":1: a time below 0, or none"),
        ("1 2 1 -1 2\n", ":1: a time below 0"),
        ("1 one 1 1\n", ":1: no job: .*one"),
    ),
)
def test_broken_text_is_told_with_its_line(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(TraceError, match=what) as caught:
        list(read_hawk(written(tmp_path, text)))
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("fields", "what"),
    (
        ({"durations_s": []}, "without tasks"),
        ({"colour": "red"}, "no such fields: colour"),
        ({"durations_s": "ab"}, "not the fields"),
        ({"durations_s": None}, "not the fields"),
        ({"arrives_s": -1}, "below 0"),
        ({"cores": 0}, "cores=0"),
        ({"stages": [1, 2]}, "a job of 2 tasks has other ones"),
        ({"stages": 2}, "not the fields"),
        ({"core": 3}, "core=3 of 2 components"),
        ({"klass": "batch"}, "not the fields of an application"),
    ),
)
def test_broken_jobs_are_told_with_their_line(tmp_path: Path, fields: dict[str, object], what: str) -> None:
    good = {"arrives_s": 1, "durations_s": [1, 2.5]}
    path = written(tmp_path, json.dumps(good) + "\n" + json.dumps(good | fields))
    with pytest.raises(TraceError, match=f":2: .*{what}") as caught:
        list(read_jobs(path))
    assert caught.value.remedy


def test_the_peers_reading_cuts_times_to_seconds_and_sets_equal_arrivals_apart(tmp_path: Path) -> None:
    text = "1.5 1 2.9 3.7\n1.5 1 1 0.2\n1.5 1 1 1\n1.51 1 1 1\n"
    jobs = list(read(written(tmp_path, text), as_eagle=True))
    assert [(job.durations_s, job.estimate_s) for job in jobs][:2] == [((3.0,), 2.0), ((0.0,), 1.0)]
    assert [job.arrives_s for job in jobs] == pytest.approx([1.5, 1.51, 1.52, 1.51])


def test_jobs_that_stand_a_little_late_are_put_in_order() -> None:
    times_ms = (3000, 1000, 2000, 5000, 4000, 0)
    jobs = [
        Submitted(at_ms, f"x:{n}", JobSpec(0, 0.0, "k", (), name=str(at_ms))) for n, at_ms in enumerate(times_ms, 1)
    ]
    found = list(in_order(jobs[:5], window=2))
    assert [(job.number, job.arrives_s, job.name) for job in found] == [
        (1, 0.0, "1000"), (2, 1.0, "2000"), (3, 2.0, "3000"), (4, 3.0, "4000"), (5, 4.0, "5000"),
    ]  # fmt: skip
    with pytest.raises(TraceError, match=r"x:6: job 0 .* more than 2 jobs behind"):
        list(in_order(jobs, window=2))
    mistakes = Mistakes(skip=True)
    jobs_read = list(in_order(jobs, mistakes, window=2))
    assert len(jobs_read) == 5 and mistakes.count == 1
    assert all(a.arrives_s <= b.arrives_s for a, b in pairwise(jobs_read))


def test_history_is_read_in_both_forms_and_all_that_was_not_done_is_left_out() -> None:
    (spec,) = read_specs(RECORDED / "binary.jhist")
    maps = (TaskSpec(4.0, hosts=("node1", "node2")),) * 2
    assert spec.tasks == (*maps, TaskSpec(2.5, REDUCE)), "the attempt that did it; a reduce from the last map's end on"
    assert (spec.name, spec.user, spec.queue) == ('word count é "{"', "ann", "root.batch")
    assert [spec] == list(read_specs(RECORDED / "json.jhist"))
    assert [job.durations_s for job in read(RECORDED / "binary.jhist")] == [(4.0, 4.0, 2.5)]


def test_a_folder_of_histories_is_one_trace_by_submission(tmp_path: Path) -> None:
    octets, text = (RECORDED / "binary.jhist").read_bytes(), (RECORDED / "json.jhist").read_text()
    (tmp_path / "2026").mkdir()
    (tmp_path / "2026" / "job_1_0002-1795287302000-ann-x-1795287303000-3-1-SUCCEEDED-q-1.jhist.gz").write_bytes(
        gzip.compress(text.replace('"submitTime":1795287300000', '"submitTime":1795287302000').encode())
    )
    (tmp_path / "job_1_0003-1795287300000-ann-x-1795287303000-3-1-SUCCEEDED-q-1.jhist").write_bytes(octets)
    assert [job.arrives_s for job in read(tmp_path)] == [0.0, 2.0]
    (tmp_path / "job_1_0004-1795287301000-ann-x-1795287303000-3-1-SUCCEEDED-q-1.jhist").write_bytes(octets[:-20])
    with pytest.raises(TraceError, match="no event: ends within"):
        list(read(tmp_path))
    mistakes = Mistakes(skip=True)
    assert len(list(read(tmp_path, mistakes=mistakes))) == 2 and mistakes.count == 1


@pytest.mark.parametrize("name", ("binary.jhist", "json.jhist"))
def test_a_history_that_is_cut_anywhere_is_refused_or_shorter(tmp_path: Path, name: str) -> None:
    octets = (RECORDED / name).read_bytes()
    path = tmp_path / name
    for cut in range(0, len(octets), 97):
        path.write_bytes(octets[:cut])
        try:
            jobs_read = list(read_specs(path, "jhist"))
        except TraceError as error:
            assert str(path) in error.place and error.remedy
        else:
            assert len(jobs_read) <= 1


def test_a_history_without_files_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no \.jhist files"):
        list(read(tmp_path))


def test_rumens_objects_count_again_after_a_broken_one(tmp_path: Path) -> None:
    one = {"submitTime": 5, "jobName": "a", "mapTasks": [{"startTime": 0, "finishTime": 2000}]}
    rows = [json.dumps(one), "oops", "{no}", "}", json.dumps(one | {"submitTime": "x"}), json.dumps(one), '{"a": 1']
    mistakes = Mistakes(skip=True)
    jobs_read = list(read(written(tmp_path, "\n".join(rows)), "rumen", mistakes=mistakes))
    assert [job.name for job in jobs_read] == ["a", "a"]
    assert mistakes.count == 4, mistakes.first


@pytest.mark.parametrize("reader", (read_hawk, read_jobs))
def test_a_packed_trace_is_read_too_and_a_cut_one_is_told(
    tmp_path: Path, reader: Callable[[Path], Iterator[SimulatedJob]]
) -> None:
    text = StringIO()
    (dump_hawk if reader is read_hawk else dump_jobs)([SimulatedJob(1, 1.0, (2.0,), 2.0)] * 99, text)
    packed = gzip.compress(text.getvalue().encode())
    path = tmp_path / "trace.gz"
    path.write_bytes(packed)
    assert len(list(reader(path))) == 99
    path.write_bytes(packed[:-12])
    with pytest.raises(TraceError, match="cannot be read"):
        list(reader(path))
