"""Full limits come back whatever happens to the sidecar: the guardian, and what cleans up after an earlier life."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sidecar.resizer.base import Leader
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.processes import groups_of, look, scan
from sidecar.resizer.signals import Signals
from sidecar.service.guardian import Records
from sidecar.service.guardian_client import Guardian
from sidecar.service.resizing.stale_limits import SidecarAliveError, await_guardians, clean, guardians
from tests.sidecar.resizer.containers import (
    BURNER,
    NAME,
    PARENT,
    container,
    groups_left,
    needs_cgroup1,
    session,
    wait_until,
)

LABEL = f"{PARENT}/node1"
CPU = Path("/sys/fs/cgroup/cpu")
OTHER = "container_1700000000000_0001_01_000003"
PATIENCE_S = 120
"""Ends a test that hangs; a starved guardian takes long to load."""
SIDECAR = """
import asyncio, sys
from sidecar.service.guardian_client import Guardian
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.processes import leader_of
from sidecar.resizer.signals import Signals
async def main():
    label, cid, shrunk, other, frozen, stopped_cid, stopped = sys.argv[1:]
    guardian, resizer, signals = Guardian(label), Cgroup1(label), Signals()
    guardian.start()
    for used, name, pid in ((resizer, cid, shrunk), (resizer, other, frozen), (signals, stopped_cid, stopped)):
        used.attach(name, leader_of(int(pid)))
        assert guardian.put(name, used.undo(name))
    guardian.clean(resizer.parents())
    resizer.shrink(cid, 0.05); resizer.freeze(other); signals.freeze(stopped_cid)
    print(guardian.pid, flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""


def quiet(leader: Leader) -> bool:
    return all(p.state == "T" for p in scan().values() if p.session == leader.pid and not p.over)


async def eventually(true: Callable[[], bool], what: str) -> None:
    """Let the loop go on until something is true."""
    for _ in range(2000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never: {what}")


def over(pid: int) -> bool:
    process = look(pid)
    return process is None or process.over


@contextlib.contextmanager
def sidecar(*words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a process that has three containers in hand; and its guardian's process id."""
    process = subprocess.Popen([sys.executable, "-c", SIDECAR, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def no_groups_left() -> Iterator[None]:
    needs_cgroup1()
    yield
    assert groups_left() == []


@pytest.mark.cgroup
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.usefixtures("no_groups_left")
def test_a_killed_sidecar_s_containers_get_everything_back(number: int) -> None:
    third = "container_1700000000000_0001_01_000004"
    with container(BURNER) as shrunk, container(BURNER) as frozen, container(BURNER) as stopped:
        before = groups_of(shrunk.pid)
        words = (LABEL, NAME, str(shrunk.pid), OTHER, str(frozen.pid), third, str(stopped.pid))
        with sidecar(*words) as (process, guardian_pid):
            group = CPU / LABEL / NAME
            assert (group / "cpu.cfs_quota_us").read_text() == "5000\n"
            assert quiet(stopped)
            assert guardians(LABEL) == [guardian_pid]
            for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                os.kill(guardian_pid, ignored)
            time.sleep(0.1)
            assert not over(guardian_pid)
            process.send_signal(number)
            process.wait(60)
            wait_until(lambda: groups_left() == [], "no groups")
            wait_until(lambda: over(guardian_pid), "the guardian ends")
        assert not quiet(stopped)
        for leader in (shrunk, frozen):
            assert groups_of(leader.pid) == before
        burner = max(session(frozen.pid))
        used = sum(psutil.Process(burner).cpu_times()[:2])
        wait_until(lambda: sum(psutil.Process(burner).cpu_times()[:2]) > used, "the thawed one goes on")


@pytest.mark.cgroup
@pytest.mark.usefixtures("no_groups_left")
async def test_a_guardian_that_dies_is_replaced_and_told_all() -> None:
    guardian, resizer = Guardian(LABEL), Cgroup1(LABEL)
    guardian.start()
    with container() as leader:
        resizer.attach(NAME, leader)
        guardian.put(NAME, resizer.undo(NAME))
        guardian.clean(resizer.parents())
        resizer.shrink(NAME, 0.05)
        first = guardian.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: guardian.pid not in (None, first), "another guardian")
        assert guardian.restarts == 1
        assert (CPU / LABEL / NAME / "cpu.cfs_quota_us").read_text() == "5000\n"
        await guardian.close(PATIENCE_S)
        assert (groups_of(leader.pid) or {})["cpu"] == "/"
        assert not (CPU / PARENT).exists()


@pytest.mark.cgroup
@pytest.mark.usefixtures("no_groups_left")
async def test_a_container_that_was_being_attached_is_moved_back_too() -> None:
    guardian, resizer = Guardian(LABEL), Cgroup1(LABEL)
    guardian.start()
    with container() as leader:
        before = groups_of(leader.pid)
        resizer.attach(NAME, leader)
        guardian.clean(resizer.parents())  # of another one; the sidecar dies before it has put this one
        await guardian.close(PATIENCE_S)
        assert groups_of(leader.pid) == before


async def test_a_guardian_is_deaf_from_its_first_moment() -> None:
    guardian, resizer = Guardian(LABEL), Signals()
    with container() as leader:
        resizer.attach(NAME, leader)
        resizer.freeze(NAME)
        guardian.put(NAME, resizer.undo(NAME))
        guardian.start()
        assert guardian.pid is not None
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(guardian.pid, ignored)
        await guardian.close(PATIENCE_S)
        assert not quiet(leader)


def test_what_was_dropped_is_not_undone_and_one_failure_stops_no_other(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        guardian, resizer = Guardian(LABEL), Signals()
        guardian.start()
        with container() as kept, container() as dropped:
            for name, leader in (("kept", kept), ("dropped", dropped)):
                resizer.attach(name, leader)
                guardian.put(name, resizer.undo(name))
                resizer.freeze(name)
            guardian.drop("dropped")
            guardian.put("bad", {"resizer": "signals", "container": "bad", "pid": "x", "began_s": 0, "stopped": []})
            guardian.put("unknown", {"resizer": "cpuset"})
            guardian.put("last", resizer.undo("kept") | {"container": "last"})
            await guardian.close(PATIENCE_S)
            assert guardian.pid is None
            assert not quiet(kept)
            assert quiet(dropped)
            resizer.close()

    asyncio.run(main())
    log = capfd.readouterr().err
    assert "bad: its limits are not given back" in log
    assert "line not understood" in log
    assert "last: full limits again" in log


async def test_more_than_the_pipe_takes_is_kept_and_written_later() -> None:
    guardian = Guardian(LABEL)
    guardian.start()
    pid = guardian.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    record = {"resizer": "signals", "container": "x" * 1000, "pid": 0, "began_s": 0, "stopped": []}
    sent = [guardian.put(f"c{number}", record) for number in range(200)]
    assert sent[0]
    assert not sent[-1]
    for number in range(200):
        guardian.drop(f"c{number}")
    os.kill(pid, signal.SIGCONT)
    await eventually(lambda: guardian.is_current, "everything is sent")
    assert guardian.pid == pid
    await guardian.close(PATIENCE_S)
    assert over(pid)


async def test_a_guardian_that_does_not_read_is_replaced() -> None:
    guardian = Guardian(LABEL)
    guardian.start()
    pid = guardian.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    big = {"resizer": "signals", "container": "x" * 2**20, "pid": 0, "began_s": 0, "stopped": []}
    for _ in range(6):
        guardian.put("c", big)
    await eventually(lambda: guardian.pid not in (None, pid), "another guardian")
    guardian.drop("c")
    await guardian.close(PATIENCE_S)
    assert guardian.restarts == 1


def test_lines_that_make_no_sense_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    records = Records()
    undo = {"resizer": "signals", "container": "c", "pid": 1, "began_s": 0, "stopped": []}
    for line in ("{", "[]", "{}", '{"put": "c"}', json.dumps({"put": "c", "undo": {"resizer": "none"}})):
        records.take(line)
    assert records.undo == {}
    assert capsys.readouterr().err.count("line not understood") == 5
    records.take(json.dumps({"put": "c", "undo": undo}))
    assert records.finish() == 0


async def test_the_guardian_is_small() -> None:
    guardian = Guardian(LABEL)
    guardian.start()
    record = {"resizer": "cgroup1", "container": "c", "parents": 0, "quota": "-1", "shares": "1024"}
    guardian.put("c", record)
    guardian.put("d", {"resizer": "signals", "container": "d", "pid": 1, "began_s": 0, "stopped": []})
    await asyncio.sleep(1)
    assert guardian.pid is not None
    loaded = [Path(mapped.path).name for mapped in psutil.Process(guardian.pid).memory_maps()]
    print("guardian RSS MB:", psutil.Process(guardian.pid).memory_info().rss / 2**20)
    await guardian.close(PATIENCE_S)
    heavy = ("_ssl", "_asyncio", "_pydantic", "_psutil", "uvloop", "loop")
    assert not [name for name in loaded if name.startswith(heavy)]


@pytest.mark.parametrize("resizer", ["cgroup1", "cgroup2"])
def test_the_guardian_of_cgroups_loads_no_dataclasses(resizer: str) -> None:
    code = f"import sys; from sidecar.service.guardian import undoing; undoing({resizer!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "sidecar.resizer.cgroup.v1_restore" in loaded
    assert not {"dataclasses", "inspect", "ast"} & set(loaded), "they take 1.2 MB on every node"


@pytest.mark.cgroup
@pytest.mark.usefixtures("no_groups_left")
def test_what_an_earlier_life_left_is_given_back() -> None:
    with container(BURNER) as leader, container(BURNER) as other:
        before = groups_of(leader.pid)
        resizer, neighbour = Cgroup1(LABEL), Cgroup1(f"{PARENT}/node2")
        resizer.attach(NAME, leader)
        resizer.shrink(NAME, 0.05)
        resizer.freeze(NAME)
        (CPU / LABEL / "attempt-1").mkdir()
        neighbour.attach(OTHER, other)
        neighbour.shrink(OTHER, 0.05)
        cleaned = clean(LABEL)
        assert (cleaned.containers, cleaned.refused) == ((NAME,), ())
        assert groups_of(leader.pid) == before
        assert not (CPU / LABEL).exists()
        assert neighbour.holds(OTHER)
        assert clean(LABEL).containers == ()
        resizer.attach(NAME, leader)  # the next life
        assert resizer.holds(NAME)
        resizer.close()
        neighbour.close()


@pytest.mark.cgroup
@pytest.mark.usefixtures("no_groups_left")
def test_a_next_life_that_did_not_clean_finds_the_way_back_too() -> None:
    with container() as leader:
        before = groups_of(leader.pid)
        Cgroup1(LABEL).attach(NAME, leader)
        resizer = Cgroup1(LABEL)
        resizer.attach(NAME, leader)
        resizer.close()
        assert groups_of(leader.pid) == before


@pytest.mark.cgroup
def test_quotas_in_the_nodemanager_s_groups_are_lifted() -> None:
    needs_cgroup1()
    group = CPU / f"{PARENT}-yarn" / NAME
    group.mkdir(parents=True)
    try:
        (group / "cpu.cfs_quota_us").write_text("5000")
        (group / "cpu.shares").write_text("2")
        assert clean(LABEL, f"/{PARENT}-yarn").containers == (NAME,)
        assert (group / "cpu.cfs_quota_us").read_text() == "-1\n"
        assert clean(LABEL, f"/{PARENT}-yarn").containers == ()
    finally:
        group.rmdir()
        group.parent.rmdir()


async def test_a_guardian_of_an_earlier_life_is_waited_for_and_one_of_another_sidecar_told() -> None:
    guardian = Guardian(LABEL)
    guardian.start()
    with pytest.raises(SidecarAliveError, match="another sidecar uses this group"):
        await asyncio.to_thread(await_guardians, LABEL, 0.2)
    await_guardians(f"{PARENT}/node2", 0)
    waiting = asyncio.create_task(asyncio.to_thread(await_guardians, LABEL, 20))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await guardian.close(PATIENCE_S)
    await waiting
