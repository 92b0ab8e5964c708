"""container-executor as it wants to lie; the program is a shell script here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quicksilver_lab.cluster.errors import MissingToolError
from quicksilver_lab.cluster.executors.linux_executor import VARIABLE, LinuxExecutor, linux_executor, why_not

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def program(folder: Path, code: int) -> Path:
    path = folder / "container-executor"
    path.write_text(f"#!/bin/sh\necho $1 >&2\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert why_not() == f"no container-executor: set {VARIABLE} to that of a binary distribution of Hadoop " + (
        "(bin/container-executor)"
    )
    with pytest.raises(MissingToolError, match=VARIABLE), linux_executor():
        pass
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    assert "no program that can be read and run" in why_not()
    monkeypatch.setenv(VARIABLE, str(program(tmp_path, 0)))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run as root" in why_not()


@root
def test_it_is_roots_with_the_setuid_bit_and_has_its_configuration(tmp_path: Path) -> None:
    executor = LinuxExecutor(tmp_path / "lce", "daemon", {"docker": {"docker.allowed.rw-mounts": "{folder}/cluster"}})
    executor.write(program(tmp_path, 0))
    executor.check()
    about = executor.program.stat()
    assert (about.st_uid, about.st_mode & 0o7777) == (0, 0o6050)
    text = (tmp_path / "lce" / "etc" / "hadoop" / "container-executor.cfg").read_text()
    assert text.splitlines() == [
        "yarn.nodemanager.linux-container-executor.group=daemon",
        "min.user.id=1000",
        "banned.users=root",
        "[docker]",
        f"  docker.allowed.rw-mounts={tmp_path}/lce/cluster",
    ]
    site = executor.site("/yarn")
    assert site["yarn.nodemanager.linux-container-executor.cgroups.hierarchy"] == "/yarn"
    assert executor.site(None).keys() < site.keys()


@root
def test_one_that_does_not_like_its_place_says_so(tmp_path: Path) -> None:
    executor = LinuxExecutor(tmp_path / "lce", "daemon")
    executor.write(program(tmp_path, 24))
    with pytest.raises(MissingToolError, match="it ended with 24: --checksetup"):
        executor.check()
