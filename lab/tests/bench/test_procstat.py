"""CPU time of processes."""

from __future__ import annotations

import os
import time
from itertools import pairwise

import psutil
import pytest

from quicksilver_lab.bench.procstat import cpu_s


def test_cpu_time_of_a_process_grows_by_less_than_a_step_of_the_kernels_clock() -> None:
    samples = [cpu_s(os.getpid())]
    until_s = time.process_time() + 0.05
    while time.process_time() < until_s:
        samples.append(cpu_s(os.getpid()))
    steps = [after - before for before, after in pairwise(samples)]
    assert min(steps) >= 0
    assert 0 < min(step for step in steps if step) < 0.01
    assert abs(samples[-1] - time.process_time()) < 0.1


def test_a_process_that_is_gone_is_an_error() -> None:
    with pytest.raises(psutil.NoSuchProcess):
        cpu_s(2**22 + 1)
