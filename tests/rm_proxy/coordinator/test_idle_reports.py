"""A report of a node that is as idle as before is answered with less work, and with the same result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.common.messages import ContainerState, EventKind, Report, Shed, WaitBySize
from rm_proxy.attempt.effects import DropHeld
from rm_proxy.coordinator.coordinator import Coordinator
from tests.rm_proxy.yarn_messages import cid, container_report, coordinator, event, node_id, report, yarn_node

NODE = node_id(1)
IDLE: dict[str, Any] = {"free_physical_mb": 7000}
FIELDS = st.sampled_from(
    (
        *[IDLE] * 6,
        {"free_physical_mb": 10, "version": "2"},
        {"used_g_mb": 1024, "used_g_vcores": 1},
        {"draining": True, "drain_reason": "a drain"},
        {"draining": True, "empty_in_s": 30.0},
        {"nm_down": "it is restarted"},
        {"boot": "another"},
        {"slots": 6},
        {"since_queueable_s": 3.0},
        {"queue_length": 1, "queued_s": 5.0, "waits": [WaitBySize(memory_mb=1024, vcores=1, wait_s=4.0)]},
        {"containers": [container_report(9, state=ContainerState.RUNNING)], "used_q_mb": 512, "used_q_vcores": 1},
        {"containers": [container_report(9, state=ContainerState.WAITING)], "queue_length": 1},
        {"events": [event(9, EventKind.ENDED, seq=3, ran_s=2.0)]},
        {"events": [event(8, EventKind.SHED, seq=4)]},
        {"release": [cid(9)]},
    )
)
STEPS = st.lists(
    st.tuples(st.sampled_from((0.1, 1.0, 4.0, 20.0)), FIELDS)
    | st.sampled_from(("round", "drop", "promoted", "shed", "lost", "running", "unusable")),
    max_size=25,
)


def after(world: Coordinator, step: Any, seq: int, now_s: float) -> tuple[object, ...]:
    """Do a step; return what can be seen of it."""
    node = world.nodes[NODE]
    ack = None
    if not isinstance(step, str):
        ack = world.reports.report(NODE, report(1, **step[1], seq=seq), now_s).model_dump()
    elif step == "round":
        world.rounds.all_parts(now_s)
    elif step == "drop":
        world.reports.undelivered(DropHeld(NODE, cid(7), "not sent"))
    elif step == "promoted":
        world.reports.promoted(NODE, cid(9))
    elif step == "shed":
        world.mover.shed(NODE, Shed(container_id=cid(9), cause="quota"))
    elif step == "unusable":
        world.inventory.node_changed(NODE, False)
    else:
        world.yarn_nodes([yarn_node(1, state=step.upper())], now_s)
    seen = node.view, node.bare, node.use(now_s, 6.0), node.away(now_s, 6.0), node.frees_s, node.reported_s
    return ack, seen, world.targets.history.recent(NODE), world.take_effects(), world.reports.nodes_with_orders()


@given(STEPS)
def test_the_result_is_that_of_any_report(steps: list[Any]) -> None:
    short, long = coordinator(nodes=1), coordinator(nodes=1)
    long.reports._says_nothing_new = lambda node, report: False  # type: ignore[method-assign]
    now_s = 10.0
    for seq, step in enumerate(steps, 2):
        now_s += step[0] if not isinstance(step, str) else 0.5
        assert after(short, step, seq, now_s) == after(long, step, seq, now_s)


def test_an_idle_node_is_not_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    world, refreshed = coordinator(nodes=1), []
    monkeypatch.setattr(world.inventory, "refresh", lambda *arguments: refreshed.append(arguments))

    def answered(now_s: float, **fields: Any) -> Report:
        world.reports.report(NODE, report(1, **fields), now_s)
        known = world.nodes[NODE].report
        assert known is not None
        return known

    assert answered(2.0, seq=2, free_physical_mb=50).free_physical_mb == 50 and not refreshed
    assert world.nodes[NODE].reported_s == 2.0
    answered(3.0, seq=3, used_g_mb=512)
    assert len(refreshed) == 1
