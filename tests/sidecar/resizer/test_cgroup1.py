"""Cgroup v1, on this machine's own groups."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.resizer.base import ContainerUsage, Leader, ResizeRefusedError
from sidecar.resizer.cgroup import v1_members
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.cgroup.v1_restore import undo_cgroup1
from sidecar.resizer.processes import groups_of, leader_of
from sidecar.service.resizing.stale_limits import clean
from tests.sidecar.resizer.containers import (
    BURNER,
    NAME,
    PARENT,
    THREE,
    container,
    cores_used,
    end_session,
    groups_left,
    needs_cgroup1,
    session,
    wait_until,
)

pytestmark = pytest.mark.cgroup
CPU = Path("/sys/fs/cgroup/cpu")
STORM = """
storm() { for i in 1 2 3; do (sleep 0.02; for j in 1 2 3; do sleep 0.05 & done; wait) & done; wait; }
while :; do storm; done
"""
GROWS = "timeout 0.3 bash -c 'while :; do :; done'; python3 -c 'import time; x = bytearray(40 << 20); time.sleep(1000)'"


@pytest.fixture
def resizer() -> Iterator[Cgroup1]:
    needs_cgroup1()
    resizer = Cgroup1(f"{PARENT}/node1")
    yield resizer
    resizer.close()
    assert groups_left() == []


def quota(group: Path) -> str:
    return (group / "cpu.cfs_quota_us").read_text().strip()


def group_of(resizer: Cgroup1) -> Path:
    return Path(str(resizer.undo(NAME)["cpu"]))


def test_a_shrunk_container_uses_its_bound_and_a_restored_one_more(resizer: Cgroup1) -> None:
    with container(BURNER) as leader:
        resizer.attach(NAME, leader)
        full = cores_used(resizer, NAME, 1)
        resizer.shrink(NAME, 0.05)
        shrunk = cores_used(resizer, NAME, 2)
        assert resizer.holds(NAME)
        resizer.restore(NAME)
        again = cores_used(resizer, NAME, 1)
    assert shrunk <= 0.07
    assert full > 2 * shrunk
    assert again > 2 * shrunk


def test_limits_are_what_the_kernel_has(resizer: Cgroup1) -> None:
    with container() as leader:
        resizer.attach(NAME, leader)
        group = group_of(resizer)
        resizer.shrink(NAME, 1.5)
        assert (quota(group), (group / "cpu.shares").read_text()) == ("150000", "1536\n")
        resizer.shrink(NAME, 0.0001)
        assert quota(group) == "1000"
        resizer.restore(NAME)
        assert (quota(group), (group / "cpu.shares").read_text()) == ("-1", "1024\n")
        weight = int((group.parent / "cpu.shares").read_text())
    assert weight == 1024 * (os.cpu_count() or 1)


def test_detached_processes_are_where_they_came_from(resizer: Cgroup1) -> None:
    with container(THREE) as leader:
        wait_until(lambda: len(session(leader.pid)) == 3, "three processes")
        before = {pid: groups_of(pid) for pid in session(leader.pid)}
        resizer.attach(NAME, leader)
        inside = groups_of(leader.pid) or {}
        assert all(inside[name].endswith(f"/{PARENT}/node1/{NAME}") for name in ("cpu", "cpuacct", "freezer", "memory"))
        resizer.shrink(NAME, 0.05)
        resizer.detach(NAME)
        assert {pid: groups_of(pid) for pid in session(leader.pid)} == before
        assert not (CPU / PARENT / "node1" / NAME).exists()


def test_a_fork_storm_is_caught_fully(resizer: Cgroup1) -> None:
    with container(STORM) as leader:
        wait_until(lambda: len(session(leader.pid)) > 5, "a storm")
        for _ in range(5):
            resizer.attach(NAME, leader)
            group = group_of(resizer)
            resizer.freeze(NAME)
            members = session(leader.pid)
            inside = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
            assert members
            assert members <= inside
            resizer.detach(NAME)
            assert (groups_of(leader.pid) or {})["cpu"] == "/"


def test_a_frozen_container_stands_still_and_goes_on(resizer: Cgroup1) -> None:
    with container(BURNER) as leader:
        resizer.attach(NAME, leader)
        resizer.freeze(NAME)
        wait_until(lambda: cores_used(resizer, NAME, 0.1) == 0, "its last bit is counted")
        assert cores_used(resizer, NAME, 0.3) == 0
        assert resizer.holds(NAME)
        resizer.restore(NAME)
        wait_until(lambda: cores_used(resizer, NAME, 0.5) > 0.02, "it runs")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_frozen_container_that_is_killed_may_die(resizer: Cgroup1, number: int) -> None:
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    leader = leader_of(process.pid)
    assert leader is not None
    try:
        resizer.attach(NAME, leader)
        resizer.freeze(NAME)
        os.kill(process.pid, number)
        assert not resizer.holds(NAME)
        with pytest.raises(ResizeRefusedError) as caught:
            resizer.reassert(NAME)
        assert caught.value.gone
        assert process.wait(60) == -number
    finally:
        resizer.detach(NAME)
        end_session(process.pid)
        process.wait(60)


def test_usage_counts_from_the_attach_and_what_has_ended(resizer: Cgroup1) -> None:
    with container(GROWS) as leader:
        resizer.attach(NAME, leader)
        wait_until(lambda: (resizer.usage(NAME).memory_mb or 0) >= 40, "40 MB")
        used = resizer.usage(NAME)
        assert used.cpu_s is not None
        assert used.memory_mb is not None
        assert 0.01 < used.cpu_s < 5
        assert used.memory_mb < 90
    resizer.detach(NAME)
    assert resizer.usage(NAME) == ContainerUsage(None, None)


def test_memory_from_before_the_attach_counts(resizer: Cgroup1, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = (
        f"exec {sys.executable} -c \"import time; x = bytearray(40 << 20); open('{ready}', 'w'); time.sleep(1000)\""
    )
    with container(script) as leader:
        wait_until(ready.exists, "40 MB")
        resizer.attach(NAME, leader)
        assert (resizer.usage(NAME).memory_mb or 0) >= 40


def test_rewritten_limits_are_noticed_and_written_again(resizer: Cgroup1) -> None:
    with container() as leader:
        resizer.attach(NAME, leader)
        resizer.shrink(NAME, 0.1)
        group = group_of(resizer)
        (group / "cpu.cfs_quota_us").write_text("-1")
        assert not resizer.holds(NAME)
        resizer.reassert(NAME)
        assert resizer.holds(NAME)
        assert quota(group) == "10000"
        resizer.restore(NAME)
        assert quota(group) == "-1"


def test_a_thawed_container_is_frozen_again(resizer: Cgroup1) -> None:
    with container() as leader:
        resizer.attach(NAME, leader)
        resizer.freeze(NAME)
        state = Path(str(resizer.undo(NAME)["freezer"])) / "freezer.state"
        state.write_text("THAWED")
        assert not resizer.holds(NAME)
        resizer.reassert(NAME)
        assert state.read_text() == "FROZEN\n"
        resizer.restore(NAME)


def test_what_was_moved_out_is_caught_again(resizer: Cgroup1) -> None:
    with container(THREE) as leader:
        wait_until(lambda: len(session(leader.pid)) == 3, "three processes")
        resizer.attach(NAME, leader)
        assert resizer.holds(NAME)
        escaped = max(session(leader.pid))
        (CPU / "cgroup.procs").write_text(str(escaped))
        assert not resizer.holds(NAME)
        resizer.reassert(NAME)
        assert resizer.holds(NAME)
        assert (groups_of(escaped) or {})["cpu"].endswith(NAME)


def test_a_process_that_ends_is_not_taken_for_one_that_was_moved_out(resizer: Cgroup1) -> None:
    with container(THREE) as leader:
        wait_until(lambda: len(session(leader.pid)) == 3, "three processes")
        resizer.attach(NAME, leader)
        ended = max(session(leader.pid))
        os.kill(ended, signal.SIGKILL)
        wait_until(lambda: ended not in session(leader.pid), "it ends")
        assert resizer.holds(NAME)


def test_attaching_twice_is_harmless(resizer: Cgroup1) -> None:
    with container() as leader:
        resizer.attach(NAME, leader)
        resizer.shrink(NAME, 0.1)
        resizer.attach(NAME, leader)
        assert resizer.holds(NAME)
        assert quota(group_of(resizer)) == "10000"


def test_a_container_that_ends_meanwhile(resizer: Cgroup1) -> None:
    with container() as leader:
        resizer.attach(NAME, leader)
        resizer.shrink(NAME, 0.05)
        end_session(leader.pid)
        assert resizer.usage(NAME).memory_mb == 0
        resizer.restore(NAME)
        resizer.detach(NAME)
        resizer.detach(NAME)
        for call in (resizer.restore, resizer.freeze, resizer.reassert):
            with pytest.raises(ResizeRefusedError) as caught:
                call(NAME)
            assert caught.value.gone
        assert not resizer.holds(NAME)


def test_a_group_that_somebody_removed_is_gone_and_let_go(resizer: Cgroup1) -> None:
    with container() as leader:
        resizer.attach(NAME, leader)
        group = group_of(resizer)
        end_session(leader.pid)
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "an empty group")
        group.rmdir()
        with pytest.raises(ResizeRefusedError) as caught:
            resizer.shrink(NAME, 0.1)
        assert caught.value.gone
        resizer.detach(NAME)


def test_a_process_that_is_gone_is_not_attached(resizer: Cgroup1) -> None:
    with container() as leader:
        pass
    with pytest.raises(ResizeRefusedError) as caught:
        resizer.attach(NAME, leader)
    assert caught.value.gone


def test_another_process_with_a_recycled_number_is_not_attached(resizer: Cgroup1) -> None:
    with container() as leader:
        with pytest.raises(ResizeRefusedError) as caught:
            resizer.attach(NAME, Leader(leader.pid, leader.began_s - 1000))
        assert caught.value.gone
        assert (groups_of(leader.pid) or {})["cpu"] == "/"
        assert not (CPU / PARENT / "node1" / NAME).exists()


def test_the_session_is_found_without_its_leader(resizer: Cgroup1) -> None:
    with container("(while :; do sleep 1; done) & (while :; do sleep 1; done) & exec sleep 1000") as leader:
        wait_until(lambda: len(session(leader.pid)) >= 3, "children")
        resizer.attach(NAME, leader)
        os.kill(leader.pid, signal.SIGKILL)
        (CPU / "cgroup.procs").write_text(str(max(session(leader.pid))))
        resizer.reassert(NAME)
        assert all((groups_of(pid) or {"cpu": NAME})["cpu"].endswith(NAME) for pid in session(leader.pid))


def test_a_container_with_groups_inside_is_refused_and_left_alone(resizer: Cgroup1) -> None:
    other = CPU / f"{PARENT}-other"
    other.mkdir()
    with container(THREE) as leader:
        wait_until(lambda: len(session(leader.pid)) == 3, "three processes")
        inner = max(session(leader.pid))
        try:
            (other / "cgroup.procs").write_text(str(inner))
            with pytest.raises(ResizeRefusedError, match="in a group of its own") as caught:
                resizer.attach(NAME, leader)
            assert caught.value.remedy
            assert (groups_of(inner) or {})["cpu"] == f"/{other.name}"
            assert (groups_of(leader.pid) or {})["cpu"] == "/"
        finally:
            (CPU / "cgroup.procs").write_text(str(inner))
            other.rmdir()


def test_a_process_that_shows_another_group_for_a_moment_is_caught(
    resizer: Cgroup1, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends shows the root of the hierarchy until it is gone, which takes long where the machine is busy."""
    with container(THREE) as leader:
        wait_until(lambda: len(session(leader.pid)) == 3, "three processes")
        ending, looks = max(session(leader.pid)), iter(range(4))

        def shown(pid: int, proc: Path) -> dict[str, str] | None:
            groups = groups_of(pid, proc)
            if pid == ending and groups is not None and next(looks, None) is not None:
                return dict.fromkeys(groups, "/elsewhere")
            return groups

        monkeypatch.setattr(v1_members, "groups_of", shown)
        resizer.attach(NAME, leader)
        assert next(looks, None) is None, "it was looked at as often as it takes"
        assert all((groups_of(pid) or {"cpu": NAME})["cpu"].endswith(NAME) for pid in session(leader.pid))


