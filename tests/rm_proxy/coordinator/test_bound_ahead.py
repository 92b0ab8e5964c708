"""A container is bound to a full node before a core comes free there, and its sidecar has it wait for that core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from policies.model import AppView, Ask, JobClass, Resources
from quicksilver.common.messages import ContainerState, Grant
from rm_proxy.attempt.delivery.grant_messages import CORE_WAIT_S
from rm_proxy.attempt.effects import Announce
from rm_proxy.coordinator.coordinator import Coordinator
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    Am,
    container,
    container_report,
    coordinator,
    granted_rows,
    node_id,
    report,
    row,
)

AHEAD: Mapping[str, Any] = {
    **ALL_Q,
    "dispatch": {"policy": "levels"},
    "place": {"policy": "late", "settings": {"ahead_s": 1.5}},
    "estimate": {"rules": [{"expected_s": 20.0}]},
}


def views(am: Am) -> tuple[float, int, int]:
    """Return the node's vcores in use, how many wait there, and how many of them for a core."""
    view = am.world.nodes[node_id(1)].view
    return view.used_q.vcores, view.queue_length, view.ahead


def runs(world: Coordinator, ran_s: float, *, waits: int = 0, ahead: int | None = None) -> None:
    """Have the node report eight containers that run since then, and some that wait: all of them for a core."""
    states = [(n, ContainerState.RUNNING) for n in range(1, 9)]
    states += [(n, ContainerState.WAITING) for n in range(9, 9 + waits)]
    listed = [container_report(n, state=state, since_s=ran_s, priority=20) for n, state in states]
    sums = {"used_q_mb": 8192, "used_q_vcores": 8, "queue_length": waits, "ahead": waits if ahead is None else ahead}
    world.reports.report(node_id(1), report(1, containers=listed, **sums), 0.0)
    world.rounds.all_parts(0.0)


def gets_all(am: Am, first: int) -> list[Grant]:
    """Grant everything that was asked for; returns the announcements."""
    rows = granted_rows(am.sent.ask).values()
    am.gets(*(container(first + n, 1, one) for n, one in enumerate(rows)))
    return [effect.grant for effect in am.effects if isinstance(effect, Announce)]


@pytest.fixture
def full() -> Am:
    """Return an application whose eight containers fill the node, and that wants three more."""
    am = Am(coordinator(AHEAD, nodes=1))
    am.world.rounds.all_parts(0.0)
    am.asks(row("*", 11))
    assert [grant.core_wait_s for grant in gets_all(am, 1)] == [0.0] * 8
    return am


def test_one_is_bound_when_a_core_comes_free_in_a_moment(full: Am) -> None:
    runs(full.world, 10.0)
    assert not granted_rows(full.asks()), "none ends soon"
    full.gets()
    runs(full.world, 19.0)
    full.asks()
    (grant,) = gets_all(full, 9)
    assert grant.core_wait_s == CORE_WAIT_S
    assert views(full) == (8, 1, 1), "it takes no core while it waits"
    runs(full.world, 19.2, waits=1)
    assert views(full) == (8, 1, 1)
    assert not granted_rows(full.asks()), "one waits there already"
    runs(full.world, 23.0, waits=1, ahead=0)
    assert views(full) == (8, 1, 0), "it waited in vain, and waits for any place"


def test_none_is_bound_ahead_unless_the_policy_says_so() -> None:
    am = Am(coordinator({**AHEAD, "place": {"policy": "late"}}, nodes=1))
    am.world.rounds.all_parts(0.0)
    am.asks(row("*", 11))
    gets_all(am, 1)
    runs(am.world, 19.0)
    assert not granted_rows(am.asks())


@pytest.mark.parametrize(("behind_long", "node"), [(True, node_id(1)), (False, None)])
def test_no_short_task_is_bound_ahead_of_the_end_of_a_long_one(
    monkeypatch: pytest.MonkeyPatch, behind_long: bool, node: str | None
) -> None:
    """Long tasks hold all cores of the node, and one of them is expected to end in half a second."""
    probe = {"policy": "succinct", "settings": {"behind_long": behind_long}}
    world = coordinator({**AHEAD, "probe": probe}, nodes=1)
    monkeypatch.setattr(world.features.prober.cluster, "all_long", {node_id(1): True}.get)
    runs(world, 19.5)
    short = Ask(AppView(APP, job_class=JobClass.SHORT), 20, Resources(1024, 1))
    placement = world.placer.place(short, frozenset())
    assert (placement.node, placement.wait) == (node, node is None)
    long = Ask(AppView(APP, job_class=JobClass.LONG), 20, Resources(1024, 1))
    assert world.placer.place(long, frozenset()).node == node_id(1)
