"""Alternatives are asked in each slot that the proxy decides in."""

from __future__ import annotations

from typing import Any

import pytest

from quicksilver.common.messages import ContainerReport, ContainerState
from tests.rm_proxy.coordinator.test_shadow import decided
from tests.rm_proxy.yarn_messages import ALL_Q, APP, Am, capability, coordinator, node_id, report, row

LONG = {"estimate": {"rules": [{"expected_s": 100}]}}
CLASSES: dict[str, Any] = {
    **LONG,
    "classify": {"policy": "task_time", "settings": {"cutoff_s": 30.0}},
    "partition": {"policy": "short_only", "settings": {"ratio": 0.5}},
    "place": {"policy": "late"},
}


def compared(base: dict[str, Any], other: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Run a request on four nodes, of which one is full, with an alternative; return slot, choice, and its choice."""
    named = {"alternatives": {"other": other}, "shadow": ["other"]}
    am = Am(coordinator({**ALL_Q, **base, **named}, nodes=4))
    full = {"used_q_mb": 8192, "used_q_vcores": 8}
    running = ContainerReport(
        container_id=f"container_{APP[12:]}_01_000099",
        app_id=APP,
        state=ContainerState.RUNNING,
        kind="Q",
        memory_mb=8192,
        vcores=8,
        priority=20,
        since_s=1.0,
        expected_s=100.0,
    )
    am.world.report(node_id(1), report(1, containers=[running], **full), 0.0)
    am.world.round(0.0)
    am.asks(row("*", 40), row("*", 2, 21))
    am.gets()
    am.now_s = 2.0
    am.world.round(2.0)
    am.asks(row("*", 40), row("*", 2, 21))
    am.gets(limit=capability(4096, 4))
    am.world.round(3.0)
    return {(slot, chosen, its) for _, slot, chosen, its in decided(am.world.take_effects())}


@pytest.mark.parametrize(
    ("slot", "base", "other", "expected"),
    [
        (
            "classify",
            CLASSES,
            {"classify": {"policy": "task_time", "settings": {"cutoff_s": 300.0}}},
            ("long", "short"),
        ),
        ("partition", CLASSES, {"partition": {"policy": "none"}}, ("2 nodes", "0 nodes")),
        (
            "probe",
            {"probe": {"policy": "batch"}, "place": {"policy": "late"}},
            {"probe": {"policy": "batch", "settings": {"ratio": 3.0}}},
            ("84 places at 4 nodes", "126 places at 4 nodes"),
        ),
        (
            "dispatch",
            {"dispatch": {"policy": "fifo"}, "place": {"policy": "late"}},
            {"dispatch": {"policy": "srpt"}},
            (APP, APP),
        ),
        (
            "police",
            {"police": {"policy": "memory_limit", "settings": {"max_ratio": 0.5}}},
            {"police": {"policy": "none"}},
            ("4096 MB", "no limit"),
        ),
        (
            "headroom",
            {"headroom": {"policy": "as_is"}},
            {"headroom": {"policy": "by_framework"}},
            ("Resources(memory_mb=4096", "Resources(memory_mb="),
        ),
        (
            "match",
            {"place": {"policy": "least_queue"}, "match": {"policy": "stable"}},
            {"match": {"policy": "none"}},
            ("host", "none"),
        ),
    ],
)
def test_the_decision_of_a_slot_is_compared(
    slot: str, base: dict[str, Any], other: dict[str, Any], expected: tuple[str, str]
) -> None:
    found = [(chosen, its) for of, chosen, its in compared(base, other) if of == slot]
    assert found, "nothing was compared"
    assert any(chosen.startswith(expected[0]) and its.startswith(expected[1]) for chosen, its in found), found


def test_nothing_is_compared_where_the_policies_are_the_same() -> None:
    assert compared(CLASSES, {}) == set()
