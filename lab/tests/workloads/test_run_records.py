from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver_lab.workloads.run_records import Percentiles, assignment_delays, start_times

LOG = """\
2026-01-01 10:00:00,000 INFO [x] org.apache.TaskAttemptImpl: attempt_1_0001_m_000000_0 TaskAttempt Transitioned from NEW to UNASSIGNED
2026-01-01 10:00:00,100 INFO [x] org.apache.TaskAttemptImpl: attempt_1_0001_r_000000_0 TaskAttempt Transitioned from NEW to UNASSIGNED
2026-01-01 10:00:01,250 INFO [y] org.apache.RMContainerAllocator: Assigned container container_1_0001_01_000002 to attempt_1_0001_m_000000_0
2026-01-01 10:00:09,000 INFO [y] org.apache.RMContainerAllocator: Assigned container container_1_0001_01_000003 to attempt_1_0001_r_000000_0
"""  # noqa: E501


def test_delays_are_those_of_maps() -> None:
    assert assignment_delays(LOG) == {"container_1_0001_01_000002": pytest.approx(1.25)}


def test_percentiles_are_nearest_ranks() -> None:
    assert Percentiles.of([float(n) for n in range(1, 21)]) == Percentiles(20, 10.0, 19.0)
    assert Percentiles.of([]) == Percentiles(0, None, None)


def test_start_times_come_from_the_nodemanagers_log(tmp_path: Path) -> None:
    log = tmp_path / "nm.log"
    line = "INFO org.apache.ContainerManagerImpl: Start request for container_1_0001_01_000002 by user root"
    log.write_text(f"2026-01-01 10:00:00,500 {line}\n2026-01-01 10:00:01,500 {line.replace('02 by', '03 by')}\n")
    times = start_times(log)
    assert times["container_1_0001_01_000003"] - times["container_1_0001_01_000002"] == pytest.approx(1.0)
