"""What is chosen, on machines made of files and on this one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from sidecar.resizer.base import Leader, ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from sidecar.resizer.probe import WANTED, Chosen, ProbeSqueeze, choose, groups_to_clean, nm_groups
from sidecar.resizer.processes import TICKS, cpu_s, family, look, scan
from sidecar.resizer.signals import Signals
from tests.sidecar.resizer.containers import NAME, PARENT, groups_left, needs_cgroup1
from tests.sidecar.resizer.trees import ACCOUNT_FILES, CPU_FILES, FREEZER_FILES, MEMORY_FILES, group, mount, proc

LEADER = Leader(100, 1000040.0)


def conf(folder: Path, **properties: str) -> HadoopConf:
    lines = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in properties.items())
    (folder / "yarn-site.xml").write_text(f"<configuration>{lines}</configuration>")
    return load_hadoop_conf(folder, {})


@pytest.mark.cgroup
def test_this_machine_is_really_tried_and_nothing_is_left() -> None:
    needs_cgroup1()
    chosen = choose("cgroup1", parent=PARENT)
    assert chosen.resizer is not None
    assert chosen.resizer.name == "cgroup1"
    assert chosen.why_not == {}
    assert groups_left() == []


def test_without_cgroups_signals_are_taken_and_the_reasons_told(tmp_path: Path) -> None:
    chosen = choose("auto", proc=proc(tmp_path / "proc"))
    assert chosen.resizer is not None
    assert chosen.resizer.name == "signals"
    assert list(chosen.why_not) == ["cgroup2", "cgroup1"]
    assert "no cgroup v1 hierarchy has the cpu controller" in chosen.why_not["cgroup1"]
    assert len(chosen.limits) == 2


def test_memory_that_cannot_be_squeezed_is_a_limitation(tmp_path: Path) -> None:
    chosen = choose("signals", proc=proc(tmp_path / "proc"), squeeze=ProbeSqueeze(high_ratio=0.5))
    assert chosen.warnings == ("memory of shrunk containers is not squeezed: signals cannot do that",)
    assert chosen.limits == list(chosen.warnings)


def test_cgroup1_in_place_of_cgroup2_is_no_limitation() -> None:
    why_not = {"cgroup2": "no cpu controller"}
    assert Chosen(Signals(), why_not, ("strict",)).limits == ["strict"]
    assert Chosen(None, why_not).limits == ["resizer cgroup2: no cpu controller"]
    assert len(Chosen(Signals(), why_not | {"cgroup1": "read-only"}).limits) == 2


def test_one_that_is_wanted_is_the_only_one_tried(tmp_path: Path) -> None:
    chosen = choose("cgroup1", proc=proc(tmp_path / "proc"))
    assert chosen.resizer is None
    assert list(chosen.why_not) == ["cgroup1"]


def test_none_is_none_and_unknown_ones_are_errors() -> None:
    assert choose("none").resizer is None
    with pytest.raises(ValueError, match="'cpuset' is no resizer"):
        choose("cpuset")
    assert "docker" in WANTED


def test_a_read_only_hierarchy_is_refused_with_a_remedy(tmp_path: Path) -> None:
    root = proc(tmp_path / "proc", mount(tmp_path / "cpu", "cpu,cpuacct", "ro"))
    chosen = choose("cgroup1", proc=root)
    assert chosen.resizer is None
    assert "read-only" in chosen.why_not["cgroup1"]
    assert "--privileged" in chosen.why_not["cgroup1"]


def test_a_group_that_cannot_be_made_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    chosen = choose("cgroup1", proc=proc(tmp_path / "proc", mount(tmp_path / "cpu", "cpu")))
    assert chosen.resizer is None
    assert "cpu.cfs_quota_us" in chosen.why_not["cgroup1"]  # plain folders get no control files
    assert list((tmp_path / "cpu").iterdir()) == []


@pytest.fixture
def co_mounted(tmp_path: Path) -> tuple[Cgroup1, Path]:
    """Return a resizer with cpu and cpuacct in one hierarchy, and the container's group in it."""
    mounts = {"cpu,cpuacct": tmp_path / "cpu and acct", "freezer": tmp_path / "freezer", "memory": tmp_path / "memory"}
    root = proc(tmp_path / "proc", *(mount(path, names) for names, path in mounts.items()))
    texts = {"cpu,cpuacct": [CPU_FILES, ACCOUNT_FILES], "freezer": [FREEZER_FILES], "memory": [MEMORY_FILES]}
    for names, path in mounts.items():
        group(path / "quicksilver" / NAME, *texts[names])
        (path / "quicksilver" / NAME / "cgroup.procs").write_text("100\n101\n")
    return Cgroup1(proc=root), mounts["cpu,cpuacct"] / "quicksilver" / NAME


