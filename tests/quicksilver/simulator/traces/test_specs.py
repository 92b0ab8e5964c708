"""Traces become jobs; what is broken is told with its line and what to do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quicksilver.simulator.traces.dynoyarn import read_dynoyarn, write_dynoyarn
from quicksilver.simulator.traces.lines import TraceError
from quicksilver.simulator.traces.rumen import read_rumen
from quicksilver.simulator.traces.spec import MAP, REDUCE, JobSpec, TaskSpec
from quicksilver.simulator.traces.swim import SwimModel, read_swim
from tests.paths import DATA

RECORDED = DATA / "workloads"
MB = 2**20


def written(tmp_path: Path, text: str, name: str = "trace") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_swim_tells_bytes_and_the_model_makes_tasks_of_them(tmp_path: Path) -> None:
    path = written(tmp_path, f"job0\t49\t49\t{300 * MB}\t0\t{MB}\njob1\t101\t52\t10\t{600 * MB}\t{400 * MB}\n")
    first, second = read_swim(path, SwimModel(map_mb_s=50.0, reduce_mb_s=50.0, least_s=2.0))
    assert (first.arrives_s, first.klass, first.name, len(first.tasks)) == (0.0, "map", "job0", 3)
    assert first.tasks[0].duration_s == pytest.approx(2.0 + 100 / 50)
    assert (second.number, second.arrives_s, second.klass) == (2, 52.0, "map-reduce")
    assert [task.stage for task in second.tasks] == [MAP, REDUCE, REDUCE]
    assert second.tasks[1].duration_s == pytest.approx(2.0 + 500 / 50)


@pytest.mark.parametrize(
    ("text", "what"),
    (
        ("job0\t1\t1\t1\t1\t1\njob1 2 2\n", ":2: 1 fields instead of 6"),
        ("\n\njob0\t1\t1\tmany\t1\t1\n", ":3: .*many"),
        ("job0\t1\t1\t-5\t1\t1\n", ":1: a negative number"),
    ),
)
def test_broken_swim_lines_are_told_with_their_number(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(TraceError, match=what) as caught:
        list(read_swim(written(tmp_path, text)))
    assert caught.value.remedy


def attempt(start_ms: int, finish_ms: int, result: str = "SUCCESS") -> dict[str, Any]:
    return {"startTime": start_ms, "finishTime": finish_ms, "result": result}


def rumen_job(**more: Any) -> dict[str, Any]:
    layers = {"layers": ["default-rack", "node1"]}
    return {
        "jobID": "job_1",
        "jobName": 'a "quoted" {name}',
        "queue": "batch",
        "user": "alice",
        "jobtype": "JAVA",
        "submitTime": 1000,
        "jobMapMB": 300,
        "jobReduceMB": 500,
        "mapTasks": [
            {
                "startTime": 0,
                "finishTime": 1,
                "attempts": [attempt(1000, 9000, "KILLED"), attempt(2000, 5000)],
                "preferredLocations": [layers, layers],
            },
            {"startTime": 2000, "finishTime": 4000, "attempts": []},
        ],
        "reduceTasks": [{"startTime": 0, "finishTime": 0, "attempts": [attempt(2500, 7000)]}],
    } | more


def test_rumen_tells_what_attempts_took(tmp_path: Path) -> None:
    later = rumen_job(submitTime=3500, reduceTasks=[], mapTasks=[{"startTime": 5, "finishTime": 1}], jobMapMB=-1)
    empty = rumen_job(mapTasks=[], reduceTasks=[])
    text = json.dumps(rumen_job(), indent=2) + json.dumps(empty) + "\n " + json.dumps(later | {"jobReduceMB": -1})
    one, two = read_rumen(written(tmp_path, text))
    assert one == JobSpec(
        1,
        0.0,
        "java",
        (TaskSpec(3.0, MAP, ("node1",)), TaskSpec(2.0, MAP), TaskSpec(2.0, REDUCE)),
        "batch",
        "alice",
        memory_mb=500,
        name='a "quoted" {name}',
    ), "a reduce counts from the end of the last map"
    assert (two.number, two.arrives_s, two.tasks, two.memory_mb) == (2, 2.5, (TaskSpec(0.0),), 1024)


def test_a_real_rumen_trace_is_read_packed_or_not(tmp_path: Path) -> None:
    plain = list(read_rumen(RECORDED / "trace.json"))
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress((RECORDED / "trace.json").read_bytes()))
    assert plain == list(read_rumen(packed))
    assert all(job.tasks and all(task.duration_s >= 0 for task in job.tasks) for job in plain) and plain


@pytest.mark.parametrize(
    ("text", "what"),
    (
        (json.dumps(rumen_job()) + "\n" + json.dumps(rumen_job(submitTime="soon")), ":2: not Rumen"),
        (json.dumps(rumen_job(mapTasks=[{"attempts": []}])), ":1: not Rumen.*startTime"),
        ('{\n "jobID": 1,\n oops\n}', ":3: no JSON"),
        ('{"jobID": 1', ":1: ends within a job"),
        ('{"submitTime": 1}\n}', ":2: a } too many"),
        ('{"submitTime": 1} and more', "ends within"),
    ),
)
def test_broken_rumen_traces_are_told_with_their_line(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(TraceError, match=what) as caught:
        list(read_rumen(written(tmp_path, text)))
    assert caught.value.remedy


def app(**more: Any) -> dict[str, Any]:
    batch = {"numInstances": 3, "averageRuntime": 1500, "priority": 20, "resource": {"memoryMB": 2048, "vcores": 1}}
    last = {"runtimes": [2000, 500], "priority": 10, "resource": {"memoryMB": 1024, "vcores": 1}}
    none = {"numInstances": 0, "averageRuntime": 0, "priority": 5, "resource": {"memoryMB": 1}}
    return {"appId": "application_1_1", "submitTime": 10000, "resourceRequestSpecs": [none, batch, last]} | more


def test_dynoyarn_tells_batches(tmp_path: Path) -> None:
    lines = [app(user="u", queue="q", appType="TEZ", applicationTags=["x", "expected_s:2.5"]), app(submitTime=12500)]
    first, second = read_dynoyarn(written(tmp_path, "\n".join(map(json.dumps, lines))))
    tasks = (*[TaskSpec(1.5)] * 3, TaskSpec(2.0, REDUCE), TaskSpec(0.5, REDUCE))
    assert first == JobSpec(1, 0.0, "tez", tasks, "q", "u", 2.5, 2048, "application_1_1")
    assert (second.arrives_s, second.user, second.queue, second.told_s) == (2.5, "bench", "default", None)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    jobs = [
        JobSpec(1, 0.0, "mapreduce", (TaskSpec(1.25), TaskSpec(3.0, REDUCE)), "a", "u", 1.5, 512, "one"),
        JobSpec(2, 4.5, "mapreduce", (TaskSpec(2.0, slow_times=3.0),), name="two"),
    ]
    path = tmp_path / "jobs.jsonl"
    assert write_dynoyarn(jobs, path) == 2
    first, second = read_dynoyarn(path)
    assert first == jobs[0]
    assert second.tasks == (TaskSpec(6.0),) and second.arrives_s == 4.5


@pytest.mark.parametrize(
    ("text", "what"),
    (
        (json.dumps(app()) + "\n{oops}", ":2: no JSON"),
        ("[1]", ":1: no JSON object"),
        (json.dumps(app(resourceRequestSpecs=[])), ":1: application_1_1 asks for no container"),
        (json.dumps({"appId": "x"}), ":1: not DynoYARN.*resourceRequestSpecs"),
        (json.dumps(app(resourceRequestSpecs=[{"runtimes": [-1], "resource": {"memoryMB": 1}}])), "below 0"),
    ),
)
def test_broken_dynoyarn_lines_are_told_with_their_number(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(TraceError, match=what) as caught:
        list(read_dynoyarn(written(tmp_path, text)))
    assert caught.value.remedy


@pytest.mark.parametrize("reader", (read_swim, read_rumen, read_dynoyarn))
def test_files_that_cannot_be_read_are_told(tmp_path: Path, reader: Callable[[Path], Iterator[JobSpec]]) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        list(reader(tmp_path / "missing"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00" * 9)
    with pytest.raises(TraceError, match="cannot be read"):
        list(reader(tmp_path / "binary"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"{}" * 99)[:-9])
    with pytest.raises(TraceError, match=r"cannot be read|not |fields|asks"):
        list(reader(tmp_path / "cut.gz"))


def test_a_trace_is_read_as_a_stream(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(app()) + "\n" + json.dumps(app()) + "\nbroken")
    stream = read_dynoyarn(path)
    assert [next(stream).number, next(stream).number] == [1, 2]
    with pytest.raises(TraceError, match=":3"):
        next(stream)
