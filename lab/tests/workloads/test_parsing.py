"""Histories, traces, logs and outputs, read from what a real cluster gave."""

import json
from pathlib import Path
from typing import Any

import pytest

from quicksilver_lab.workloads import clients, distributed_shell, mapreduce
from quicksilver_lab.workloads.errors import OutputError
from quicksilver_lab.workloads.history import (
    JOB_COUNTERS,
    page_text,
    parse_attempts,
    parse_counters,
    parse_job,
    parse_log_links,
)
from quicksilver_lab.workloads.records import (
    GUARANTEED,
    OPPORTUNISTIC,
    RecordedGrants,
    Seen,
    application_of,
    grants,
    is_master,
    tally,
)
from quicksilver_lab.workloads.rumen import read_trace
from tests.paths import DATA

RECORDED = DATA / "workloads"


def history(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"history_{name}.json").read_text())
    return found


def test_a_finished_job() -> None:
    job = parse_job(history("job")["job"])
    assert job is not None
    assert (job.id, job.name, job.queue) == ("job_1795251413914_0001", "word count", "root.batch")
    assert (job.maps, job.reduces, job.failed_attempts, job.killed_attempts) == (3, 2, 0, 0)
    assert job.finished_ms - job.submitted_ms == 18846


@pytest.mark.parametrize("answer", [None, {}, {"state": "RUNNING"}])
def test_a_job_that_is_not_finished_is_none(answer: dict[str, Any] | None) -> None:
    assert parse_job(answer) is None


def test_counters_by_group_and_name() -> None:
    counters = parse_counters(history("counters"))
    assert counters[JOB_COUNTERS]["TOTAL_LAUNCHED_MAPS"] == 3
    assert counters["org.apache.hadoop.mapreduce.TaskCounter"]["MAP_INPUT_RECORDS"] == 500
    alone = {"counterGroupName": "g", "counter": {"name": "c", "totalCounterValue": 7}}
    assert parse_counters({"jobCounters": {"counterGroup": alone}}) == {"g": {"c": 7}}, "as Hadoop 3.5 writes one row"
    with pytest.raises(OutputError, match="no counters"):
        parse_counters({"jobCounters": {"id": "job_1_0001"}})


def test_attempts_name_their_container() -> None:
    (attempt,) = parse_attempts(history("attempts"))
    assert attempt.state == "SUCCEEDED"
    assert application_of(attempt.container) == "application_1795251413914_0001"
    assert parse_attempts({}) == []
    (row,) = history("attempts")["taskAttempts"]["taskAttempt"]
    assert parse_attempts({"taskAttempts": {"taskAttempt": row}}) == [attempt], "as Hadoop 3.5 writes one row"


def test_log_links_have_the_port_of_the_node_id() -> None:
    links = parse_log_links((RECORDED / "history_attempts.html").read_text())
    assert links == {
        "attempt_1795251413914_0001_m_000001_0": "/jobhistory/logs/127.0.0.11:16100/"
        "container_1795251413914_0001_01_000003/attempt_1795251413914_0001_m_000001_0/alice",
        "attempt_1795251413914_0001_m_000000_0": "/jobhistory/logs/127.0.0.13:16120/"
        "container_1795251413914_0001_01_000002/attempt_1795251413914_0001_m_000000_0/alice",
    }


def test_text_of_a_page() -> None:
    assert page_text("<p>Log&nbsp;Type: <b>syslog</b>  \n\n  a &lt; b</p>") == "Log\xa0Type: syslog\na < b"


def test_a_trace_is_one_object_after_the_other() -> None:
    jobs = read_trace(RECORDED / "trace.json")
    assert [(job.maps, job.reduces, job.queue) for job in jobs] == [
        (2, 1, "default"),
        (4, 2, "batch"),
        (1, 1, "batch"),
    ]
    assert {job.outcome for job in jobs} == {"SUCCESS"}
    assert all(job.submitted_ms <= job.launched_ms <= job.finished_ms for job in jobs)


@pytest.mark.parametrize(
    ("text", "place"), [('{"jobID": "job_1_1"', 0), ('{"jobID": "job_1_1"}', 0), ("[]", 0), (" ?", 1)]
)
def test_a_broken_trace_is_an_error_with_its_place(tmp_path: Path, text: str, place: int) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(text)
    with pytest.raises(OutputError, match=rf"trace\.json: no job at character {place}"):
        read_trace(trace)


APP = "application_1795250857917_"


def test_grants_by_the_resourcemanagers_log() -> None:
    found = grants((RECORDED / "resourcemanager.log").read_text())
    assert len(found.opportunistic) == 8
    assert {application_of(container) for container in found.opportunistic} == {f"{APP}0002", f"{APP}0003"}
    assert len(found.all) == 17
    assert sum(map(is_master, found.all)) == 3


