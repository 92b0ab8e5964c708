"""Tokens of an application: how many of its containers run at a time, as NodeManagers recorded it (Apollo §3.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from quicksilver_lab.bench.sleep_job import SYSTEM, SleepJob, all_lives, job
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.workloads.nm_log import most_at_once
from tests.real.conftest import NODES, VCORES
from tests.real.test_policies import stack

pytestmark = pytest.mark.hadoop
TASKS, SECONDS, TOKENS = 4 * NODES * VCORES, 1.0, 2
ADMIT: Mapping[str, Any] = {"policy": "tokens", "settings": {"job_tokens": TOKENS, "allowance_ratio": 1.0}}
AT_ONCE: Mapping[str, Any] = {"place": {"policy": "late"}, "estimate": {"default_s": SECONDS}}
"""A container gets a node only when it starts there at once."""


@pytest.fixture(scope="module")
def cluster(three_nodes: Cluster) -> Cluster:
    return three_nodes


async def many_short(cluster: Cluster) -> SleepJob:
    """Run a job of many short tasks alone."""
    async with job(cluster, "many") as mine:
        mine.ask(TASKS, SECONDS)
        await mine.until_done()
    return mine


def at_once(cluster: Cluster, made: Mapping[str, str], kind: str) -> int:
    """Return how many containers of a kind ("" for all) ran at a time at most; made: kinds by container id."""
    lives = all_lives(cluster)
    return most_at_once(lives[cid] for cid, was in made.items() if cid in lives and kind in ("", was))


@pytest.mark.parametrize("given", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_application_runs_what_its_tokens_and_its_allowance_allow(cluster: Cluster, given: bool) -> None:
    with stack(cluster, **AT_ONCE, **({"admit": ADMIT} if given else {})) as running:
        mine = asyncio.run(many_short(cluster))
        found = running.get(f"/v1/decisions?app={mine.app_id}&limit=1000")["items"]
    assert all(task.exits[-1] == 0 and SYSTEM.issuperset(task.exits[:-1]) for task in mine.tasks)
    made = {one["container_id"]: one["kind"] for one in found}
    assert {cid for task in mine.tasks for cid in task.containers} <= made.keys()
    reasons = {one["route_reason"].partition("; admit: ")[2] or one["route_reason"] for one in found}
    if given:
        assert 0 < at_once(cluster, made, "G") <= TOKENS
        assert 0 < at_once(cluster, made, "Q") <= TOKENS, "one for each token"
        assert at_once(cluster, made, "") <= 2 * TOKENS < NODES * VCORES
        assert "tokens: has a token" in reasons
        assert f"tokens: opportunistic, within its allowance of {TOKENS}" in reasons
    else:
        assert set(made.values()) == {"Q"}
        assert at_once(cluster, made, "") == NODES * VCORES
        assert not any("token" in reason for reason in reasons)
