"""Machines that are not this one: /proc and cgroup folders as plain files."""

from __future__ import annotations

import os
from pathlib import Path

CPU_FILES = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000", "cpu.shares": "1024", "cgroup.procs": ""}
ACCOUNT_FILES = {"cpuacct.usage": "0", "cgroup.procs": ""}
FREEZER_FILES = {"freezer.state": "THAWED", "cgroup.procs": ""}
MEMORY_FILES = {"memory.stat": "total_rss 52428800\ntotal_cache 99999999", "cgroup.procs": ""}


def proc(folder: Path, *mounts: str, origins: str = "1:cpu,cpuacct:/\n2:freezer:/\n3:memory:/\n") -> Path:
    """Make a /proc with this process's numbers in it: pid 100 is a leader, 101 its child."""
    (folder / "self").mkdir(parents=True)
    (folder / "self" / "mountinfo").write_text("".join(f"{mount}\n" for mount in mounts))
    (folder / "self" / "stat").write_text(_stat(os.getpid(), 1, 1))
    (folder / "stat").write_text("cpu 0\nbtime 1000000\n")
    for pid, parent in ((100, 1), (101, 100)):
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "stat").write_text(_stat(pid, parent, 100))
        (folder / str(pid) / "cgroup").write_text(origins)
        (folder / str(pid) / "statm").write_text("5000 2560 0 0 0 0 0")
        (folder / str(pid) / "status").write_text("SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n")
    return folder


def mount(path: Path, controllers: str, options: str = "rw", root: str = "/") -> str:
    """Return a line of mountinfo."""
    at = str(path).replace(" ", "\\040")
    return f"32 31 0:29 {root} {at} {options},relatime shared:9 - cgroup cgroup rw,{controllers}"


def group(path: Path, *files: dict[str, str]) -> Path:
    """Make a group with its control files."""
    path.mkdir(parents=True, exist_ok=True)
    for texts in files:
        for name, text in texts.items():
            (path / name).write_text(text)
    return path


def _stat(pid: int, parent: int, session: int) -> str:
    return f"{pid} (a (b) c) S {parent} {session} {session} 0 -1 0 0 0 0 0 5 6 7 8 20 0 1 0 4000 1000000 2560 0"
