"""A short campaign of faults on a real cluster; `make faults` runs a long one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.workloads.faults import plan
from quicksilver_lab.workloads.faults.__main__ import CampaignOptions, noticed, run
from quicksilver_lab.workloads.faults.jobs import MAPREDUCE, SHELL

pytestmark = [pytest.mark.hadoop, pytest.mark.postgres, pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(590)]
"""`make test` has the faults one by one: test_proxy_restart, test_sidecar_restart, test_node_and_am_failures and
test_failover here, tests/rm_proxy/store/test_store_outages.py."""
FAULTS = 15


def test_nobody_notices_one_of_each_fault_and_some_more(tmp_path: Path) -> None:
    options = CampaignOptions(
        workdir=tmp_path / "faults",
        base_port=free_base_port(),
        faults=FAULTS,
        minutes=4.0,
        pause_s=5.0,
        seed=6,
        plain=False,
        preempt="kill_newest",
        store="postgresql",
        lanes=(MAPREDUCE, SHELL),
        each_first=True,
    )
    result = run(options, print)
    assert not (found := noticed(result)), json.dumps(found) + "\n" + json.dumps(result["all_faults"])
    assert set(result["by_kind"]) == set(plan.KINDS), "in four minutes"
    assert set(result["jobs_by_kind"]) == {MAPREDUCE, SHELL}
    assert result["containers_launched"] >= 20
