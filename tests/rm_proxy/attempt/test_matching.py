"""Containers of several keys in one request get their nodes together (Apollo §3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.rm_proxy.yarn_messages import ALL_Q, Am, coordinator, granted_rows, node_id, report, row

APOLLO: Mapping[str, Any] = {
    **ALL_Q,
    "place": {"policy": "completion_time", "settings": {"noise_s": 0.0}},
    "estimate": {"rules": [{"expected_s": 30}]},
}


def chosen(policy: str) -> dict[int, str]:
    """Return the hosts by priority of an ask for anywhere, then for a container whose input is on the first node."""
    world = coordinator({**APOLLO, "match": {"policy": policy}}, nodes=2)
    for number in (1, 2):
        full = {"used_g_mb": 7168, "used_g_vcores": 7} if number == 1 else {"used_g_mb": 6144, "used_g_vcores": 6}
        world.reports.report(node_id(number), report(number, **full), 0.0)
    am = Am(world)
    near = [row(name, 1, 21) for name in ("host1", "/r1", "*")]
    am.asks(row("*", 1, 20), *near)
    return {one.priority.priority: one.resource_name for one in granted_rows(am.sent.ask).values()}


def test_one_after_the_other_takes_what_the_next_one_needs() -> None:
    assert chosen("none") == {20: "host1", 21: "host1"}, "the second one waits where its input is"


def test_together_each_gets_the_node_that_it_would_miss_most() -> None:
    assert chosen("stable") == {20: "host2", 21: "host1"}


def test_a_policy_that_fails_leaves_them_to_choose_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policies.match.stable.stable_matching", None)
    assert chosen("stable") == chosen("none")
