"""The cgroup v2 resizer in a virtual machine, whose kernel has all controllers in cgroup v2."""

import re
import shlex
import sys
from pathlib import Path
from typing import Final

import pytest

from quicksilver_lab.workloads.vm.kernel import Kernel, KernelMissingError, find_kernel
from quicksilver_lab.workloads.vm.machine import run, why_not
from tests.paths import ROOT

CHECKOUT: Final = ROOT
CACHE: Final = CHECKOUT / "run" / "vm"
INSIDE: Final = "tests/sidecar/resizer/test_real_cgroup2.py"
WELL: Final = 7
"""A code that comes from the command alone."""
_COUNTS: Final = re.compile(r"(\d+) (passed|failed|error|errors|skipped)\b")

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    if why := why_not():
        pytest.skip(why)
    try:
        return find_kernel(CACHE)
    except KernelMissingError as error:
        pytest.skip(str(error))


@pytest.mark.timeout(900)
def test_cgroup2_tests_pass_in_a_virtual_machine(kernel: Kernel, tmp_path: Path) -> None:
    """Nothing is loaded that the tests do without: an emulated processor needs long for it."""
    lean = "-B -m pytest -p no:cacheprovider -p no:anyio -p no:hypothesispytest --noconftest"
    tests = f"{shlex.quote(sys.executable)} {lean} --color=no --tb=short -s -q {INSIDE}"
    sees = "uname -r; cat /sys/fs/cgroup/cgroup.controllers; touch made"
    ended = run(kernel, CHECKOUT, f"{sees}; {tests} && exit {WELL}", tmp_path, timeout_s=600)
    print(ended.output)
    counts = {what: int(number) for number, what in _COUNTS.findall(ended.output.splitlines()[-1])}
    wanted = sum(1 for _ in re.finditer(r"^def test_", (CHECKOUT / INSIDE).read_text(encoding="utf-8"), re.MULTILINE))
    assert ended.code == WELL
    assert counts.keys() == {"passed"}
    assert counts["passed"] >= wanted
    assert {"cpu", "memory"} <= set(ended.output.split())
    assert not (CHECKOUT / "made").exists()
