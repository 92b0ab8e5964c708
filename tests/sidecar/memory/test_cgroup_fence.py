"""The fence around all containers: on a tree of files, and on real groups of cgroup v1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from sidecar.memory.cgroup_fence import (
    Fence,
    FenceLimits,
    KeptMemory,
    OomScoreRefusedError,
    default_daemon_cores,
    fence_mb,
    prefer_for_oom,
    undo_fence,
)
from sidecar.memory.memory_guard import GuardCommand, GuardRules, HeldMemory, Kill, Memory, MemoryGuard, Squeeze
from sidecar.memory.pressure import Gauge, group_memory
from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from tests.sidecar.memory.oom_kills import OomKills

MB = 2**20
V1 = {
    "cpu.shares": "2048",
    "cpu.cfs_quota_us": "-1",
    "cpu.cfs_period_us": "100000",
    "memory.limit_in_bytes": "9223372036854771712",
    "memory.usage_in_bytes": str(100 * MB),
    "memory.stat": f"total_inactive_file {10 * MB}\ntotal_active_file {10 * MB}",
}
V2 = {
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "memory.max": "max",
    "memory.high": "max",
    "memory.current": str(100 * MB),
    "memory.stat": f"inactive_file {10 * MB}\nactive_file {10 * MB}",
}
LIMITS = FenceLimits(daemon_cores=1, cpus=2, memory_mb=200, high_mb=180, cores=1.5)


def tree(folder: Path, texts: dict[str, str]) -> Path:
    """Write the control files of a group."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")
    return folder


def now(folder: Path, *names: str) -> list[str]:
    """Return what control files say."""
    return [(folder / name).read_text().strip() for name in names]


def test_v1_limits_are_set_and_taken_back(tmp_path: Path) -> None:
    group, fence = tree(tmp_path, V1), Fence(LIMITS)
    assert fence.keep([group, tmp_path / "gone"]) == KeptMemory(changed=True, refused=())
    names = ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes")
    assert now(group, *names) == ["1024", "150000", str(200 * MB)]
    assert not fence.keep([group]).changed
    fence.lift()
    assert now(group, *V1) == list(V1.values())
    assert fence.undo() == {"resizer": "fence", "limits": {}}


def test_v2_limits_are_set_and_taken_back(tmp_path: Path) -> None:
    group, fence = tree(tmp_path, V2 | {"cpu.weight": "200"}), Fence(LIMITS)
    assert fence.keep([group]).changed
    names = ("cpu.weight", "cpu.max", "memory.max", "memory.high")
    assert now(group, *names) == ["100", "150000 100000", str(200 * MB), str(180 * MB)]
    undo_fence(json.loads(json.dumps(fence.undo())))  # as the guardian does it
    assert now(group, *names) == ["200", "max 100000", "max", "max"]


def test_it_only_tightens_and_comes_back_when_loosened(tmp_path: Path) -> None:
    group, fence = tree(tmp_path, V2 | {"cpu.weight": "20", "cpu.max": "40000 50000"}), Fence(LIMITS)
    fence.keep([group])
    assert now(group, "cpu.weight", "cpu.max", "memory.max") == ["20", "40000 50000", str(200 * MB)]
    (group / "cpu.max").write_text("90000 50000\n")  # 1.8 cores
    fence.keep([group])
    assert now(group, "cpu.max") == ["150000 100000"]
    (group / "memory.max").write_text("max\n")  # somebody rewrote it
    assert fence.keep([group]).changed
    assert now(group, "memory.max") == [str(200 * MB)]
    (group / "memory.max").write_text(f"{150 * MB}\n")  # and now it is theirs
    assert not fence.keep([group]).changed
    fence.lift()
    assert now(group, "cpu.weight", "memory.max", "memory.high") == ["20", str(150 * MB), "max"]


def test_new_limits_never_go_beyond_what_was_there(tmp_path: Path) -> None:
    group = tree(tmp_path, V1 | {"memory.limit_in_bytes": str(300 * MB)})
    fence = Fence(FenceLimits(memory_mb=200))
    for memory_mb, expected in ((200, 200), (250, 250), (220, 220), (400, 300)):
        fence.limits = FenceLimits(memory_mb=memory_mb)
        assert fence.keep([group]).changed
        assert now(group, "memory.limit_in_bytes", "cpu.shares") == [str(expected * MB), "2048"]
    fence.lift()
    assert now(group, "memory.limit_in_bytes") == [str(300 * MB)]


@pytest.mark.parametrize(("texts", "name"), [(V1, "memory.limit_in_bytes"), (V2, "memory.max")])
def test_bound_below_what_they_hold_is_not_set(tmp_path: Path, texts: dict[str, str], name: str) -> None:
    group, fence = tree(tmp_path, texts), Fence(FenceLimits(memory_mb=80))
    kept = fence.keep([group])
    assert not kept.changed
    assert len(kept.refused) == 1
    assert "the containers hold 80 MB, the bound would be 80 MB" in kept.refused[0]
    assert now(group, name) == [texts[name]]
    fence.limits = FenceLimits(memory_mb=81)
    assert fence.keep([group]).changed