def test_a_group_that_is_kept_busy_is_refused_and_can_be_let_go_later(resizer: Cgroup1) -> None:
    with container() as leader:
        resizer.attach(NAME, leader)
        inner = group_of(resizer) / "inner"
        inner.mkdir()
        try:
            with pytest.raises(ResizeRefusedError, match="busy") as caught:
                resizer.detach(NAME)
            assert caught.value.remedy
            assert (groups_of(leader.pid) or {})["cpu"] == "/"
        finally:
            inner.rmdir()
        resizer.detach(NAME)


def test_the_sidecar_does_not_take_itself(resizer: Cgroup1) -> None:
    leader = leader_of(os.getppid())
    assert leader is not None
    before = groups_of(os.getpid())
    with pytest.raises(ResizeRefusedError, match="the sidecar itself"):
        resizer.attach(NAME, leader)
    assert groups_of(os.getpid()) == before


def enter(group: Path, leader: Leader) -> None:
    """Move a session into a group, with what it forks while it is moved."""
    while outside := set(session(leader.pid)) - {int(pid) for pid in (group / "cgroup.procs").read_text().split()}:
        for pid in outside:
            try:
                (group / "cgroup.procs").write_text(str(pid))
            except ProcessLookupError:
                continue  # it has just ended


def test_own_groups_stay_below_the_group_that_the_container_came_from(resizer: Cgroup1) -> None:
    service = CPU / f"{PARENT}-service"
    service.mkdir()
    try:
        with container() as leader:
            enter(service, leader)
            resizer.attach(NAME, leader)
            assert group_of(resizer) == service / PARENT / "node1" / NAME
            resizer.detach(NAME)
            assert (groups_of(leader.pid) or {})["cpu"] == f"/{service.name}"
            resizer.close()
    finally:
        wait_until(lambda: not (service / "cgroup.procs").read_text(), "an empty group")
        service.rmdir()


