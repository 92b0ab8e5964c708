"""What the Engine is told, and cgroups of either version on a tree of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.resizer.docker.engine import DockerLimits
from sidecar.resizer.docker.group import ContainerGroup, group_of
from sidecar.resizer.docker.limits import full, period_us, quota_us, shrunk

LIMITS = st.one_of(
    st.builds(DockerLimits, st.integers(10_000_000, 64 * 10**9), st.just(0), st.just(0), st.integers(0, 4096)),
    st.builds(
        DockerLimits,
        st.just(0),
        st.sampled_from([-1, 0, 1000, 30_000, 400_000]),
        st.sampled_from([0, 1000, 20_000, 1_000_000]),
        st.integers(0, 4096),
    ),
)
CGROUP2 = {
    "cpu.max": "max 100000\n",
    "cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
    "memory.stat": f"anon {64 << 20}\nfile {512 << 20}\n",
    "cgroup.freeze": "0\n",
}


@given(LIMITS, st.floats(0.001, 64), st.booleans())
def test_a_bound_never_gives_more_and_names_what_is_given_back(was: DockerLimits, cores: float, shares: bool) -> None:
    less, back = shrunk(was, cores, shares), full(was, shares)
    assert less.keys() == back.keys()
    assert 0 not in [*less.values(), *back.values()]  # 0 means "as it is"
    assert ("CpuShares" in less) == shares
    assert quota_us(back) == -1 or 1000 <= quota_us(less) <= quota_us(back)
    if cores * period_us(was) >= 1000 and cores >= 0.01:
        assert quota_us(less) / period_us(was) <= cores + 1e-3


@pytest.mark.parametrize(
    ("was", "less", "back"),
    [
        (DockerLimits(0, 0, 0, 0), {"CpuQuota": 5000, "CpuShares": 2}, {"CpuQuota": -1, "CpuShares": 1024}),
        (
            DockerLimits(5 * 10**8, 0, 0, 9),
            {"NanoCpus": 5 * 10**7, "CpuShares": 2},
            {"NanoCpus": 5 * 10**8, "CpuShares": 9},
        ),
        (
            DockerLimits(0, 30_000, 50_000, 0),
            {"CpuQuota": 2500, "CpuShares": 2},
            {"CpuQuota": 30_000, "CpuShares": 1024},
        ),
    ],
)
def test_limits_by_example(was: DockerLimits, less: dict[str, int], back: dict[str, int]) -> None:
    assert (shrunk(was, 0.05, True), full(was, True)) == (less, back)


def a_proc(tmp_path: Path, mounts: str, groups: str) -> Path:
    for pid, name, text in (("self", "mountinfo", mounts), ("7", "cgroup", groups)):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / name).write_text(text)
    return tmp_path / "proc"


def a_group(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("root", ["/", "/outer"])
def test_cgroup_v2_is_read(tmp_path: Path, root: str) -> None:
    folder = a_group(tmp_path / "cgroup" / "docker" / "abc", CGROUP2)
    mounts = f"30 24 0:26 {root} {tmp_path / 'cgroup'} rw,nosuid - cgroup2 cgroup2 rw\n"
    proc = a_proc(tmp_path, mounts, f"0::{root.rstrip('/')}/docker/abc\n")
    group = group_of(7, proc)
    assert group == ContainerGroup(True, folder, folder, folder, folder)
    assert (group.quota_us(), group.shares(), group.frozen()) == (-1, None, False)
    assert (group.cpu_s(), group.memory_mb()) == (2.5, 64)
    (folder / "cpu.max").write_text("5000 100000\n")
    (folder / "cgroup.freeze").write_text("1\n")
    assert (group.quota_us(), group.frozen()) == (5000, True)
    for file in folder.iterdir():
        file.unlink()
    assert (group.quota_us(), group.frozen(), group.cpu_s(), group.memory_mb()) == (None, None, None, None)


def test_comounted_controllers_of_cgroup_v1_are_read_beside_an_empty_v2(tmp_path: Path) -> None:
    both = a_group(tmp_path / "cpu,cpuacct" / "docker" / "abc", {"cpu.cfs_quota_us": "-1\n", "cpuacct.usage": "7000\n"})
    a_group(tmp_path / "unified" / "docker" / "abc", {})
    mounts = (
        f"30 24 0:26 / {tmp_path / 'cpu,cpuacct'} rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"31 24 0:27 / {tmp_path / 'unified'} rw - cgroup2 cgroup2 rw\n"
    )
    group = group_of(7, a_proc(tmp_path, mounts, "4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n"))
    assert group == ContainerGroup(False, both, both, None, None)
    assert (group.quota_us(), group.frozen(), group.cpu_s(), group.memory_mb()) == (-1, None, 7e-6, None)


def test_what_cannot_be_seen_is_none(tmp_path: Path) -> None:
    proc = a_proc(tmp_path, f"31 24 0:27 / {tmp_path} rw - cgroup2 cgroup2 rw\n", "0::/docker/abc\n")
    assert group_of(7, proc) is None
    assert group_of(8, proc) is None