def test_refusals_do_not_stop_the_others(tmp_path: Path) -> None:
    first, second = tree(tmp_path / "1", V1), tree(tmp_path / "2", V1)
    (first / "cpu.shares").unlink()
    (first / "cpu.shares").mkdir()
    fence = Fence(LIMITS)
    kept = fence.keep([first, second])
    assert kept.changed
    assert len(kept.refused) == 1
    assert str(first / "cpu.shares") in kept.refused[0]
    assert now(second, "cpu.shares") == ["1024"]
    (first / "cpu.cfs_quota_us").unlink()
    (first / "cpu.cfs_quota_us").mkdir()
    with pytest.raises(ResizeRefusedError, match="cfs_quota_us"):
        fence.lift()
    assert now(second, *V1) == list(V1.values())


@pytest.mark.parametrize(
    ("cpus", "daemon_cores", "shares", "weight"),
    [
        (2, 1, 1024, 100),
        (2, 0.5, 3072, 300),
        (32, 3.2, 9216, 900),
        (1, 1, 2, 1),
        (1, 2, 2, 1),
        (1000, 0.5, 262144, 10000),
    ],
)
def test_weight_leaves_daemons_their_cores(
    tmp_path: Path, cpus: int, daemon_cores: float, shares: int, weight: int
) -> None:
    group = tree(tmp_path, {"cpu.shares": "262144000", "cpu.weight": "1000000"})
    Fence(FenceLimits(daemon_cores=daemon_cores, cpus=cpus)).keep([group])
    assert now(group, "cpu.shares", "cpu.weight") == [str(shares), str(weight)]


def test_defaults() -> None:
    assert [default_daemon_cores(cpus) for cpus in (1, 2, 5, 32)] == [0.5, 0.5, 0.5, 3.2]
    assert fence_mb(free_mb=10_000, inside_mb=2_000, keep_mb=512) == 11_488
    assert fence_mb(free_mb=100, inside_mb=0, keep_mb=512) == 0


def test_oom_score_is_never_lowered(tmp_path: Path) -> None:
    for pid, score in ((1, "0"), (2, "900"), (3, "-17")):
        tree(tmp_path / str(pid), {"oom_score_adj": score})
    assert prefer_for_oom([1, 2, 3, 4], 500, tmp_path) == 2
    assert [now(tmp_path / str(pid), "oom_score_adj") for pid in (1, 2, 3)] == [["500"], ["900"], ["500"]]
    (tmp_path / "5" / "oom_score_adj").mkdir(parents=True)
    (tmp_path / "1" / "oom_score_adj").write_text("0\n")
    with pytest.raises(OomScoreRefusedError, match="5/oom_score_adj"):
        prefer_for_oom([5, 1], 500, tmp_path)
    assert now(tmp_path / "1", "oom_score_adj") == ["500"]


# On real groups

HOG = """
import sys
sys.stdin.readline()
kept = []
for _ in range(int(sys.argv[1])):
    kept.append(b"x" * 2**20)
print("full", flush=True)
sys.stdin.readline()
"""


@contextmanager
def real_group(controller: str, *inner: str, name: str = "fence") -> Iterator[Path]:
    """Yield a group of cgroup v1 with groups inside; they are removed, once those inside were killed."""
    hierarchy = hierarchies().get(controller)
    if hierarchy is None or not os.access(hierarchy.mount, os.W_OK):
        pytest.skip(f"no writable cgroup v1 hierarchy with the {controller} controller")
    group = hierarchy.mount / f"quicksilver-{name}-{os.getpid()}"
    groups = [group / name for name in inner] + [group]
    try:
        for path in reversed(groups):
            path.mkdir(exist_ok=True)
            if (path / "memory.swappiness").exists():
                files.write(path / "memory.swappiness", "0", "")  # or a hog would be swapped out
        yield group
    finally:
        for path in groups:
            for pid in files.pids(path):
                os.kill(pid, 9)
        for path in groups:
            files.remove(path, "", wait_s=5)