class TestGroupsOfTheNodeManager:
    """LinuxContainerExecutor's: limits are written, processes stay, and the group is never removed."""

    @pytest.fixture
    def top(self) -> Iterator[Path]:
        needs_cgroup1()
        top = CPU / f"{PARENT}-yarn"
        (top / NAME).mkdir(parents=True)
        (top / NAME / "cpu.shares").write_text("2048")
        yield top
        wait_until(lambda: not (top / NAME / "cgroup.procs").read_text(), "an empty group")
        (top / NAME).rmdir()
        top.rmdir()

    def test_limits_are_written_and_given_back(self, top: Path) -> None:
        resizer = Cgroup1(PARENT, nm_hierarchy=f"/{top.name}")
        resizer.attempt()
        with container() as leader:
            enter(top / NAME, leader)
            resizer.attach(NAME, leader)
            resizer.shrink(NAME, 0.1)
            assert (quota(top / NAME), (top / NAME / "cpu.shares").read_text()) == ("10000", "2048\n")
            assert resizer.holds(NAME)
            assert resizer.usage(NAME).cpu_s is not None
            resizer.detach(NAME)
            assert (quota(top / NAME), (top / NAME / "cpu.shares").read_text()) == ("-1", "2048\n")
            assert (groups_of(leader.pid) or {})["cpu"] == f"/{top.name}/{NAME}"

    def test_what_the_nodemanager_writes_meanwhile_is_given_back_later(self, top: Path) -> None:
        resizer = Cgroup1(PARENT, nm_hierarchy=f"/{top.name}")
        with container() as leader:
            enter(top / NAME, leader)
            resizer.attach(NAME, leader)
            resizer.shrink(NAME, 0.1)
            (top / NAME / "cpu.cfs_quota_us").write_text("40000")
            assert not resizer.holds(NAME)
            resizer.reassert(NAME)
            assert quota(top / NAME) == "10000"
            assert resizer.undo(NAME)["quota"] == "40000"
            resizer.restore(NAME)
            (top / NAME / "cpu.cfs_quota_us").write_text("60000")  # while nothing is shrunk
            resizer.reassert(NAME)
            assert (quota(top / NAME), resizer.holds(NAME)) == ("60000", True)
            resizer.detach(NAME)
            assert quota(top / NAME) == "60000"

    def test_the_weight_is_the_nodemanagers_alone(self, top: Path) -> None:
        """It writes another one when a container is promoted, before or after the sidecar restores the limits."""
        shares = top / NAME / "cpu.shares"
        shares.write_text("2")
        resizer = Cgroup1(PARENT, nm_hierarchy=f"/{top.name}")
        with container() as leader:
            enter(top / NAME, leader)
            resizer.attach(NAME, leader)
            resizer.shrink(NAME, 0.1)
            assert shares.read_text() == "2\n"
            shares.write_text("4096")
            assert resizer.holds(NAME)
            undo = resizer.undo(NAME)
            resizer.restore(NAME)
            assert shares.read_text() == "4096\n"
            resizer.shrink(NAME, 0.1)
            undo_cgroup1(undo)
            assert (quota(top / NAME), shares.read_text()) == ("-1", "4096\n")
            resizer.shrink(NAME, 0.1)
            assert clean(PARENT, f"/{top.name}").containers == (NAME,)
            assert (quota(top / NAME), shares.read_text()) == ("-1", "4096\n")

    def test_the_group_of_docker_inside_is_the_one(self, top: Path) -> None:
        resizer = Cgroup1(PARENT, nm_hierarchy=f"/{top.name}")
        inner = top / NAME / "abcdef"
        inner.mkdir()
        try:
            with container() as leader:
                enter(inner, leader)
                resizer.attach(NAME, leader)
                resizer.shrink(NAME, 0.1)
                assert (quota(inner), quota(top / NAME)) == ("10000", "-1")
                resizer.detach(NAME)
                assert quota(inner) == "-1"
        finally:
            wait_until(lambda: not (inner / "cgroup.procs").read_text(), "an empty group")
            inner.rmdir()

    def test_freezing_without_a_group_of_the_freezer_is_refused(self, top: Path) -> None:
        resizer = Cgroup1(PARENT, nm_hierarchy=f"/{top.name}")
        with container() as leader:
            enter(top / NAME, leader)
            resizer.attach(NAME, leader)
            with pytest.raises(ResizeRefusedError, match="freezer"):
                resizer.freeze(NAME)
            assert resizer.holds(NAME)

    def test_what_was_frozen_goes_on_when_it_is_let_go(self, top: Path) -> None:
        resizer = Cgroup1(PARENT, nm_hierarchy=f"/{top.name}")
        freezer = Path("/sys/fs/cgroup/freezer") / top.name / NAME
        freezer.mkdir(parents=True)
        try:
            with container() as leader:
                enter(top / NAME, leader)
                enter(freezer, leader)
                resizer.attach(NAME, leader)
                resizer.freeze(NAME)
                assert (freezer / "freezer.state").read_text() == "FROZEN\n"
                resizer.detach(NAME)
                assert (freezer / "freezer.state").read_text() == "THAWED\n"
        finally:
            wait_until(lambda: not (freezer / "cgroup.procs").read_text(), "an empty group")
            freezer.rmdir()
            freezer.parent.rmdir()

    def test_a_container_without_a_group_is_refused(self, top: Path) -> None:
        resizer = Cgroup1(PARENT, nm_hierarchy=f"/{top.name}")
        with container() as leader, pytest.raises(ResizeRefusedError, match="made no group") as caught:
            resizer.attach("container_1_0001_01_000009", leader)
        assert not caught.value.gone

    def test_a_quota_above_docker_s_is_refused_with_the_reason(self, top: Path) -> None:
        resizer = Cgroup1(PARENT, nm_hierarchy=f"/{top.name}")
        (top / NAME / "cpu.cfs_quota_us").write_text("20000")
        inner = top / NAME / "abcdef"
        inner.mkdir()
        try:
            with container() as leader:
                enter(inner, leader)
                resizer.attach(NAME, leader)
                with pytest.raises(ResizeRefusedError, match="Invalid argument") as caught:
                    resizer.shrink(NAME, 1)
                assert "parent or child" in caught.value.remedy
                assert (quota(inner), resizer.holds(NAME)) == ("-1", True)
        finally:
            wait_until(lambda: not (inner / "cgroup.procs").read_text(), "an empty group")
            inner.rmdir()