def test_co_mounted_controllers_share_a_group(co_mounted: tuple[Cgroup1, Path]) -> None:
    resizer, cpu = co_mounted
    resizer.attach(NAME, LEADER)
    undo = resizer.undo(NAME)
    assert undo["cpu"] == undo["cpuacct"] == str(cpu)
    resizer.shrink(NAME, 0.25)
    assert (cpu / "cpu.cfs_quota_us").read_text() == "25000"
    (cpu / "cpuacct.usage").write_text("3500000000")
    assert resizer.usage(NAME).cpu_s == 3.5
    assert resizer.usage(NAME).memory_mb == 50
    assert {Path(parent).name for parent in resizer.parents()} == {"quicksilver"}
    assert len(resizer.parents()) == 3


def test_a_lost_control_file_is_gone_and_a_forbidden_one_is_refused(
    co_mounted: tuple[Cgroup1, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    resizer, cpu = co_mounted
    resizer.attach(NAME, LEADER)
    opened = os.open

    def forbidden(path: str | Path, flags: int, *args: int) -> int:
        if str(path).endswith("cfs_quota_us"):
            raise PermissionError(1, "Operation not permitted")
        return opened(path, flags, *args)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", forbidden)
        with pytest.raises(ResizeRefusedError, match="not permitted") as caught:
            resizer.shrink(NAME, 1)
    assert not caught.value.gone
    assert "root" in caught.value.remedy
    (cpu / "cpu.cfs_quota_us").unlink()
    with pytest.raises(ResizeRefusedError) as caught:
        resizer.shrink(NAME, 1)
    assert caught.value.gone


def test_a_container_that_does_not_freeze_is_thawed_and_refused(
    co_mounted: tuple[Cgroup1, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    resizer, _ = co_mounted
    resizer.attach(NAME, LEADER)
    written, write = [], files.write

    def never_frozen(path: Path, text: str, container_id: str) -> None:
        written.append(text)
        write(path, text.replace("FROZEN", "FREEZING"), container_id)

    monkeypatch.setattr(files, "write", never_frozen)
    with pytest.raises(ResizeRefusedError, match="still FREEZING"):
        resizer.freeze(NAME)
    assert written == ["FROZEN", "THAWED"]
    assert resizer.holds(NAME)


def test_groups_outside_of_the_mount_are_refused(tmp_path: Path) -> None:
    root = proc(tmp_path / "proc", mount(tmp_path / "cpu", "cpu", root="/docker/abc"), origins="1:cpu:/yarn\n")
    with pytest.raises(ResizeRefusedError, match="outside of what is mounted") as caught:
        Cgroup1(proc=root).attach(NAME, LEADER)
    assert "namespace" in caught.value.remedy


def test_mounts_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    root = proc(
        tmp_path / "proc",
        mount(tmp_path / "a b", "cpu,cpuacct", root="/docker/abc"),
        mount(tmp_path / "twice", "cpu"),
        mount(tmp_path / "ro", "memory", "ro"),
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755",
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw",
        "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd",
    )
    mounts = hierarchies(root)
    assert mounts.keys() == {"cpu", "cpuacct", "memory"}
    assert mounts["cpu"].mount == tmp_path / "a b"
    assert mounts["cpu"].folder("/docker/abc") == tmp_path / "a b"
    assert mounts["cpu"].folder("/docker/abc/x/y") == tmp_path / "a b" / "x" / "y"
    assert mounts["cpu"].folder("/docker/abcd") is None
    assert not mounts["memory"].writable


def test_processes_with_odd_names_are_read(tmp_path: Path) -> None:
    root = proc(tmp_path / "proc")
    process = look(101, root)
    assert process is not None
    assert (process.parent, process.session, process.ticks, process.began) == (100, 100, 26, 4000)
    assert family(LEADER, scan(root), root).keys() == {100, 101}
    assert look(102, root) is None
    gone = Leader(9999, 0.0)
    both = sum(process.ticks for process in scan(root).values() if process.pid in (100, 101)) / TICKS
    assert cpu_s({"here": LEADER, "gone": gone}, root) == {"here": both}
    assert cpu_s({}, root) == {}


def test_the_nodemanager_s_groups_are_told_by_its_settings(tmp_path: Path) -> None:
    executor = {"yarn.nodemanager.container-executor.class": "org.example.LinuxContainerExecutor"}
    cgroups = {"yarn.nodemanager.resource.cpu.enabled": "true"}
    strict = {"yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage": "true"}
    hierarchy = {"yarn.nodemanager.linux-container-executor.cgroups.hierarchy": "/yarn"}
    old = {
        "yarn.nodemanager.linux-container-executor.resources-handler.class": "org.example.CgroupsLCEResourcesHandler"
    }
    assert nm_groups(None) == (None, ())
    assert nm_groups(conf(tmp_path, **cgroups)) == (None, ())
    assert nm_groups(conf(tmp_path, **executor)) == (None, ())
    assert nm_groups(conf(tmp_path, **executor, **cgroups)) == ("/hadoop-yarn", ())
    assert nm_groups(conf(tmp_path, **executor, **old, **hierarchy)) == ("/yarn", ())
    _, warnings = nm_groups(conf(tmp_path, **executor, **cgroups, **strict))
    assert len(warnings) == 1
    assert "strict-resource-usage" in warnings[0]
    assert groups_to_clean(conf(tmp_path, **executor, **cgroups)) == "/hadoop-yarn"
    assert groups_to_clean(conf(tmp_path, **executor, **cgroups, **strict)) is None


def test_groups_of_the_nodemanager_are_tried_where_they_are(tmp_path: Path) -> None:
    cpu = tmp_path / "cpu"
    root = proc(tmp_path / "proc", mount(cpu, "cpu,cpuacct"))
    settings = {
        "yarn.nodemanager.container-executor.class": "org.example.LinuxContainerExecutor",
        "yarn.nodemanager.resource.cpu.enabled": "true",
    }
    hadoop = conf(tmp_path, **settings)
    assert "hadoop-yarn" in choose("cgroup1", conf=hadoop, proc=root).missing()
    group(cpu / "hadoop-yarn", CPU_FILES)
    group(cpu / "hadoop-yarn" / NAME, CPU_FILES | {"cpu.cfs_quota_us": "50000"}, ACCOUNT_FILES)
    resizer = choose("cgroup1", conf=hadoop, proc=root).resizer
    assert resizer is not None
    resizer.attach(NAME, LEADER)
    resizer.shrink(NAME, 0.1)
    resizer.detach(NAME)
    assert (cpu / "hadoop-yarn" / NAME / "cpu.cfs_quota_us").read_text() == "50000"
    assert not (cpu / "quicksilver").exists()


def test_docker_stands_before_what_is_found_for_the_others(tmp_path: Path) -> None:
    chosen = choose("docker", proc=proc(tmp_path / "proc"), docker_url=f"unix://{tmp_path}/none.sock")
    assert chosen.resizer is not None
    assert chosen.resizer.name == "docker or signals"
