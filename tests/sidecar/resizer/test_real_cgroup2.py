"""The cgroup v2 resizer on a kernel that has it; `tests/vm` boots a machine that has one where this has not."""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files, v2
from sidecar.resizer.cgroup.v2 import Cgroup2
from sidecar.resizer.cgroup.v2_cleanup import clean_cgroup2
from sidecar.resizer.cgroup.v2_mount import unified
from sidecar.resizer.probe import ProbeSqueeze, choose
from sidecar.resizer.processes import groups_of, leader_of, scan

pytestmark = pytest.mark.cgroup
CID: Final = "container_1700000000000_0001_01_000002"
BURN: Final = "while :; do :; done"
TOP: Final = f"quicksilver-test-{os.getpid()}"

Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def mount() -> Path:
    try:
        Cgroup2(f"{TOP}/node1").attempt()
    except ResizeRefusedError as error:
        pytest.skip(f"cgroup v2 cannot be used here ({error}); tests/vm boots a machine where it can")
    return unified().mount


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulated processor needs its time; the bound has a test of its own."""
    monkeypatch.setattr(v2, "_FROZEN_WITHIN_S", 20.0)


@pytest.fixture
def resizer(mount: Path) -> Iterator[Cgroup2]:
    resizer = Cgroup2(f"{TOP}/node1")
    yield resizer
    resizer.close()
    assert not (mount / TOP).exists()


@pytest.fixture
def start() -> Iterator[Start]:
    """Start containers: a shell that leads its session. All of the session are killed at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def run(script: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sh", "-c", script], start_new_session=True))
        return started[-1]

    yield run
    for process in started:
        end(process)


def end(leader: subprocess.Popen[bytes]) -> None:
    """Kill a container with what it started: a shell forks its command when it finds the time to."""
    while members := session(leader):
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        leader.wait()


def session(leader: subprocess.Popen[bytes]) -> set[int]:
    return {p.pid for p in scan().values() if p.session == leader.pid and not p.over}


def attach(resizer: Cgroup2, process: subprocess.Popen[bytes]) -> None:
    leader = leader_of(process.pid)
    assert leader is not None
    resizer.attach(CID, leader)


def cores(resizer: Cgroup2, seconds: float = 2.0) -> float:
    """Return how many cores the container used."""
    before, began = resizer.usage(CID).cpu_s, time.monotonic()
    time.sleep(seconds)
    after, ended = resizer.usage(CID).cpu_s, time.monotonic()
    assert before is not None
    assert after is not None
    return (after - before) / (ended - began)


def until(true: Callable[[], bool], within_s: float = 60.0, told: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


def group_of(pid: int) -> str:
    groups = groups_of(pid)
    assert groups is not None
    return groups[""]


def test_cpu_falls_and_comes_back(resizer: Cgroup2, start: Start, mount: Path) -> None:
    burner = start(BURN)
    origin = group_of(burner.pid)
    attach(resizer, burner)
    assert group_of(burner.pid) == f"/{TOP}/node1/{CID}"
    full = cores(resizer)
    resizer.shrink(CID, 0.1)
    assert resizer.holds(CID)
    until(lambda: cores(resizer, 0.5) > 0)  # what it ran beyond its limit before the kernel looked it pays back first
    little = cores(resizer, 10.0)
    resizer.restore(CID)
    again = cores(resizer)
    print(
        json.dumps({"cores": {"full": round(full, 3), "shrunk_to_0.1": round(little, 3), "restored": round(again, 3)}})
    )
    assert full > 0.4
    assert 0 < little < 0.2
    assert again > 0.4
    resizer.detach(CID)
    assert group_of(burner.pid) == origin
    assert burner.poll() is None
    assert not (mount / TOP / "node1" / CID).exists()


def test_frozen_stands_still_and_can_be_killed(resizer: Cgroup2, start: Start) -> None:
    burner = start(BURN)
    attach(resizer, burner)
    resizer.freeze(CID)
    until(lambda: cores(resizer, 0.1) == 0)  # what it ran last is counted when its processor has turned away from it
    assert cores(resizer, 1.0) == 0
    assert resizer.holds(CID)
    resizer.restore(CID)
    assert cores(resizer) > 0.4
    resizer.freeze(CID)
    resizer.shrink(CID, 0.5)
    assert cores(resizer) > 0.1
    resizer.freeze(CID)
    burner.kill()
    assert burner.wait(timeout=10) == -signal.SIGKILL
    resizer.detach(CID)


def test_fork_storm_is_caught(resizer: Cgroup2, start: Start) -> None:
    many = 100
    storm = start(f"i=0; while [ $i -lt {many} ]; do (sleep 300; :) & i=$((i+1)); done; wait")
    until(lambda: len(session(storm)) > 5)
    began = time.perf_counter()
    attach(resizer, storm)
    took_ms = (time.perf_counter() - began) * 1000
    at_attach = len(files.pids(resizer.parent / CID))
    until(lambda: len(session(storm)) == 1 + 2 * many)
    assert session(storm) == set(files.pids(resizer.parent / CID))
    assert resizer.holds(CID)
    print(json.dumps({"attach_in_a_fork_storm": {"ms": round(took_ms, 1), "processes": at_attach}}))
    resizer.detach(CID)
    assert {group_of(pid) for pid in session(storm)} == {group_of(os.getpid())}


@pytest.mark.parametrize("way", ["high_ratio", "reclaim_ratio"])
def test_memory_goes_back(way: str, mount: Path, start: Start, tmp_path: Path) -> None:
    """Page cache of libraries that the container reads is charged to it, and is given up for the asking."""
    sizes = {path: path.stat().st_size for path in Path("/usr/lib").glob("*-linux-gnu/*.so*") if not path.is_symlink()}
    libraries = sorted((path for path in sizes if sizes[path] < 4 << 20), key=lambda path: sizes[path])[-8:]
    for path in libraries:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    go, done = tmp_path / "go", tmp_path / "done"
    reads = f"cat {' '.join(map(str, libraries))} | tail -c 1 >/dev/null; echo >{done}"
    resizer = choose("cgroup2", parent=f"{TOP}/node1", squeeze=ProbeSqueeze(**{way: 0.5})).resizer
    assert isinstance(resizer, Cgroup2)
    try:
        attach(resizer, start(f"until [ -e {go} ]; do sleep 0.1; done; {reads}; sleep 300"))
        go.touch()
        until(done.exists, 120)
        current = resizer.parent / CID / "memory.current"
        before = int(current.read_text())
        resizer.shrink(CID, 0.5)
        after = int(current.read_text())
        high = (resizer.parent / CID / "memory.high").read_text().strip()
        print(json.dumps({way: {"mb_before": before >> 20, "mb_after": after >> 20, "memory.high": high}}))
        assert before > 10 << 20
        assert after < 0.7 * before
        assert resizer.holds(CID)
        resizer.restore(CID)
        assert (resizer.parent / CID / "memory.high").read_text() == "max\n"
    finally:
        resizer.close()


def test_pressure_is_told(resizer: Cgroup2, start: Start) -> None:
    """Two burners: each processor of the machine has one that waits."""
    if not Path("/proc/pressure/cpu").exists():
        pytest.skip("the kernel runs without PSI (psi=1)")
    attach(resizer, start(f"({BURN}) & {BURN}"))
    resizer.shrink(CID, 0.05)
    group = resizer.parent / CID
    files_of_the_kernel = ("cpu.max", "cpu.pressure", "cpu.stat", "cgroup.procs")
    until(
        lambda: resizer.pressure(CID)["cpu_some"] > 0.2,
        told=lambda: "\n".join(f"{name}: {(group / name).read_text()}" for name in files_of_the_kernel),
    )
    assert resizer.pressure(CID).keys() == {"cpu_some", "memory_some", "memory_full"}


def test_rewritten_limits_are_seen_and_set_again(resizer: Cgroup2, start: Start, mount: Path) -> None:
    process = start("sleep 300 & wait")
    attach(resizer, process)
    resizer.shrink(CID, 0.25)
    (resizer.parent / CID / "cpu.max").write_text("max")
    assert not resizer.holds(CID)
    resizer.reassert(CID)
    assert resizer.holds(CID)
    assert (resizer.parent / CID / "cpu.max").read_text() == "25000 100000\n"
    (mount / "cgroup.procs").write_text(str(process.pid))
    assert not resizer.holds(CID)
    resizer.reassert(CID)
    assert resizer.holds(CID)


def test_group_of_the_nodemanager_stays(mount: Path, start: Start) -> None:
    hierarchy = mount / f"{TOP}-yarn"
    group = hierarchy / CID
    group.mkdir(parents=True)
    try:
        (hierarchy / "cgroup.subtree_control").write_text("+cpu")
        (group / "cpu.weight").write_text("7")
        burner = start(BURN)
        (group / "cgroup.procs").write_text(str(burner.pid))
        resizer = Cgroup2(nm_hierarchy=f"/{TOP}-yarn")
        resizer.attempt()
        attach(resizer, burner)
        resizer.shrink(CID, 0.1)
        assert cores(resizer) < 0.3
        resizer.close()
        assert (group / "cpu.max").read_text() == "max 100000\n"
        assert (group / "cpu.weight").read_text() == "7\n"
        assert group_of(burner.pid) == f"/{TOP}-yarn/{CID}"
    finally:
        end(burner)
        files.remove(group, CID, 5)
        hierarchy.rmdir()


def test_parent_with_processes_of_its_own_is_refused(mount: Path, start: Start) -> None:
    """With cpu on for groups inside, it could take none: those would become "domain invalid"."""
    top = mount / f"{TOP}-inner"
    top.mkdir()
    somebody = start("sleep 300")
    try:
        (top / "cgroup.procs").write_text(str(somebody.pid))
        with pytest.raises(ResizeRefusedError, match="processes are in this group itself"):
            Cgroup2(f"/{TOP}-inner").attempt()
        inside = Cgroup2(f"/{TOP}-inner/containers")
        with pytest.raises(ResizeRefusedError, match="processes are in this group itself"):
            inside.attempt()
        assert [path for path in top.iterdir() if path.is_dir()] == []
    finally:
        end(somebody)
        files.remove(top, CID, 5)


def test_what_a_dead_sidecar_left_is_given_back(mount: Path, start: Start) -> None:
    burner = start(BURN)
    origin = group_of(burner.pid)
    left = Cgroup2(f"{TOP}/node1")
    attach(left, burner)
    left.shrink(CID, 0.05)
    left.freeze(CID)
    assert clean_cgroup2(f"{TOP}/node1") == ([CID], [])
    assert clean_cgroup2(f"{TOP}/node1") == ([], [])
    assert group_of(burner.pid) == origin
    assert not (mount / TOP).exists()


def test_guardian_gives_back_after_sigkill(mount: Path, start: Start) -> None:
    burner = start(BURN)
    origin = group_of(burner.pid)
    script = f"""
import json, subprocess, sys, time
from sidecar.resizer.cgroup.v2 import Cgroup2
from sidecar.resizer.processes import leader_of
resizer = Cgroup2("{TOP}/node1")
resizer.attach("{CID}", leader_of({burner.pid}))
command = [sys.executable, "-m", "sidecar.service.guardian", "{TOP}"]
guardian = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
for line in ({{"put": "{CID}", "undo": resizer.undo("{CID}")}}, {{"clean": resizer.parents()}}):
    print(json.dumps(line), file=guardian.stdin, flush=True)
resizer.shrink("{CID}", 0.05)
print(guardian.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as sidecar:
        assert sidecar.stdout is not None
        guardian = int(sidecar.stdout.readline())
        assert (mount / TOP / "node1" / CID / "cpu.max").read_text() == "5000 100000\n"
        sidecar.kill()
    killed = time.monotonic()
    until(lambda: not (mount / TOP).exists())
    print(json.dumps({"guardian_gave_back_after_s": round(time.monotonic() - killed, 2)}))
    assert group_of(burner.pid) == origin
    until(lambda: all(process.over for pid, process in scan().items() if pid == guardian))


def test_time_of_a_resize(resizer: Cgroup2, start: Start) -> None:
    """No limit: the figures are for reports."""
    attach(resizer, start(BURN))
    taken: dict[str, list[float]] = {"shrink": [], "restore": [], "usage": [], "cpu.max": []}
    calls: dict[str, Callable[[], object]] = {
        "shrink": lambda: resizer.shrink(CID, 0.05),
        "usage": lambda: resizer.usage(CID),
        "restore": lambda: resizer.restore(CID),
        "cpu.max": lambda: files.write(resizer.parent / CID / "cpu.max", "max 100000", CID),
    }
    for _ in range(101):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            taken[name].append((time.perf_counter() - began) * 1e6)
    print(json.dumps({"median_us": {name: round(statistics.median(us), 1) for name, us in taken.items()}}))
    assert (resizer.parent / CID / "cpu.max").read_text() == "max 100000\n"
