"""Which of several mounts of a hierarchy is the one in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.resizer.cgroup.mountinfo import mounts
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from sidecar.resizer.cgroup.v2_mount import unified
from sidecar.resizer.docker.group import group_of

READ_ONLY = "30 25 0:26 / {at}/ro ro,nosuid,nodev,noexec,relatime master:9 - cgroup cgroup rw,cpu,cpuacct"
WRITABLE = "90 25 0:26 / {at}/rw rw,relatime - cgroup cgroup rw,cpu,cpuacct"


def mounted(folder: Path, *lines: str) -> Path:
    """Return a /proc with these lines in mountinfo; {at} is the folder."""
    (folder / "self").mkdir()
    (folder / "self" / "mountinfo").write_text("".join(line.format(at=folder) + "\n" for line in lines))
    return folder


@pytest.mark.parametrize("lines", [(READ_ONLY, WRITABLE), (WRITABLE, READ_ONLY)])
def test_the_writable_one_is_taken_in_either_order(tmp_path: Path, lines: tuple[str, ...]) -> None:
    found = hierarchies(mounted(tmp_path, *lines))
    assert {name: (hierarchy.mount, hierarchy.writable) for name, hierarchy in found.items()} == {
        "cpu": (tmp_path / "rw", True),
        "cpuacct": (tmp_path / "rw", True),
    }


@pytest.mark.parametrize("first", ["ro", "rw"])
def test_the_writable_one_of_cgroup_v2_is_taken(tmp_path: Path, first: str) -> None:
    for name in ("ro", "rw"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.controllers").write_text("cpu memory\n")
    names = sorted(("ro", "rw"), key=lambda name: name != first)
    lines = [f"3{number} 25 0:26 / {{at}}/{name} {name} - cgroup2 cgroup2 rw" for number, name in enumerate(names)]
    assert unified(mounted(tmp_path, *lines)).mount == tmp_path / "rw"


def test_one_with_a_read_only_file_system_is_not_writable(tmp_path: Path) -> None:
    root = mounted(tmp_path, "30 25 0:26 / /c rw,relatime - cgroup cgroup ro,cpu")
    assert not hierarchies(root)["cpu"].writable


@pytest.mark.parametrize(
    ("above", "left"),
    [
        ("91 90 0:26 / {at}/rw ro - cgroup cgroup rw,cpu,cpuacct", [91]),
        ("92 25 0:50 / {at} rw - tmpfs tmpfs rw", []),
        ("93 25 0:51 / / rw - overlay overlay rw", []),
    ],
)
def test_one_under_another_mount_is_not_taken(tmp_path: Path, above: str, left: list[int]) -> None:
    root = mounted(tmp_path, "25 1 8:1 / / rw - ext4 /dev/sda rw", WRITABLE, above)
    assert [mount.number for mount in mounts("cgroup", root)] == left


def test_the_root_may_be_listed_after_what_is_in_it(tmp_path: Path) -> None:
    """After the initial file system, / is mounted later than /sys and moved below it."""
    root = mounted(
        tmp_path,
        "22 61 0:21 / /sys rw - sysfs sysfs rw",
        "25 22 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw",
        "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
        "61 1 8:1 / / rw - ext4 /dev/sda rw",
    )
    assert hierarchies(root)["cpu"].mount == Path("/sys/fs/cgroup/cpu")


def test_the_group_of_docker_is_looked_for_in_every_mount(tmp_path: Path) -> None:
    """One mount shows a single container, another all of them."""
    (tmp_path / "rw" / "docker" / "b").mkdir(parents=True)
    root = mounted(tmp_path, "29 25 0:26 /docker/a {at}/own rw - cgroup cgroup rw,cpu,cpuacct", WRITABLE)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("4:cpu,cpuacct:/docker/b\n0::/\n")
    group = group_of(7, root)
    assert group is not None
    assert group.cpu == tmp_path / "rw" / "docker" / "b"


def test_the_group_of_docker_on_cgroup_v2_is_where_it_can_be_seen(tmp_path: Path) -> None:
    (tmp_path / "all" / "docker" / "b").mkdir(parents=True)
    (tmp_path / "all" / "docker" / "b" / "cpu.max").write_text("max 100000\n")
    (tmp_path / "own" / "docker" / "b").mkdir(parents=True)
    (tmp_path / "own" / "docker" / "b" / "cpu.max").write_text("1000 100000\n")  # of another container
    root = mounted(
        tmp_path,
        "29 25 0:27 /docker/a {at}/own rw - cgroup2 cgroup2 rw",
        "30 25 0:27 / {at}/all rw - cgroup2 cgroup2 rw",
    )
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/docker/b\n")
    group = group_of(7, root)
    assert group is not None
    assert (group.cpu, group.quota_us()) == (tmp_path / "all" / "docker" / "b", -1)
