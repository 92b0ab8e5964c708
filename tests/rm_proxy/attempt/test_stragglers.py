"""A node where a task runs much longer than expected gets the next ones of its application last (Apollo §3.4)."""

from __future__ import annotations

from typing import Any

from quicksilver.common.messages import EventKind
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    Am,
    cid,
    container,
    container_report,
    coordinator,
    event,
    granted_rows,
    report,
    row,
)
from tests.rm_proxy.yarn_messages import node_id as node_name


def second(ratio: float, after_s: float, nodes: int = 2, **policies: Any) -> tuple[str, str]:
    """Run one task, ask for another one later; return the hosts of both."""
    estimate = {"rules": [{"expected_s": 10}]}
    am = Am(coordinator({**ALL_Q, "straggler_ratio": ratio, "estimate": estimate, **policies}, nodes=nodes))
    (asked,) = granted_rows(am.asks(row("*", 1))).values()
    at = int(asked.resource_name.removeprefix("host"))
    am.gets(container(1, at, asked))
    running = container_report(1, priority=20, since_s=0.0, expected_s=10.0)
    started = [event(1, EventKind.STARTED)]
    am.world.reports.report(node_name(at), report(at, events=started, containers=[running], used_q_mb=1024), 0.0)
    other = 3 - at
    if nodes > 1:  # as loaded as the first one, and more
        busy = [running.model_copy(update={"container_id": cid(90 + number)}) for number in range(3)]
        am.world.reports.report(
            node_name(other), report(other, containers=busy, used_q_mb=3072, queue_length=0), after_s
        )
    running = running.model_copy(update={"since_s": after_s})
    am.world.reports.report(node_name(at), report(at, containers=[running], used_q_mb=1024), after_s)
    am.now_s = after_s
    (again,) = granted_rows(am.asks(row("*", 1))).values()
    return asked.resource_name, again.resource_name


def test_another_node_is_taken_though_it_is_fuller() -> None:
    first, then = second(ratio=2.0, after_s=21.0)
    assert then != first


def test_a_task_that_is_not_late_or_a_ratio_of_0_changes_nothing() -> None:
    for ratio, after_s in ((2.0, 19.0), (0.0, 21.0)):
        first, then = second(ratio=ratio, after_s=after_s)
        assert then == first


def test_the_node_is_taken_where_no_other_may() -> None:
    first, then = second(ratio=2.0, after_s=21.0, nodes=1)
    assert then == first


def test_nothing_is_late_of_which_no_duration_is_known() -> None:
    first, then = second(ratio=2.0, after_s=21.0, estimate={})
    assert then == first
