"""Playbooks of a node on which a smaller container uses room that the first of the queue does not fit into."""

from __future__ import annotations

import dataclasses
from typing import Any

from policies.config.policy_set import Policies
from policies.model import Resources
from sidecar.node.container import Rules
from sidecar.node.events import Answered, Ended, Granted, Launch, Outcome, SessionUp
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from tests.sidecar.words import ATTEMPT, arrived, by_arrival, grant

GOOD = (Outcome.STARTED, "")


def node(policy: str = "backfill") -> SidecarNode:
    """Return a node of 4 GB and 4 cores on which r (3 GB) runs from 0 on for 10 s."""
    slots = Policies.load({"fill": {"policy": policy}}).node
    policies = NodePolicies(by_arrival, lambda *_: [])
    policies = dataclasses.replace(policies, fills=lambda: slots.fills, fill=slots.fill)
    made = SidecarNode(Rules(Resources(4096, 4), reserve_mb=0, settle_s=0.0), policies)
    made.handle(SessionUp(ATTEMPT, 0))
    assert comes(made, "r", 0, 3072) == ["r"]
    return made


def comes(node: SidecarNode, name: str, now_s: float, memory_mb: int, expected_s: float = 10.0) -> list[str]:
    """Bring a container to a node; returns which ones start."""
    node.handle(Granted((grant(name, expected_s=expected_s),), now_s))
    started = launched(node.handle(arrived(name, now_s, resources=Resources(memory_mb, 1))))
    for one in started:
        node.handle(Answered(one, *GOOD, now_s))
    return started


def launched(commands: list[Any]) -> list[str]:
    return [one.container_id for one in commands if isinstance(one, Launch)]


def test_one_that_ends_before_the_first_of_the_queue_could_start_fills_the_gap() -> None:
    full = node()
    assert comes(full, "big", 1, 2048) == []
    assert comes(full, "long", 2, 1024, expected_s=40.0) == ["long"], "big has 3 GB at 10 s, beside it"
    (first,) = full.state.queue
    assert (first.view.id, first.view.bypassed_s) == ("big", 40.0)


def test_one_that_would_delay_the_first_of_the_queue_waits() -> None:
    full = node()
    assert comes(full, "whole", 1, 4096) == []
    assert comes(full, "late", 2, 1024, expected_s=9.0) == [], "it would end at 11 s, and whole starts at 10 s"
    assert comes(full, "short", 3, 1024, expected_s=5.0) == ["short"]
    assert launched(full.handle(Ended("short", 8))) == []
    assert launched(full.handle(Ended("r", 10))) == ["whole"]


def test_none_that_waits_behind_is_delayed_either() -> None:
    full = node()
    assert comes(full, "big", 1, 2048, expected_s=20.0) == []
    assert comes(full, "bigger", 2, 4096) == [], "starts at 30 s, when big is over"
    assert comes(full, "long", 3, 1024, expected_s=28.0) == [], "it would end at 31 s"
    assert comes(full, "short", 4, 1024, expected_s=26.0) == ["short"]


def test_nothing_is_filled_without_the_policy() -> None:
    full = node("none")
    assert comes(full, "big", 1, 2048) == []
    assert comes(full, "short", 3, 1024, expected_s=1.0) == []
