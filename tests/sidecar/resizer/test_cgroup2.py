"""The cgroup v2 resizer on a tree of files, with all that a kernel may answer."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sidecar.resizer.base import ContainerUsage, Leader, ResizeRefusedError
from sidecar.resizer.cgroup import v2_members, v2_restore
from sidecar.resizer.cgroup.v2 import Cgroup2, undo_cgroup2
from sidecar.resizer.cgroup.v2_cleanup import clean_cgroup2
from tests.sidecar.resizer.kernel2 import Kernel2

CID: Final = "container_1700000000000_0001_01_000002"
OURS: Final = f"quicksilver/node1/{CID}"
NM: Final = "system.slice/nodemanager.service"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel2:
    kernel = Kernel2(tmp_path, monkeypatch)
    kernel.group(NM)
    kernel.spawn(10, NM)
    return kernel


@pytest.fixture
def leader(kernel: Kernel2) -> Leader:
    """A container of three processes: one left its session, one lost its parent."""
    leader = kernel.spawn(100, NM, parent=10)
    kernel.spawn(101, NM, parent=100, session=101)
    kernel.spawn(102, NM, parent=1, session=100)
    return leader


def resizer(kernel: Kernel2, parent: str = "quicksilver/node1", **settings: float) -> Cgroup2:
    return Cgroup2(parent, None, True, kernel.proc, **settings)


def nm_resizer(kernel: Kernel2) -> Cgroup2:
    return Cgroup2("quicksilver", "/hadoop-yarn", True, kernel.proc)


def limits(kernel: Kernel2, group: str = OURS) -> tuple[str, str, str]:
    return kernel.text(f"{group}/cpu.max"), kernel.text(f"{group}/cpu.weight"), kernel.text(f"{group}/memory.high")


def test_attach_shrink_restore_detach(kernel: Kernel2, leader: Leader) -> None:
    before = kernel.groups()
    ours = resizer(kernel)
    ours.attach(CID, leader)
    assert kernel.pids(OURS) == {100, 101, 102}
    assert kernel.pids(NM) == {10}
    assert kernel.text("quicksilver/cpu.weight") == str(100 * (os.cpu_count() or 1))
    ours.shrink(CID, 0.05)
    assert limits(kernel) == ("5000 100000", "5", "max")
    ours.shrink(CID, 0.001)
    assert limits(kernel)[0] == "1000 100000"
    assert ours.holds(CID)
    ours.restore(CID)
    assert limits(kernel) == ("max 100000", "100", "max")
    ours.attach(CID, leader)
    ours.detach(CID)
    ours.detach(CID)
    assert kernel.pids(NM) == {10, 100, 101, 102}
    assert kernel.groups() == before | {"quicksilver", "quicksilver/node1"}
    ours.close()
    assert kernel.groups() == before
    assert not ours.slow


def test_frozen_until_restored_or_shrunk(kernel: Kernel2, leader: Leader) -> None:
    ours = resizer(kernel)
    ours.attach(CID, leader)
    calls: list[Callable[[], None]] = [lambda: ours.restore(CID), lambda: ours.shrink(CID, 0.5)]
    for go_on in calls:
        ours.freeze(CID)
        assert kernel.text(f"{OURS}/cgroup.freeze") == "1"
        assert ours.holds(CID)
        go_on()
        assert kernel.text(f"{OURS}/cgroup.freeze") == "0"
        assert ours.holds(CID)
    ours.freeze(CID)
    ours.detach(CID)
    assert [text for path, text in kernel.written if path == f"{OURS}/cgroup.freeze"][-1] == "0"
    assert kernel.pids(NM) == {10, 100, 101, 102}


def test_one_that_does_not_freeze_is_thawed(kernel: Kernel2, leader: Leader) -> None:
    ours = resizer(kernel)
    ours.attach(CID, leader)
    kernel.freezes = False
    with pytest.raises(ResizeRefusedError, match=r"not frozen after 0.5 s"):
        ours.freeze(CID)
    assert kernel.text(f"{OURS}/cgroup.freeze") == "0"
    assert ours.holds(CID)


@pytest.mark.parametrize(
    ("kind", "options", "controllers", "why", "remedy"),
    [
        ("cgroup", "rw", "cpu", "no cgroup v2 is mounted", "cgroup1"),
        ("cgroup2", "rw", "memory", "no cpu controller here", "systemd.unified_cgroup_hierarchy=1"),
        ("cgroup2", "ro", "cpu", "mounted read-only", "writable"),
    ],
)
def test_what_is_missing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: str, controllers: str, why: str, remedy: str
) -> None:
    kernel = Kernel2(tmp_path, monkeypatch, controllers)
    kernel.mounted(options, kind)
    with pytest.raises(ResizeRefusedError, match=why) as refused:
        resizer(kernel)
    assert remedy in refused.value.remedy
    assert clean_cgroup2("quicksilver", "/hadoop-yarn", kernel.proc) == ([], [])


def test_mount_with_the_cpu_controller_is_taken(kernel: Kernel2, tmp_path: Path) -> None:
    other = tmp_path / "uni fied"
    other.mkdir()
    (other / "cgroup.controllers").write_text("\n")
    info = kernel.proc / "self" / "mountinfo"
    escaped = str(other).replace(" ", "\\040")
    info.write_text(f"29 1 0:25 / {escaped} rw - cgroup2 cgroup2 rw\n{info.read_text()}")
    assert resizer(kernel).mount == kernel.mount


def test_attempt_leaves_nothing(kernel: Kernel2) -> None:
    before = kernel.groups()
    resizer(kernel).attempt()
    assert kernel.groups() == before
    kernel.errors["cpu.max"] = [errno.EACCES]
    with pytest.raises(ResizeRefusedError, match="Permission denied"):
        resizer(kernel).attempt()
    assert kernel.groups() == before


def test_controller_that_was_not_delegated_is_told(kernel: Kernel2, leader: Leader) -> None:
    slice_ = kernel.group("hadoop.slice")
    (slice_ / "cgroup.controllers").write_text("memory pids\n")
    with pytest.raises(ResizeRefusedError, match="cpu controller does not reach this group") as refused:
        resizer(kernel, "/hadoop.slice/quicksilver").attach(CID, leader)
    assert "Delegate=cpu" in refused.value.remedy


def test_does_without_memory_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel2(tmp_path, monkeypatch, "cpu")
    ours = Cgroup2("quicksilver", None, True, kernel.proc, high_ratio=0.5, reclaim_ratio=0.5)
    ours.attach(CID, kernel.spawn(100))
    ours.shrink(CID, 0.5)
    ours.restore(CID)
    assert "memory controller does not reach this group" in ours.without_memory
    assert ours.usage(CID) == ContainerUsage(0.0, 1)
    assert ours.pressure(CID) == {"cpu_some": 0.25}


def test_processes_in_the_parent_group_are_told(kernel: Kernel2, leader: Leader) -> None:
    kernel.group("hadoop.slice")
    kernel.spawn(300, "hadoop.slice")
    before = kernel.groups()
    with pytest.raises(ResizeRefusedError, match="1 processes are in this group itself") as refused:
        resizer(kernel, "/hadoop.slice").attach(CID, leader)
    assert "DelegateSubgroup" in refused.value.remedy
    assert kernel.text("hadoop.slice/cgroup.subtree_control") == ""
    assert kernel.groups() == before
    kernel.errors["quicksilver/cgroup.subtree_control"] = [errno.EBUSY]  # one came in just now
    with pytest.raises(ResizeRefusedError, match="Device or resource busy") as refused:
        resizer(kernel, "quicksilver").attach(CID, leader)
    assert "DelegateSubgroup" in refused.value.remedy
    assert kernel.groups() == before


def test_below_a_slice_only_what_was_made_is_removed(kernel: Kernel2, leader: Leader) -> None:
    kernel.group("hadoop.slice")
    for parent in ("/hadoop.slice/containers", str(kernel.mount / "hadoop.slice/containers"), "/hadoop.slice"):
        ours = resizer(kernel, parent)
        ours.attach(CID, leader)
        assert kernel.pids(f"hadoop.slice/{'containers/' if 'containers' in parent else ''}{CID}") == {100, 101, 102}
        undo_cgroup2(json.loads(json.dumps(ours.undo(CID))))
        ours.close()
        assert "hadoop.slice" in kernel.groups()
        assert "hadoop.slice/containers" not in kernel.groups()


def test_gone_before_and_after(kernel: Kernel2, leader: Leader) -> None:
    before = kernel.groups()
    ours = resizer(kernel)
    with pytest.raises(ResizeRefusedError) as refused:
        ours.attach(CID, Leader(4711, 0.0))
    assert refused.value.gone
    with pytest.raises(ResizeRefusedError, match="its processes are gone") as refused:
        ours.attach(CID, Leader(100, leader.began_s + 60))  # a recycled number
    assert refused.value.gone
    assert kernel.pids(NM) == {10, 100, 101, 102}
    ours.attach(CID, leader)
    kernel.vanish(OURS)
    calls: list[Callable[[], None]] = [
        lambda: ours.shrink(CID, 0.5),
        lambda: ours.freeze(CID),
        lambda: ours.restore(CID),
    ]
    for call in calls:
        with pytest.raises(ResizeRefusedError) as refused:
            call()
        assert refused.value.gone
    assert not ours.holds(CID)
    assert ours.usage(CID) == ContainerUsage(None, None)
    assert ours.pressure(CID) == {}
    ours.close()
    assert kernel.groups() == before
    calls.append(lambda: ours.reassert(CID))
    for unknown in calls:
        with pytest.raises(ResizeRefusedError, match="it is not attached"):
            unknown()


def test_processes_that_end_or_fork_while_they_are_moved(kernel: Kernel2, leader: Leader) -> None:
    def end_one_fork_one(pid: int) -> None:
        if pid == 101:
            kernel.end(101)
            kernel.spawn(103, NM, parent=100, session=100)
            kernel.spawn(104, NM, parent=103, session=104)

    kernel.before_move = end_one_fork_one
    ours = resizer(kernel)
    ours.attach(CID, leader)
    assert kernel.pids(OURS) == {100, 102, 103, 104}


def test_endless_forking_is_refused_and_given_back(
    kernel: Kernel2, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kernel.groups()
    pids = iter(range(1000, 9999))
    monkeypatch.setattr(v2_members, "_ROUNDS", 5)
    ours = resizer(kernel)
    forked: set[int] = set()

    def fork(pid: int) -> None:
        if len(forked) < 1000:
            forked.add(new := next(pids))
            kernel.spawn(new, NM, parent=100, session=100)

    kernel.before_move = fork
    with pytest.raises(ResizeRefusedError, match="fork faster than they are moved"):
        ours.attach(CID, leader)
    ours.close()
    assert kernel.groups() == before
    assert kernel.pids(NM) == {10, 100, 101, 102} | forked


def test_process_in_a_group_of_its_own_is_refused(kernel: Kernel2, leader: Leader) -> None:
    before = kernel.groups() | {"machine.slice"}
    kernel.group("machine.slice")
    kernel.spawn(105, "machine.slice", parent=100, session=105)
    ours = resizer(kernel)
    with pytest.raises(ResizeRefusedError, match="process 105 is in a group of its own") as refused:
        ours.attach(CID, leader)
    assert "by_type" in refused.value.remedy
    ours.close()
    assert kernel.groups() == before
    assert kernel.pids(NM) == {10, 100, 101, 102}


def test_zombie_of_a_deleted_group_is_left_where_it_is(kernel: Kernel2, leader: Leader) -> None:
    kernel.spawn(105, NM, parent=100, state="Z")
    (kernel.proc / "105" / "cgroup").write_text("0::/machine.slice/inner (deleted)\n")
    ours = resizer(kernel)
    ours.attach(CID, leader)
    assert kernel.pids(OURS) == {100, 101, 102}
    assert ours.holds(CID)


def test_sidecar_is_never_taken(kernel: Kernel2, leader: Leader) -> None:
    kernel.spawn(os.getpid(), NM, parent=100, session=100)
    with pytest.raises(ResizeRefusedError, match="the sidecar itself"):
        resizer(kernel).attach(CID, leader)
    assert kernel.pids(NM) == {10, 100, 101, 102, os.getpid()}


def test_group_outside_of_the_mount_is_refused(kernel: Kernel2, leader: Leader) -> None:
    (kernel.proc / "100" / "cgroup").write_text("0::/../../elsewhere\n")
    with pytest.raises(ResizeRefusedError, match="outside of what is mounted here") as refused:
        resizer(kernel).attach(CID, leader)
    assert "cgroup namespace" in refused.value.remedy


def test_parent_that_another_sidecar_removes_meanwhile_is_made_again(kernel: Kernel2, leader: Leader) -> None:
    kernel.errors["quicksilver/node1"] = [errno.ENOENT]
    resizer(kernel).attach(CID, leader)
    assert kernel.pids(OURS) == {100, 101, 102}


def test_refused_halfway_keeps_the_old_limits(kernel: Kernel2, leader: Leader) -> None:
    ours = resizer(kernel)
    ours.attach(CID, leader)
    ours.shrink(CID, 0.5)
    kernel.errors["cpu.weight"] = [errno.EINVAL]
    with pytest.raises(ResizeRefusedError, match="Invalid argument") as refused:
        ours.shrink(CID, 0.1)
    assert not refused.value.gone
    assert limits(kernel)[0] == "50000 100000"
    assert ours.holds(CID)


def test_rewritten_limits_and_escaped_processes(kernel: Kernel2, leader: Leader) -> None:
    ours = resizer(kernel)
    ours.attach(CID, leader)
    ours.shrink(CID, 0.5)
    (kernel.mount / OURS / "cpu.max").write_text("max 100000\n")
    assert not ours.holds(CID)
    ours.reassert(CID)
    assert ours.holds(CID)
    kernel.write(kernel.mount / NM / "cgroup.procs", "101", "")
    assert not ours.holds(CID)
    ours.reassert(CID)
    assert kernel.pids(OURS) == {100, 101, 102}
    kernel.end(101)
    assert ours.holds(CID)
    kernel.write(kernel.mount / OURS / "cgroup.freeze", "1", "")  # not by us
    assert not ours.holds(CID)
    ours.reassert(CID)
    assert ours.holds(CID)
    ours.freeze(CID)
    kernel.write(kernel.mount / OURS / "cgroup.freeze", "0", "")
    ours.reassert(CID)
    assert kernel.text(f"{OURS}/cgroup.freeze") == "1"
    assert ours.holds(CID)


def test_memory_is_bounded_and_reclaimed_when_asked_for(kernel: Kernel2, leader: Leader) -> None:
    ours = resizer(kernel, high_ratio=0.5, reclaim_ratio=0.25)
    assert ours.slow
    ours.attach(CID, leader)
    for fine in (0, errno.EAGAIN, errno.ENOENT):
        kernel.errors["memory.reclaim"] = [fine]
        ours.shrink(CID, 0.5)
        assert limits(kernel) == ("50000 100000", "50", "204800")
        assert ours.holds(CID)
    assert (f"{OURS}/memory.reclaim", "102400") in kernel.written
    kernel.errors["memory.reclaim"] = [errno.EIO]
    with pytest.raises(ResizeRefusedError, match="Input/output error"):
        ours.shrink(CID, 0.5)
    ours.restore(CID)
    assert limits(kernel) == ("max 100000", "100", "max")


def test_usage_and_pressure(kernel: Kernel2, leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = resizer(kernel)
    assert ours.usage(CID) == ContainerUsage(None, None)
    ours.attach(CID, leader)
    (kernel.mount / OURS / "cpu.stat").write_text("usage_usec 2500000\nnr_throttled 3\n")
    assert ours.usage(CID) == ContainerUsage(2.5, 3)  # 3 pages of 256 more than shared each, and 3 MB charged
    assert ours.pressure(CID) == {"cpu_some": 0.25, "memory_some": 0.04, "memory_full": 0.02}


def test_group_that_stays_busy_is_told(kernel: Kernel2, leader: Leader) -> None:
    ours = resizer(kernel)
    ours.attach(CID, leader)
    ours.shrink(CID, 0.5)
    kernel.group(f"{OURS}/inner")
    with pytest.raises(ResizeRefusedError, match="Device or resource busy"):
        ours.detach(CID)
    assert limits(kernel)[:2] == ("max 100000", "100")
    assert kernel.pids(NM) == {10, 100, 101, 102}
    kernel.rmdir(kernel.mount / OURS / "inner")
    ours.close()
    assert OURS not in kernel.groups()


@pytest.mark.parametrize("why", [errno.EBUSY, errno.EOPNOTSUPP])
def test_processes_go_up_when_their_group_takes_them_no_more(kernel: Kernel2, leader: Leader, why: int) -> None:
    ours = resizer(kernel)
    ours.attach(CID, leader)
    kernel.errors[f"{NM}/cgroup.procs"] = [why]
    ours.detach(CID)
    assert kernel.pids("system.slice") | kernel.pids(NM) == {10, 100, 101, 102}
    assert len(kernel.pids("system.slice")) == 1


def test_processes_go_up_when_their_group_is_gone(kernel: Kernel2, leader: Leader) -> None:
    ours = resizer(kernel)
    ours.attach(CID, leader)
    kernel.vanish(NM)
    kernel.rmdir(kernel.mount / "system.slice")
    ours.close()
    assert kernel.pids("") == {100, 101, 102}
    assert kernel.groups() == set()


def test_undo_gives_back_without_the_sidecar(kernel: Kernel2, leader: Leader) -> None:
    before = kernel.groups()
    ours = resizer(kernel)
    ours.attach(CID, leader)
    record = json.loads(json.dumps(ours.undo(CID)))
    assert record["resizer"] == "cgroup2"
    ours.shrink(CID, 0.05)
    ours.freeze(CID)
    undo_cgroup2(record)
    undo_cgroup2(record)
    assert kernel.pids(NM) == {10, 100, 101, 102}
    assert kernel.groups() == before


def test_refusal_does_not_keep_the_rest_from_being_given_back(kernel: Kernel2, leader: Leader) -> None:
    ours = resizer(kernel)
    ours.attach(CID, leader)
    ours.freeze(CID)
    kernel.errors["cpu.max"] = [errno.EPERM]
    with pytest.raises(ResizeRefusedError, match="Operation not permitted"):
        undo_cgroup2(ours.undo(CID))
    assert kernel.pids(NM) == {10, 100, 101, 102}
    assert OURS not in kernel.groups()


def test_processes_that_do_not_leave_are_told(kernel: Kernel2, leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2_restore, "_EMPTY_WITHIN_S", 0.0)
    ours = resizer(kernel)
    ours.attach(CID, leader)
    with pytest.raises(ResizeRefusedError, match="3 processes do not leave it"):
        ours.detach(CID)
    monkeypatch.undo()


def test_group_of_the_nodemanager(kernel: Kernel2) -> None:
    ours = nm_resizer(kernel)
    with pytest.raises(ResizeRefusedError) as refused:
        ours.attempt()
    assert refused.value.gone
    kernel.group("hadoop-yarn")
    ours.attempt()
    leader = kernel.spawn(200, "hadoop-yarn")
    with pytest.raises(ResizeRefusedError, match="made no group of it") as refused:
        ours.attach(CID, leader)
    assert not refused.value.gone
    group = f"hadoop-yarn/{CID}"
    kernel.group(f"{group}/docker-1.scope")
    kernel.spawn(201, f"{group}/docker-1.scope", parent=200, session=200)
    kernel.write(kernel.mount / group / "cpu.max", "max 50000", "")
    kernel.write(kernel.mount / group / "cpu.weight", "7", "")
    (kernel.mount / group / "cpu.stat").write_text("usage_usec 4000000\n")
    ours.attach(CID, leader)
    assert ours.usage(CID).cpu_s == 0
    ours.shrink(CID, 0.5)
    assert limits(kernel, group) == ("25000 50000", "7", "max")
    kernel.write(kernel.mount / group / "cpu.weight", "9", "")  # the NodeManager, at an update of the container
    assert ours.holds(CID)
    assert "cpu.weight" not in ours.undo(CID)
    kernel.write(kernel.mount / group / "cpu.max", "40000 50000", "")
    assert not ours.holds(CID)
    ours.reassert(CID)
    assert limits(kernel, group) == ("25000 50000", "9", "max")
    assert ours.undo(CID)["cpu.max"] == "40000 50000"
    ours.restore(CID)
    kernel.write(kernel.mount / group / "cpu.max", "max 50000", "")  # while nothing is shrunk
    ours.reassert(CID)
    assert ours.holds(CID)
    assert ours.parents() == []
    ours.close()
    assert limits(kernel, group) == ("max 50000", "9", "max")
    assert kernel.pids(f"{group}/docker-1.scope") == {201}


def test_nodemanager_without_the_cpu_controller_is_told(kernel: Kernel2) -> None:
    kernel.group("hadoop-yarn")
    (kernel.mount / "hadoop-yarn" / "cgroup.controllers").write_text("memory\n")
    with pytest.raises(ResizeRefusedError, match="cpu controller does not reach it") as refused:
        nm_resizer(kernel).attempt()
    assert "yarn.nodemanager.resource.cpu.enabled" in refused.value.remedy
    kernel.mkdir(kernel.mount / "hadoop-yarn" / CID, False)
    with pytest.raises(ResizeRefusedError, match="no cpu controller"):
        nm_resizer(kernel).attach(CID, kernel.spawn(200, f"hadoop-yarn/{CID}"))


def test_what_an_earlier_life_left_is_given_back(kernel: Kernel2, leader: Leader) -> None:
    before = kernel.groups()
    for cid, pid in ((CID, 100), (f"{CID}9", 300)):
        if pid == 300:
            kernel.spawn(300, NM, parent=1)  # nobody knows who started it
        left = resizer(kernel)
        left.attach(cid, Leader(pid, leader.began_s))
        left.shrink(cid, 0.05)
        left.freeze(cid)
    kernel.group("quicksilver/node1/attempt-5")
    kernel.group("quicksilver/node2/container_of_another_sidecar")
    assert clean_cgroup2("quicksilver/node1", None, kernel.proc) == ([CID, f"{CID}9"], [])
    assert kernel.pids(NM) == {10, 100, 101, 102}
    assert kernel.pids("") == {300}
    assert kernel.groups() == before | {
        "quicksilver",
        "quicksilver/node2",
        "quicksilver/node2/container_of_another_sidecar",
    }
    assert clean_cgroup2("quicksilver/node1", None, kernel.proc) == ([], [])


def test_container_of_an_earlier_life_is_taken_over(kernel: Kernel2, leader: Leader) -> None:
    resizer(kernel).attach(CID, leader)
    ours = resizer(kernel)
    ours.attach(CID, leader)
    ours.shrink(CID, 0.5)
    ours.close()
    assert kernel.pids(NM) == {10, 100, 101, 102}


def test_quotas_left_in_the_nodemanagers_groups_go(kernel: Kernel2) -> None:
    for cid, quota in ((CID, "5000 100000"), (f"{CID}9", "max 100000")):
        kernel.group(f"hadoop-yarn/{cid}")
        kernel.write(kernel.mount / f"hadoop-yarn/{cid}/cpu.max", quota, "")
    assert clean_cgroup2("quicksilver", "/hadoop-yarn", kernel.proc) == ([CID], [])
    assert kernel.text(f"hadoop-yarn/{CID}/cpu.max") == "max 100000"
    kernel.write(kernel.mount / f"hadoop-yarn/{CID}/cpu.max", "5000 100000", "")
    kernel.errors["cpu.max"] = [errno.EPERM]
    done, refused = clean_cgroup2("quicksilver", "/hadoop-yarn", kernel.proc)
    assert done == []
    assert "Operation not permitted" in refused[0]
