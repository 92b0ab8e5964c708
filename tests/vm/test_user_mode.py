"""User-mode Linux: cgroup v2 with all controllers, this machine's files, and no way to change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver_lab.workloads.vm.kernel import KernelMissingError
from quicksilver_lab.workloads.vm.machine import MachineError
from quicksilver_lab.workloads.vm.user_mode import find_linux, run
from tests.paths import ROOT

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def linux() -> Path:
    try:
        return find_linux(ROOT / "run" / "vm")
    except KernelMissingError as error:
        pytest.skip(str(error))


def test_a_command_ends_with_its_code_and_output(linux: Path, tmp_path: Path) -> None:
    command = "cat /sys/fs/cgroup/cgroup.controllers && pwd && touch made; touch /tmp/mine && exit 7"
    ended = run(linux, ROOT, command, tmp_path, memory_mb=256, timeout_s=100)
    assert ended.code == 7
    assert {"cpu", "memory", str(ROOT)} <= set(ended.output.split())
    assert "Read-only file system" in ended.output
    assert not (ROOT / "made").exists() and not Path("/tmp/mine").exists()


def test_one_that_does_not_end_is_ended(linux: Path, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"no exit code within 20 s:[\s\S]*begun"):
        run(linux, ROOT, "echo begun; sleep 1000", tmp_path, memory_mb=256, timeout_s=20)
