"""The emulated MapReduce master: asks are absolute and only changed ones go out; nothing is lost or asked twice."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_lab.bench.emulator.masters.am import AmSettings, Command, MapReduceAm, TaskLaunch, TaskStop
from quicksilver_lab.bench.emulator.model import MAP, REDUCE, JobSpec, TaskSpec
from rm_proxy.domain.ids import container_id_proto

RACK = "/default-rack"


def job(*tasks: TaskSpec, memory_mb: int = 1024) -> JobSpec:
    return JobSpec(1, 0.0, "test", tasks, memory_mb=memory_mb)


def name(number: int) -> str:
    return f"container_7_0001_01_{number:06d}"


def grant(number: int, priority: int, host: str = "h1", opportunistic: bool = False) -> y.ContainerProto:
    container = y.ContainerProto(id=container_id_proto(name(number)))
    container.priority.priority = priority
    container.nodeId.host, container.nodeId.port = host, 8041
    identifier = y.ContainerTokenIdentifierProto(executionType=y.OPPORTUNISTIC if opportunistic else y.GUARANTEED)
    token = container.container_token
    token.identifier, token.password, token.kind, token.service = identifier.SerializeToString(), b"", "", ""
    return container


def ended(number: int, exit_status: int) -> y.ContainerStatusProto:
    return y.ContainerStatusProto(container_id=container_id_proto(name(number)), exit_status=exit_status)


def answer(
    *granted: y.ContainerProto, ends: tuple[y.ContainerStatusProto, ...] = (), room: int = 0
) -> y.AllocateResponseProto:
    found = y.AllocateResponseProto(response_id=1, allocated_containers=granted, completed_container_statuses=ends)
    found.limit.memory = room * 1024
    return found


def rows(am: MapReduceAm) -> dict[tuple[int, str], int]:
    request = am.request()
    return {} if request is None else {(r.priority.priority, r.resource_name): r.num_containers for r in request.ask}


def started(commands: list[Command]) -> dict[str, int]:
    return {one.container_id: one.task for one in commands if isinstance(one, TaskLaunch)}


def test_only_changed_rows_go_out_and_they_are_absolute() -> None:
    am = MapReduceAm(job(*[TaskSpec(2.0)] * 3), AmSettings(), 0.0)
    assert rows(am) == {(20, "*"): 3}
    assert am.request() is None
    assert started(am.answered(answer(grant(1, 20), grant(2, 20)), 1.0)) == {name(1): 0, name(2): 1}
    assert rows(am) == {(20, "*"): 1}
    am.answered(answer(grant(3, 20)), 2.0)
    assert rows(am) == {(20, "*"): 0}
    assert am.request() is None


def test_a_job_goes_through_its_life() -> None:
    am = MapReduceAm(job(TaskSpec(2.0)), AmSettings(), 10.0)
    am.answered(answer(grant(1, 20, opportunistic=True)), 11.0)
    am.began(name(1), 12.0)
    assert not am.over
    assert am.done(name(1), 14.0)
    assert am.over and am.open_containers == 1
    assert not am.done(name(1), 14.5), "a second end is nobody's"
    am.answered(answer(ends=(ended(1, 0),)), 15.0)
    assert am.open_containers == 0
    (record,) = am.records
    assert (record.wanted_s, record.granted_s, record.started_s, record.ended_s) == (10.0, 11.0, 12.0, 14.0)
    assert (record.attempts, record.killed, record.node, record.opportunistic) == (1, 0, "h1:8041", True)


@pytest.mark.parametrize("status", (-100, -102, -108))
def test_a_killed_task_is_asked_for_again_and_did_not_fail(status: int) -> None:
    am = MapReduceAm(job(TaskSpec(2.0, hosts=("h1",))), AmSettings(most_failures=1), 0.0)
    assert rows(am) == {(20, "h1"): 1, (20, RACK): 1, (20, "*"): 1}
    am.answered(answer(grant(1, 20)), 1.0)
    am.began(name(1), 2.0)
    am.answered(answer(ends=(ended(1, status),)), 3.5)
    assert rows(am) == {(20, "h1"): 1, (20, RACK): 1, (20, "*"): 1}
    (record,) = am.records
    assert (record.killed, record.lost_s, record.started_s, am.broken) == (1, 1.5, None, "")
    assert not am.done(name(1), 4.0), "a process that was killed has nothing to say"
    assert started(am.answered(answer(grant(2, 20)), 4.0)) == {name(2): 0}
    assert record.attempts == 2


@pytest.mark.parametrize("status", (-105, -106, 1, 0))
def test_a_failed_map_is_asked_for_before_all_others_until_it_failed_too_often(status: int) -> None:
    am = MapReduceAm(job(TaskSpec(2.0, hosts=("h1",)), TaskSpec(2.0)), AmSettings(most_failures=2), 0.0)
    am.answered(answer(grant(1, 20)), 1.0)
    am.answered(answer(ends=(ended(1, status),)), 2.0)
    assert rows(am)[5, "*"] == 1
    assert started(am.answered(answer(grant(2, 5, "h9")), 3.0)) == {name(2): 0}
    am.answered(answer(ends=(ended(2, status),)), 4.0)
    assert am.over and f"exit {status}" in am.broken and len(am.errors) == 2


def test_a_container_that_was_not_started_is_given_back_and_counts_as_a_failure() -> None:
    am = MapReduceAm(job(TaskSpec(2.0)), AmSettings(), 0.0)
    am.answered(answer(grant(1, 20)), 1.0)
    am.request()
    am.refused(name(1), "no such luck", 2.0)
    request = am.request()
    assert request is not None and [one.id for one in request.release] == [1]
    assert [(r.priority.priority, r.num_containers) for r in request.ask] == [(5, 1)]
    assert "no such luck" in am.errors[0]
    am.answered(answer(ends=(ended(1, -100),)), 3.0)
    assert am.request() is None, "the end of a container that was given back is no news"


def test_containers_beyond_need_are_released_once() -> None:
    am = MapReduceAm(job(TaskSpec(2.0)), AmSettings(), 0.0)
    assert started(am.answered(answer(grant(1, 20), grant(2, 20), grant(3, 10), grant(4, 77)), 1.0)) == {name(1): 0}
    request = am.request()
    assert request is not None and sorted(one.id for one in request.release) == [2, 3, 4]
    assert am.request() is None and am.released == 3


def test_a_grant_goes_to_the_task_with_its_data_there_then_in_the_rack_then_to_the_oldest() -> None:
    racks = {"h1": "/a", "h2": "/a", "h3": "/b"}
    tasks = (TaskSpec(1.0, hosts=("h3",)), TaskSpec(1.0, hosts=("h2",)), TaskSpec(1.0, hosts=("h1",)))
    am = MapReduceAm(job(*tasks), AmSettings(), 0.0, lambda host: racks.get(host, "/c"))
    assert rows(am)[20, "/a"] == 2
    assert started(am.answered(answer(grant(1, 20, "h1")), 1.0)) == {name(1): 2}
    assert started(am.answered(answer(grant(2, 20, "h1")), 1.0)) == {name(2): 1}
    assert started(am.answered(answer(grant(3, 20, "h7")), 1.0)) == {name(3): 0}
    assert set(rows(am).values()) == {0}


def test_a_share_of_the_maps_is_asked_for_as_opportunistic_without_places() -> None:
    am = MapReduceAm(job(*[TaskSpec(1.0, hosts=("h1",))] * 100), AmSettings(opportunistic_percent=30), 0.0)
    request = am.request()
    assert request is not None
    told = {
        (r.priority.priority, r.resource_name): (
            r.num_containers,
            r.execution_type_request.execution_type == y.OPPORTUNISTIC,
            r.execution_type_request.enforce_execution_type,
        )
        for r in request.ask
    }
    assert told == {
        (19, "*"): (30, True, True),
        (20, "h1"): (70, False, False),
        (20, RACK): (70, False, False),
        (20, "*"): (70, False, False),
    }


def test_reduces_wait_for_the_slow_start_and_ramp_up_with_the_maps() -> None:
    tasks = [TaskSpec(1.0)] * 4 + [TaskSpec(1.0, stage=REDUCE)] * 4
    am = MapReduceAm(job(*tasks), AmSettings(slow_start=0.5), 0.0)
    assert rows(am) == {(20, "*"): 4}
    am.answered(answer(grant(1, 20), grant(2, 20)), 1.0)
    am.done(name(1), 2.0)
    am.answered(answer(ends=(ended(1, 0),), room=2), 2.5)
    assert rows(am) == {(20, "*"): 2}, "a quarter of the maps is done"
    am.done(name(2), 3.0)
    am.answered(answer(ends=(ended(2, 0),), room=4), 3.5)
    assert rows(am) == {(10, "*"): 2}, "half of four containers, as half of the maps is done"
    am.answered(answer(grant(3, 20), grant(4, 20), room=2), 4.0)
    assert rows(am) == {(20, "*"): 0, (10, "*"): 4}, "no map waits: all reduces are asked for"
    assert started(am.answered(answer(grant(5, 10)), 5.0)) == {name(5): 4}


def test_reduces_are_stopped_for_a_map_that_finds_no_room() -> None:
    am = MapReduceAm(job(TaskSpec(1.0), *[TaskSpec(9.0, stage=REDUCE)] * 2), AmSettings(slow_start=0.0), 0.0)
    am.answered(answer(room=0), 0.5)
    am.answered(answer(grant(1, 20)), 1.0)
    am.answered(answer(grant(2, 10), grant(3, 10)), 2.0)
    am.began(name(2), 2.0)
    am.began(name(3), 3.0)
    assert [c.container_id for c in am.answered(answer(ends=(ended(1, -100),)), 4.0) if isinstance(c, TaskStop)] == [
        name(3)
    ]
    am.answered(answer(ends=(ended(3, -105),)), 5.0)
    assert am.records[2].killed == 1 and not am.errors, "a reduce that the master stopped did not fail"


def test_after_a_resync_everything_outstanding_goes_out_again() -> None:
    am = MapReduceAm(job(*[TaskSpec(2.0, hosts=("h1",))] * 2), AmSettings(), 0.0)
    am.request()
    am.answered(answer(grant(1, 20), grant(2, 10)), 1.0)
    am.request()
    assert am.request() is None
    am.resync()
    request = am.request()
    assert request is not None and [one.id for one in request.release] == [2]
    assert {(r.resource_name, r.num_containers) for r in request.ask} == {("h1", 1), (RACK, 1), ("*", 1)}


@pytest.mark.parametrize(
    "wrong", ({"opportunistic_percent": 101}, {"slow_start": -0.1}, {"ramp_up_limit": 2.0}, {"most_failures": 0})
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AmSettings(**wrong)  # type: ignore[arg-type]


HOSTS = ("h1", "h2", "h3")
TASKS = st.builds(
    TaskSpec,
    duration_s=st.just(1.0),
    stage=st.sampled_from((MAP, MAP, REDUCE)),
    hosts=st.lists(st.sampled_from(HOSTS), unique=True, max_size=2).map(tuple),
)


@pytest.mark.long
@given(
    tasks=st.lists(TASKS, min_size=1, max_size=8),
    percent=st.sampled_from((0, 30, 100)),
    slow_start=st.sampled_from((0.0, 0.5, 1.0)),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_whatever_happens_every_task_is_asked_for_as_often_as_it_is_missing(
    tasks: list[TaskSpec], percent: int, slow_start: float, data: st.DataObject
) -> None:
    am = MapReduceAm(job(*tasks), AmSettings(percent, slow_start, most_failures=99), 0.0)
    serial, told, dones = 0, Counter[tuple[int, str]](), Counter[int]()
    running: dict[int, int] = {}
    for now_s in range(60):
        if am.over:
            break
        for key, count in rows(am).items():
            told[key] = count
        assert told == Counter(am.waiting.table.counts), "what was told is what is wanted"
        missing = {n for n, record in enumerate(am.records) if record.ended_s is None} - set(running.values())
        assert set(am.waiting.maps) == {n for n in missing if tasks[n].stage == MAP}
        assert set(am.waiting.reduces) <= {n for n in missing if tasks[n].stage == REDUCE}
        assert am.open_asks == (am.waiting.table.total(5, 19, 20), am.waiting.table.total(10))
        grants = []
        for priority in (5, 10, 19, 20):
            for _ in range(data.draw(st.integers(0, 1 + told[priority, "*"]), "grants")):
                serial += 1
                grants.append(grant(serial, priority, data.draw(st.sampled_from((*HOSTS, "h9")))))
        ends = []
        for number in sorted(running):
            what = data.draw(st.sampled_from(("run", "done", "kill", "fail", "refuse")))
            task = running[number]
            if what == "done":
                dones[task] += am.done(name(number), now_s)
                ends.append(ended(number, 0))
            elif what in ("kill", "fail"):
                ends.append(ended(number, -102 if what == "kill" else 1))
            elif what == "refuse":
                am.refused(name(number), "refused", now_s)
            if what != "run":
                del running[number]
        commands = am.answered(answer(*grants, ends=tuple(ends), room=data.draw(st.integers(0, 4))), now_s)
        running |= {int(cid[-6:]): task for cid, task in started(commands).items()}
        for one in commands:
            if isinstance(one, TaskStop):
                number = int(one.container_id[-6:])
                am.answered(answer(ends=(ended(number, -105),)), now_s)
                running.pop(number)
        assert len(set(running.values())) == len(running), "no task runs twice at once"
    assert all(count == 1 for count in dones.values())
    assert all(record.attempts >= 1 for record in am.records if record.ended_s is not None)
