"""Health as a function of facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quicksilver.common.address import Address
from rm_proxy.config import Endpoints
from rm_proxy.service.health import ENCRYPTED_S, MAX_PROBLEMS, HealthFacts, health

WELL = HealthFacts(
    now_s=10_000.0,
    started_s=1.0,
    endpoints=Endpoints(Address("a", 1), Address("b", 2), "http://b", Address("", 0), "", Path("unused")),
    settings_version="1-a",
    mode="active",
    nodes=3,
    nodes_usable=2,
    unusable=(),
    drained=(),
    no_sidecar=(),
    connections=4,
    attempts=5,
    restored=0,
    store="sqlite",
    store_backlog=6,
    store_outage=None,
    rest_failures={},
    upstream_down=None,
    encrypted_s=0.0,
    no_grants="",
    bypass=(),
    bypass_ordered="",
)


def test_all_is_well() -> None:
    answer = health(WELL)
    assert (answer.status, answer.rm_reachable, answer.problems) == ("ok", True, [])
    assert (answer.listen, answer.upstream, answer.rm_web) == ("a:1", "b:2", "http://b")
    counts = (answer.nodes, answer.nodes_usable, answer.connections, answer.attempts, answer.store_backlog)
    assert counts == (3, 2, 4, 5, 6)


@pytest.mark.parametrize(
    ("change", "reachable", "problems"),
    [
        (
            {"rest_failures": {"nodes": "refused", "apps": "refused", "conf": "slow"}},
            False,
            ["the ResourceManager's REST: refused", "the ResourceManager's REST: slow"],
        ),
        ({"upstream_down": "away"}, False, ["the ResourceManager's scheduler cannot be reached: away"]),
        (
            {"no_grants": "Hadoop 3.1.1 grants none"},
            True,
            ["no container is queueable, all go guaranteed at once: Hadoop 3.1.1 grants none"],
        ),
        ({"store_outage": "disk full"}, True, ["the store accepts no rows: disk full"]),
        ({"bypass": ["bypass (bypass): spent"]}, True, ["bypass (bypass): spent"]),
        ({"unusable": [("n1:1", "silent")]}, True, ["node n1:1 takes no queueable containers: silent"]),
        (
            {"nodes_usable": 0, "no_sidecar": ["n1:1", "n2:1"]},
            True,
            ["no sidecar has reported since the proxy started: n1:1, n2:1"],
        ),
    ],
)
def test_each_problem_degrades(change: dict[str, Any], reachable: bool, problems: list[str]) -> None:
    answer = health(replace(WELL, **change))
    assert (answer.status, answer.rm_reachable, answer.problems) == ("degraded", reachable, problems)


@pytest.mark.parametrize(
    ("change", "notice"),
    [
        ({"drained": [("n1:1", "its sidecar is draining: new disk")]}, "as ordered: its sidecar is draining: new disk"),
        ({"bypass_ordered": "bypass (bypass): ordered by ann"}, "bypass (bypass): ordered by ann"),
        (
            {"nodes": 400, "nodes_usable": 95, "unusable": [("n1:1", "silent")] * 5},
            "n1:1 takes no queueable containers",
        ),
        (
            {"nodes": 400, "no_sidecar": ["n1:1", "n2:1", "n3:1", "n4:1"]},
            "4 of 400 nodes without a report of a sidecar",
        ),
    ],
)
def test_what_is_ordered_or_rare_is_a_notice(change: dict[str, Any], notice: str) -> None:
    answer = health(replace(WELL, **change))
    assert (answer.status, answer.problems) == ("ok", [])
    assert notice in answer.notices[0]


def test_more_than_one_in_twenty_unusable_nodes_are_a_problem() -> None:
    some = [(f"n{n}:1", "silent") for n in range(6)]
    answer = health(replace(WELL, nodes=400, nodes_usable=100, unusable=some))
    assert (answer.status, len(answer.problems), answer.notices) == ("degraded", 6, [])
    fewer = health(replace(WELL, nodes=400, nodes_usable=114, unusable=some))
    assert (fewer.status, fewer.problems, len(fewer.notices)) == ("ok", [], 6)


def test_an_encrypted_connection_is_a_problem_for_a_while() -> None:
    first, last = (health(replace(WELL, encrypted_s=WELL.now_s - age_s)) for age_s in (ENCRYPTED_S - 1, ENCRYPTED_S))
    assert (first.status, last.status) == ("degraded", "ok")
    assert "hadoop.rpc.protection" in first.problems[0]


def test_problems_are_bounded() -> None:
    assert len(health(replace(WELL, unusable=[(f"n{n}:1", "silent") for n in range(99)])).problems) == MAX_PROBLEMS
