"""The tests of this folder on a kernel that has all controllers in cgroup v2: user-mode Linux, a program here."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Final

import pytest

from quicksilver_lab.cluster.executors.linux_executor import why_not
from quicksilver_lab.cluster.runtime.jars import hadoop_jars
from quicksilver_lab.cluster.runtime.java import find_java
from quicksilver_lab.workloads.vm.kernel import KernelMissingError
from quicksilver_lab.workloads.vm.user_mode import find_linux, run
from tests.paths import ROOT

FOLDER: Final = Path("tests/real/kernels")
WELL: Final = 7
"""A code that comes from the command alone."""
_MEMORY_MB: Final = 3072
_PYTEST: Final = (
    "-B -m pytest -p no:cacheprovider -p no:anyio -p no:hypothesispytest --noconftest --color=no --tb=short"
)

pytestmark = [pytest.mark.hadoop, pytest.mark.vm, pytest.mark.long]


def check(tests: str, scratch: Path) -> None:
    """Run tests on the other kernel, and check that they passed, and none was skipped."""
    try:
        linux = find_linux(ROOT / "run" / "vm")
    except KernelMissingError as error:
        pytest.skip(str(error))
    command = f"uname -r; {shlex.quote(sys.executable)} {_PYTEST} -s -q {tests} && exit {WELL}"
    ended = run(linux, ROOT, command, scratch, memory_mb=_MEMORY_MB, timeout_s=540)
    print(ended.output)
    assert ended.code == WELL
    assert re.search(r"^\d+ passed(, \d+ warnings?)? in ", ended.output, re.MULTILINE)


@pytest.mark.timeout(600)
def test_default_executor(tmp_path: Path) -> None:
    hadoop_jars(find_java())
    check(str(FOLDER / "test_default_executor.py"), tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_linux_executor(tmp_path: Path) -> None:
    hadoop_jars(find_java(), version="3.5.0")
    check(f"{FOLDER / 'test_linux_executor.py'} -k 'not docker'", tmp_path)