def test_containers_given_back_before_they_started() -> None:
    line = "2026-11-25 10:00:00,000 INFO a.RMContainerImpl: {} Container Transitioned from {} to RELEASED\n"
    log = "Allocated [container_1_0001_01_000002] as opportunistic at location [127.0.0.11]\n"
    log += "Allocated [container_1_0001_01_000003] as opportunistic at location [127.0.0.11]\n"
    log += line.format("container_1_0001_01_000002", "ACQUIRED") + line.format("container_1_0001_01_000003", "RUNNING")
    assert grants(log).released == {"container_1_0001_01_000002"}


def test_the_records_of_an_application_are_compared() -> None:
    granted = grants((RECORDED / "resourcemanager.log").read_text())
    prefix = "container_1795250857917_0002_01_00000"
    types = {1: GUARANTEED, 2: OPPORTUNISTIC, 3: OPPORTUNISTIC, 4: GUARANTEED}
    seen = [Seen(f"{prefix}{n}", "127.0.0.11:1" if n < 4 else "127.0.0.12:1", kind) for n, kind in types.items()]
    found = tally(f"{APP}0002", granted, [*seen, Seen("container_1_0009_01_000002", "127.0.0.11:1", OPPORTUNISTIC)])
    assert (found.granted, found.rm_opportunistic, found.ran, found.nm_opportunistic) == (4, 4, 3, 2)
    assert found.nodes == {"127.0.0.11:1": 2, "127.0.0.12:1": 1}
    assert found.disagreeing == (f"{prefix}4",)
    assert json.loads(json.dumps(found.as_dict()))["disagreeing"] == [f"{prefix}4"]


def test_nothing_granted_and_nothing_seen() -> None:
    assert tally("application_1_0001", RecordedGrants(frozenset(), frozenset()), []).ran == 0


@pytest.mark.parametrize(
    ("container", "application", "master"),
    [
        ("container_1795_0003_01_000001", "application_1795_0003", True),
        ("container_1795_0003_02_000001", "application_1795_0003", True),
        ("container_1795_0003_01_000011", "application_1795_0003", False),
        ("container_e17_1795_0003_01_000002", "application_1795_0003", False),
        ("no container", "no container", False),
    ],
)
def test_container_ids(container: str, application: str, master: bool) -> None:
    assert (application_of(container), is_master(container)) == (application, master)


def test_ids_in_the_output_of_clients() -> None:
    text = "INFO YarnClientImpl: Submitted application application_17_0001\nINFO Job: Running job: job_17_0001\n"
    assert clients.job_id(text) == "job_17_0001"
    assert clients.application_id(text) == "application_17_0001"
    with pytest.raises(OutputError, match="no job id"):
        clients.job_id("Exception in thread main")


def test_marks_of_shell_containers() -> None:
    logs = (
        "LogType:stdout\nshell-container-ran container_1_0001_01_000002\nEnd of LogType\n"
        "echo shell-container-ran $CONTAINER_ID\nshell-container-ran container_1_0001_01_000003\n"
        "shell-container-ran container_1_0001_01_000003\n"
    )
    assert distributed_shell.marks(logs) == {"container_1_0001_01_000002", "container_1_0001_01_000003"}


def test_text_is_the_same_every_time_and_its_words_are_counted() -> None:
    text = mapreduce.make_text(50, seed=3)
    assert text == mapreduce.make_text(50, seed=3) != mapreduce.make_text(50, seed=4)
    counts = mapreduce.count_words(text)
    assert sum(counts.values()) == 50 * 8
    output = "".join(f"{word}\t{count}\n" for word, count in counts.items())
    assert mapreduce.parse_counts(output) == counts
    assert mapreduce.differences(counts, mapreduce.parse_counts(output)) == {}


def test_differences_between_outputs() -> None:
    assert mapreduce.differences({"a": 1, "b": 2}, {"b": 3, "c": 4}) == {"a": (1, 0), "b": (2, 3), "c": (0, 4)}


def test_estimate_of_pi() -> None:
    assert mapreduce.pi_estimate("Job Finished in 28.1 seconds\nEstimated value of Pi is 3.1400000\n") == 3.14
    with pytest.raises(OutputError, match="no estimate of pi"):
        mapreduce.pi_estimate("Job failed")


def test_options_of_a_job() -> None:
    options = mapreduce.JobOptions(queue="batch", tags=("a", "b"), properties={"x.y": "1"})
    assert options.arguments() == ["-Dmapreduce.job.queuename=batch", "-Dmapreduce.job.tags=a,b", "-Dx.y=1"]
