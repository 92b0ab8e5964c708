"""Waits by size in the report of a node."""

from __future__ import annotations

import dataclasses

from policies.model import Resources
from sidecar.node.container import Rules
from sidecar.node.events import Answered, Granted, Outcome, SessionUp
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.node.report_view import WAIT_SIZES, picture, sizes_up_to
from tests.sidecar.words import ATTEMPT, arrived, by_arrival, grant


def node(*, by_size: bool) -> SidecarNode:
    """Return a node of 4 GB and 3 cores on which a container of 3 GB runs for 10 s, and one of 2 GB waits."""
    policies = dataclasses.replace(NodePolicies(by_arrival, lambda *_: []), waits_by_size=lambda: by_size)
    made = SidecarNode(Rules(Resources(4096, 3), reserve_mb=0, settle_s=0.0), policies)
    made.handle(SessionUp(ATTEMPT, 0))
    for name, memory_mb in (("a", 3072), ("b", 2048)):
        made.handle(Granted((grant(name, expected_s=10.0),), 0))
        made.handle(arrived(name, 0, resources=Resources(memory_mb, 1)))
    made.handle(Answered("a", Outcome.STARTED, "", 0))
    return made


def test_a_larger_container_waits_longer() -> None:
    waits = {(cell.memory_mb, cell.vcores): cell.wait_s for cell in picture(node(by_size=True), 4.0)["waits"]}
    assert waits == {
        (1024, 1): 6.0,
        (1024, 2): 6.0,
        (1024, 3): 16.0,
        (2048, 1): 6.0,
        (2048, 2): 6.0,
        (2048, 3): 16.0,
        (4096, 1): 16.0,
        (4096, 2): 16.0,
        (4096, 3): 16.0,
    }


def test_they_are_reported_only_where_somebody_looks_at_them() -> None:
    assert picture(node(by_size=False), 4.0)["waits"] == []


def test_sizes_are_doubles_up_to_the_whole_node() -> None:
    assert sizes_up_to(3, 1) == [1, 2, 3]
    assert sizes_up_to(8192, 1024) == [1024, 2048, 4096, 8192]
    assert sizes_up_to(0.5, 1) == [0.5]
    assert len(sizes_up_to(10**6, 1024)) == WAIT_SIZES and sizes_up_to(10**6, 1024)[-1] == 10**6
