"""A NodeManager that makes its cgroup hierarchy after the sidecar began, as after each boot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from sidecar.resizer.probe import choose
from tests.sidecar.resizer.containers import NAME, container, needs_cgroup1
from tests.sidecar.resizer.kernel2 import Kernel2
from tests.sidecar.resizer.test_probe import LEADER
from tests.sidecar.resizer.trees import ACCOUNT_FILES, CPU_FILES, group, mount, proc

_LCE = "yarn.nodemanager.linux-container-executor"


def nodemanager(folder: Path, hierarchy: str = "/hadoop-yarn", **more: str) -> HadoopConf:
    """Return the site file of a NodeManager that manages control groups."""
    properties = {
        "yarn.nodemanager.container-executor.class": "org.example.LinuxContainerExecutor",
        "yarn.nodemanager.resource.cpu.enabled": "true",
        f"{_LCE}.cgroups.hierarchy": hierarchy,
        **more,
    }
    lines = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in properties.items())
    (folder / "yarn-site.xml").write_text(f"<configuration>{lines}</configuration>")
    return load_hadoop_conf(folder, {})


@pytest.mark.cgroup
@pytest.mark.parametrize("wanted", ["auto", "cgroup1"])
def test_containers_are_shrunk_once_the_hierarchy_is_there(tmp_path: Path, wanted: str) -> None:
    needs_cgroup1()
    name = f"late-{wanted}-{os.getpid()}"
    top = hierarchies()["cpu"].mount / name
    chosen = choose(wanted, parent=f"ours-{name}", conf=nodemanager(tmp_path, f"/{name}"))
    assert chosen.resizer is not None
    assert (chosen.resizer.name, chosen.resizer.pauses_only) == ("cgroup1", False)
    assert chosen.limits == [f"nothing is shrunk yet: the NodeManager has not made {top} yet"]
    with container("sleep 1000") as leader:
        with pytest.raises(ResizeRefusedError, match="the NodeManager made no group of it"):
            chosen.resizer.attach(NAME, leader)
        try:
            (top / NAME).mkdir(parents=True)
            files.write(top / NAME / "cgroup.procs", str(leader.pid), NAME)
            assert chosen.limits == []
            chosen.resizer.attach(NAME, leader)
            chosen.resizer.shrink(NAME, 0.05)
            assert files.read(top / NAME / "cpu.cfs_quota_us") == "5000"
            chosen.resizer.detach(NAME)
            files.write(top.parent / "cgroup.procs", str(leader.pid), NAME)
        finally:
            files.remove_empty([top / NAME, top])


@pytest.mark.parametrize("nm_mounts", ["true", "false"])
def test_controllers_that_the_nodemanager_mounts_are_waited_for(tmp_path: Path, nm_mounts: str) -> None:
    root = proc(tmp_path / "proc")
    conf = nodemanager(tmp_path, **{f"{_LCE}.cgroups.mount": nm_mounts})
    chosen = choose("auto", conf=conf, proc=root)
    assert chosen.resizer is not None
    assert chosen.resizer.name == ("cgroup1" if nm_mounts == "true" else "signals")
    if nm_mounts == "false":
        return
    assert "no cgroup v1 hierarchy has the cpu controller" in chosen.missing()
    (root / "self" / "mountinfo").write_text(mount(tmp_path / "cpu", "cpu,cpuacct") + "\n")
    group(tmp_path / "cpu" / "hadoop-yarn" / NAME, CPU_FILES, ACCOUNT_FILES)
    assert chosen.missing() == ""
    chosen.resizer.attach(NAME, LEADER)
    chosen.resizer.shrink(NAME, 0.1)
    assert (tmp_path / "cpu" / "hadoop-yarn" / NAME / "cpu.cfs_quota_us").read_text() == "10000"


def test_a_hierarchy_that_cannot_be_used_is_not_waited_for(tmp_path: Path) -> None:
    root = proc(tmp_path / "proc", mount(tmp_path / "cpu", "cpu,cpuacct", "ro"))
    chosen = choose("auto", conf=nodemanager(tmp_path), proc=root)
    assert chosen.resizer is not None
    assert chosen.resizer.name == "signals"
    assert "read-only" in chosen.why_not["cgroup1"]
    assert chosen.missing() == ""


def test_a_hierarchy_of_cgroup_v2_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel2(tmp_path, monkeypatch)
    chosen = choose("auto", conf=nodemanager(tmp_path), proc=kernel.proc)
    assert chosen.resizer is not None
    assert (chosen.resizer.name, chosen.resizer.pauses_only) == ("cgroup2", False)
    assert "has not made" in chosen.missing()
    kernel.group(f"hadoop-yarn/{NAME}")
    assert chosen.missing() == ""
    chosen.resizer.attach(NAME, kernel.spawn(200, f"hadoop-yarn/{NAME}"))
    chosen.resizer.shrink(NAME, 0.5)
    assert kernel.text(f"hadoop-yarn/{NAME}/cpu.max") == "50000 100000"
