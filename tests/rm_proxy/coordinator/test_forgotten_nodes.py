"""Nodes that left the cluster are forgotten with all that was kept for them: names of nodes are a peer's choice."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import pytest

from quicksilver.common.messages import Comparison, ContainerReport, ContainerState, EventKind
from rm_proxy.attempt.effects import DropHeld
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.reports import sidecar_reports
from tests.rm_proxy.yarn_messages import APP, cid, coordinator, event, node_id, report, yarn_node

FIRST, MANY = 20, 80


def comes_and_goes(world: Coordinator, number: int, listed: bool) -> None:
    """Have a node report everything that is kept by node, and leave; listed: whether YARN ever knows it."""
    now_s, node, states = 1000.0 * number, node_id(number), (ContainerState.RUNNING, ContainerState.SHRUNK)
    there = [yarn_node(1), *([yarn_node(number)] if listed else [])]
    world.yarn_nodes(there, now_s)
    runs = [
        ContainerReport(container_id=cid(9 + n), app_id=APP, kind="Q", state=state, memory_mb=512, vcores=1)
        for n, state in enumerate(states)
    ]
    strangers = [event(70 + n, EventKind.SHED, seq=n) for n in range(3)]
    compared = [Comparison(alternative="x", slot="order", decisions=number)]
    world.reports.report(node, report(number, containers=runs, events=strangers, slots=9, compared=compared), now_s)
    world.reports.undelivered(DropHeld(node, cid(9), "not sent"))
    world.reports.promoted(node, cid(9))
    world.rounds.all_parts(now_s + 1)
    for later_s in (2.0, 900.0):
        world.yarn_nodes([yarn_node(1)], now_s + later_s)
        world.rounds.all_parts(now_s + later_s)
    world.reports.undelivered(DropHeld(node, cid(9), "not sent"))
    world.reports.promoted(node, cid(9))
    world.take_effects()


def sizes(world: Coordinator) -> Counter[str]:
    """Return how many entries the collections of all parts have together, by the attribute that leads to them."""
    found: Counter[str] = Counter()
    seen: dict[int, Any] = {}
    todo: list[tuple[str, Any]] = [("world", world)]
    while todo:
        name, one = todo.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, dict | list | tuple | set | frozenset | deque):
            found[name] += len(one)
            todo += [(name, inner) for inner in (one.values() if isinstance(one, dict) else one)]
        elif type(one).__module__.startswith("rm_proxy."):
            names = [
                *getattr(one, "__dict__", ()),
                *(n for t in type(one).__mro__ for n in getattr(t, "__slots__", ())),
            ]
            todo += [(f"{type(one).__name__}.{each}", getattr(one, each)) for each in names if hasattr(one, each)]
    return found


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "never listed"])
def test_nothing_is_kept_of_nodes_that_left(listed: bool) -> None:
    world = coordinator(nodes=1)
    for number in range(2, FIRST):
        comes_and_goes(world, number, listed)
    before = sizes(world)
    assert before["SidecarEvents._handled"] >= 1, "the parts are found"
    for number in range(FIRST, FIRST + MANY):
        comes_and_goes(world, number, listed)
    assert list(world.nodes) == [node_id(1)]
    grown = {name: count - before[name] for name, count in sizes(world).items() if count - before[name] >= MANY // 2}
    assert not grown, f"after {MANY} nodes"


def test_nodes_that_nobody_lists_are_bounded_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar_reports, "MAX_UNLISTED", 3)
    world = coordinator(nodes=1)
    for number in range(2, 9):
        if world.reports.takes_report(node_id(number)):
            world.reports.report(node_id(number), report(number), 1.0)
    assert len(world.nodes) == 1 + 3
