"""Traces become jobs; what is broken is told with its line and what to do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quicksilver.simulator.traces.formats.dynoyarn import read_dynoyarn, write_dynoyarn
from quicksilver.simulator.traces.formats.registry import read, read_specs
from quicksilver.simulator.traces.formats.rumen import read_rumen
from quicksilver.simulator.traces.formats.swim import SwimModel, read_swim
from quicksilver.simulator.traces.lines import Mistakes, TraceError
from quicksilver.simulator.traces.spec import MAP, REDUCE, WINDOW, JobSpec, TaskSpec
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
        ("job0\t1\t1\t1\t1\t1\njob1 2 2\n", ":2: 1 fields; a job has 6"),
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
    later = rumen_job(submitTime=3500, reduceTasks=[], mapTasks=[{"startTime": 5, "finishTime": 5}], jobMapMB=-1)
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
    path = written(tmp_path, (json.dumps(app()) + "\n") * (WINDOW + 2) + "broken")
    stream = read_dynoyarn(path)
    assert [next(stream).number, next(stream).number] == [1, 2]
    with pytest.raises(TraceError, match=f":{WINDOW + 3}"):
        next(stream)


LATE = (100, 0, 50)
"""Submissions as they stand in a trace, in seconds."""


def sls_job(at_ms: int, name: str = "job_1", **more: Any) -> dict[str, Any]:
    task = {"container.host": "/default-rack/node1", "container.start.ms": 1000, "container.end.ms": 11000}
    return {"job.start.ms": at_ms, "job.id": name, "job.tasks": [task | {"container.type": "map"}]} | more


def of_rumen(at_ms: int, name: str) -> str:
    return json.dumps(rumen_job(submitTime=at_ms, jobName=name))


def of_dynoyarn(at_ms: int, name: str) -> str:
    return json.dumps(app(submitTime=at_ms, appId=name))


def of_sls(at_ms: int, name: str) -> str:
    return json.dumps(sls_job(at_ms, name), indent=1)


@pytest.mark.parametrize(("fmt", "text_of"), (("rumen", of_rumen), ("dynoyarn", of_dynoyarn), ("sls", of_sls)))
def test_late_submissions_keep_their_times(tmp_path: Path, fmt: str, text_of: Callable[[int, str], str]) -> None:
    begin_ms = 1_700_000_000_000
    path = written(tmp_path, "\n".join(text_of(begin_ms + at_s * 1000, f"at {at_s}") for at_s in LATE))
    expected = [(1, 0.0, "at 0"), (2, 50.0, "at 50"), (3, 100.0, "at 100")]
    assert [(job.number, job.arrives_s, job.name) for job in read(path)] == expected
    assert [(job.number, job.arrives_s, job.name) for job in read_specs(path, fmt)] == expected


def test_histories_without_the_usual_names_keep_their_times(tmp_path: Path) -> None:
    text = (RECORDED / "json.jhist").read_text()
    for name, at_ms in (("a", 1795287350000), ("b", 1795287300000)):
        (tmp_path / f"{name}.jhist").write_text(text.replace('"submitTime":1795287300000', f'"submitTime":{at_ms}'))
    assert [job.arrives_s for job in read(tmp_path)] == [0.0, 50.0]


@pytest.mark.parametrize("text_of", (of_rumen, of_dynoyarn, of_sls))
def test_a_job_without_a_submission_is_a_mistake(tmp_path: Path, text_of: Callable[[int, str], str]) -> None:
    path = written(tmp_path, text_of(5000, "one") + "\n" + text_of(-1, "two") + "\n" + text_of(7000, "three"))
    line = text_of(5000, "one").count("\n") + 2
    with pytest.raises(TraceError, match=rf":{line}: a job without a time of submission \(-1\)"):
        list(read(path))
    mistakes = Mistakes(skip=True)
    assert [job.arrives_s for job in read(path, mistakes=mistakes)] == [0.0, 2.0] and mistakes.count == 1


def test_what_was_not_done_is_left_out_and_counted(tmp_path: Path) -> None:
    killed = {"taskStatus": "KILLED", "startTime": 1000, "finishTime": -1, "attempts": [attempt(1000, -1, "KILLED")]}
    never: dict[str, Any] = {"taskStatus": None, "startTime": -1, "finishTime": -1, "attempts": []}
    failed = {"startTime": 1000, "finishTime": 9000, "attempts": [attempt(1000, 9000, "FAILED")]}
    done = {"startTime": 1000, "finishTime": 9000, "attempts": [attempt(1000, -1, "KILLED"), attempt(2000, 9000)]}
    nothing = rumen_job(mapTasks=[killed], reduceTasks=[never])
    texts = [rumen_job(mapTasks=[killed, never, done], reduceTasks=[failed]), nothing, rumen_job(mapTasks=[])]
    mistakes = Mistakes()
    path = written(tmp_path, "\n".join(map(json.dumps, texts)))
    assert [job.durations_s for job in read(path, mistakes=mistakes)] == [(7.0,), (4.5,)]
    assert mistakes.left_out == {"tasks without a successful attempt": 5, "jobs without a task that counts": 1}
    assert mistakes.words() == [
        "1 jobs without a task that counts left out", "5 tasks without a successful attempt left out",
    ]  # fmt: skip
    with pytest.raises(TraceError, match="no job is left in it: 1 jobs without a task that counts left out"):
        list(read(written(tmp_path, json.dumps(nothing)), mistakes=Mistakes()))


def test_a_reduce_never_takes_nothing_as_a_map_was_done_again_behind_it(tmp_path: Path) -> None:
    maps = [{"attempts": [attempt(0, end_ms)]} for end_ms in (4000, 30_000)]
    path = written(tmp_path, json.dumps(rumen_job(mapTasks=maps, reduceTasks=[{"attempts": [attempt(1000, 9000)]}])))
    (job,) = read(path)
    assert job.durations_s == (4.0, 30.0, 5.0)


@pytest.mark.parametrize("span", ((5000, 1000), (-1, 5000), (5000, -1)))
def test_a_successful_attempt_without_a_duration_is_a_mistake(tmp_path: Path, span: tuple[int, int]) -> None:
    path = written(tmp_path, json.dumps(rumen_job(mapTasks=[{"attempts": [attempt(*span)]}])))
    with pytest.raises(TraceError, match=f":1: a successful task from {span[0]} to {span[1]} ms"):
        list(read(path))


def test_indented_objects_are_read_as_those_of_a_line(tmp_path: Path) -> None:
    two = [app(), app(submitTime=12500)]
    plain = list(read(written(tmp_path, "\n".join(map(json.dumps, two)))))
    assert list(read(written(tmp_path, "\n".join(json.dumps(one, indent=2) for one in two)))) == plain
    jobs = [{"arrives_s": 1, "durations_s": [1]}, {"arrives_s": 2, "durations_s": [3]}]
    found = list(read(written(tmp_path, "\n".join(json.dumps(one, indent=2) for one in jobs))))
    assert [job.durations_s for job in found] == [(1.0,), (3.0,)]


def test_swim_with_input_paths(tmp_path: Path) -> None:
    path = written(tmp_path, f"one\t1\t1\t{MB}\t0\t{MB}\tin1\t\t\ntwo\t4\t3\t{256 * MB}\t0\t{MB}\tin2\t\t\n")
    assert [(job.arrives_s, job.name, len(job.durations_s)) for job in read(path)] == [(0.0, "one", 1), (3.0, "two", 2)]


def test_sls_tells_containers(tmp_path: Path) -> None:
    tasks = [
        {"count": 2, "duration.ms": 5000, "container.memory-mb": 2048},
        {"container.start.ms": 4000, "container.end.ms": 11000, "container.type": "reduce"},
    ]
    job = sls_job(20_000, "b", **{"job.count": 2, "job.tasks": tasks, "job.user": "ann", "job.queue.name": "q"})
    nodes = {"num.nodes": 3, "num.racks": 1}
    path = written(tmp_path, "".join(json.dumps(one, indent=1) for one in (nodes, job, sls_job(15_000))))
    first, second, third = read_specs(path)
    assert first == JobSpec(1, 0.0, "mapreduce", (TaskSpec(10.0, MAP, ("node1",)),), user="default", name="job_1")
    assert (second.arrives_s, third.arrives_s, second.tasks) == (5.0, 5.0, third.tasks)
    assert second.tasks == (TaskSpec(5.0), TaskSpec(5.0), TaskSpec(7.0, REDUCE))
    assert (second.user, second.queue, second.memory_mb) == ("ann", "q", 2048)


@pytest.mark.parametrize(
    ("more", "what"),
    (
        ({"job.tasks": [{"container.start.ms": 1000, "container.end.ms": -1}]}, "a successful task from 1000 to -1 ms"),
        ({"job.tasks": [{"duration.ms": 0}]}, "a task of 0 ms"),
        ({"job.tasks": []}, "a job without tasks"),
        ({"job.tasks": [{"container.start.ms": 1000}]}, "not SLS.*container.end.ms"),
    ),
)
def test_broken_sls_jobs_are_told_with_their_line(tmp_path: Path, more: dict[str, Any], what: str) -> None:
    with pytest.raises(TraceError, match=f":1: {what}"):
        list(read(written(tmp_path, json.dumps(sls_job(0, **more)))))


@pytest.mark.parametrize("name", ("empty.jsonl", "nodes.json"))
def test_a_trace_of_which_no_job_is_left_is_an_error(tmp_path: Path, name: str) -> None:
    text = {"empty.jsonl": '{"arrives_s": -1, "durations_s": [1]}', "nodes.json": '{"num.nodes": 3}'}[name]
    mistakes = Mistakes(skip=True)
    with pytest.raises(TraceError, match="no job is"):
        list(read(written(tmp_path, text), mistakes=mistakes))


def test_dynoyarn_batches_without_runtimes_are_a_mistake(tmp_path: Path) -> None:
    batch = {"numInstances": 3, "resource": {"memoryMB": 1}}
    whole = {"runtimes": [5], "resource": {"memoryMB": 1}}
    for text, what in (
        (app(resourceRequestSpecs=[whole, batch]), "3 instances without runtimes"),
        (app(resourceRequestSpecs=[whole, batch | {"numInstances": -3, "averageRuntime": 5}]), "below 0"),
        ({key: value for key, value in app().items() if key != "submitTime"}, "submitTime"),
    ):
        with pytest.raises(TraceError, match=f":1: not DynoYARN.*{what}"):
            list(read(written(tmp_path, json.dumps(text))))