@contextmanager
def python(code: str, *arguments: Any, group: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run Python code in a group; it is killed at the end."""
    command = [sys.executable, "-S", "-E", "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            if group is not None:
                assert files.move(group, process.pid, "")
            yield process
        finally:
            process.kill()


def go(process: subprocess.Popen[str]) -> str:
    """Let a hog take its memory; return what it says when it has it, "" when it was killed."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


@pytest.mark.cgroup
def test_hog_is_killed_inside_and_daemons_outside_live() -> None:
    fence = Fence(FenceLimits(memory_mb=200))
    with (
        real_group("memory", "hog", "small") as group,
        python(HOG, 40) as daemon,
        python(HOG, 20, group=group / "small") as small,
        python(HOG, 300, group=group / "hog") as hog,
    ):
        before = now(group, "memory.limit_in_bytes")
        kills = OomKills(group)
        assert fence.keep([group]).refused == ()
        assert kills.new() == 0
        assert [go(daemon), go(small)] == ["full", "full"]
        held = group_memory(group)
        assert held is not None
        assert held.limit_mb == 200
        assert held.room_mb is not None
        assert 100 < held.room_mb <= 200 - 20
        assert go(hog) == ""
        assert hog.wait(60) == -9
        assert [daemon.poll(), small.poll()] == [None, None]
        assert kills.new() == 1
        fence.lift()
        assert now(group, "memory.limit_in_bytes") == before


@pytest.mark.cgroup
def test_queueable_ones_are_taken_before_others_of_the_fence() -> None:
    fence = Fence(FenceLimits(memory_mb=200))
    with (
        real_group("memory", "g", "q") as group,
        python(HOG, 60, group=group / "q") as queueable,
        python(HOG, 160, group=group / "g") as guaranteed,
    ):
        fence.keep([group])
        assert prefer_for_oom(files.pids(group / "q"), 500) == 1
        assert Path(f"/proc/{queueable.pid}/oom_score_adj").read_text() == "500\n"
        assert go(queueable) == "full"
        assert go(guaranteed) == "full"
        assert queueable.wait(60) == -9
        assert guaranteed.poll() is None


GROWS = """
import sys, time
sys.stdin.readline()
kept = []
while True:
    kept.append(b"x" * 2**20)
    time.sleep(0.02)
"""


@pytest.mark.cgroup
def test_guard_acts_before_the_kernel() -> None:
    """One grows towards the fence: squeezed, killed, and all is as before; the kernel had no need to."""
    guard = MemoryGuard(GuardRules(reserve_mb=120, last_resort_mb=60, calm_s=0.2))
    said: list[GuardCommand] = []
    with (
        real_group("memory", "modest", "grows") as group,
        python(HOG, 20, group=group / "modest") as modest,
        python(GROWS, group=group / "grows") as grows,
    ):
        fence, kills = Fence(FenceLimits(memory_mb=200)), OomKills(group)
        assert fence.keep([group]).refused == ()
        assert go(modest) == "full"
        assert grows.stdin is not None
        grows.stdin.write("\n")
        grows.stdin.flush()
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s and not (said and said[-1] == Squeeze(False, said[-1].why)):
            for command in guard.handle(measured(group, {"modest": modest, "grows": grows})):
                said.append(command)
                if isinstance(command, Kill):
                    grows.kill()
            time.sleep(0.05)
        assert [type(command) for command in said] == [Squeeze, Kill, Squeeze]
        assert isinstance(said[1], Kill)
        assert said[1].container_id == "grows"
        assert "less than 60 MB: it uses" in said[1].why
        assert grows.wait(60) == -9
        assert modest.poll() is None
        assert kills.new() == 0


def measured(group: Path, containers: dict[str, subprocess.Popen[str]]) -> Memory:
    """Return what the guard is told of a fenced group; each container asked for 60 MB."""
    now_mb = {name: group_memory(group / name) for name in containers}
    whole = group_memory(group)
    assert whole is not None
    assert whole.room_mb is not None
    held = (
        HeldMemory(name, "Q", 60, used.used_mb, killable=True)
        for name, used in now_mb.items()
        if used is not None and containers[name].poll() is None
    )
    free_mb = min(Gauge().read().free_mb, whole.room_mb)
    return Memory(time.time(), free_mb, None, tuple(held))


@pytest.mark.cgroup
def test_daemons_keep_their_share_beside_busy_containers() -> None:
    """One busy thread outside against six inside, which weigh as much as six threads until the fence is there."""
    fence, burn = Fence(FenceLimits(daemon_cores=1, cpus=2)), "while True: pass"
    with real_group("cpu") as group, real_group("cpu", name="daemons") as outside, ExitStack() as stack:
        daemon = stack.enter_context(python(burn, group=outside))  # or it would share with this test's session
        inside = [stack.enter_context(python(burn, group=group)) for _ in range(6)]
        for process in (daemon, *inside):
            os.sched_setaffinity(process.pid, sorted(os.sched_getaffinity(0))[:2])
        files.write(group / "cpu.shares", str(6 * 1024), "")
        unfenced = advantage(daemon, inside)
        assert fence.keep([group]).refused == ()
        fenced = advantage(daemon, inside)
        fence.lift()
        assert now(group, "cpu.shares") == [str(6 * 1024)]
    print(f"CPU of one thread outside over that of one inside: {unfenced:.2f} without a fence, {fenced:.2f} with it")
    assert unfenced < 2
    assert fenced > 2.5


def advantage(daemon: subprocess.Popen[str], inside: list[subprocess.Popen[str]]) -> float:
    """Return the CPU time of a process over the mean of others, while these have 3 s of it, however long that takes."""
    every = [psutil.Process(one.pid) for one in (daemon, *inside)]
    before = [one.cpu_times().user for one in every]
    spent = [0.0]
    until_s = time.monotonic() + 120
    while sum(spent[1:]) < 3:
        assert time.monotonic() < until_s, spent
        time.sleep(0.5)
        spent = [one.cpu_times().user - was for one, was in zip(every, before, strict=True)]
    return spent[0] / (sum(spent[1:]) / len(inside))
