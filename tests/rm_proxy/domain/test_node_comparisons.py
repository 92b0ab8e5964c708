"""Counts of sidecars that grow: what is new is counted once."""

from __future__ import annotations

from quicksilver.common.messages import Comparison
from rm_proxy.domain.node_comparisons import NodeComparisons


def count(decisions: int, differ: int = 0, since_s: float = 1.0, faults: int = 0) -> list[Comparison]:
    return [
        Comparison(
            alternative="x", slot="fill", since_s=since_s, decisions=decisions, differ=differ, faults=faults, fault="f"
        )
    ]


def taken(nodes: NodeComparisons) -> list[tuple[int, int, int, int]]:
    return [(one.nodes, one.decisions, one.differ, one.faults) for one in nodes.take()]


def test_the_first_report_of_a_node_brings_nothing_new() -> None:
    nodes = NodeComparisons()
    nodes.report("n1", count(50, 20))
    assert taken(nodes) == []
    nodes.report("n1", count(52, 21))
    nodes.report("n1", count(52, 21))
    nodes.report("n2", [])
    nodes.report("n2", count(3))
    assert taken(nodes) == [(2, 5, 1, 0)]
    assert taken(nodes) == []


def test_a_sidecar_that_counts_anew() -> None:
    nodes = NodeComparisons()
    nodes.report("n1", count(50))
    nodes.report("n1", count(60, since_s=2.0))
    assert taken(nodes) == [(1, 60, 0, 0)]
    nodes.report("n1", count(55, since_s=2.0))
    assert taken(nodes) == [], "an older report that came late"


def test_faults_alone_count_as_well() -> None:
    nodes = NodeComparisons()
    nodes.report("n1", [])
    nodes.report("n1", count(0, faults=2))
    (new,) = nodes.take()
    assert (new.decisions, new.faults, new.fault) == (0, 2, "f")


def test_a_node_that_left_and_a_proxy_that_stood_by_begin_anew() -> None:
    nodes = NodeComparisons()
    for forget in (lambda: nodes.forget_node("n1"), nodes.clear):
        nodes.report("n1", [])
        nodes.report("n1", count(4))
        nodes.take()
        forget()
        nodes.report("n1", count(9))
        assert taken(nodes) == []
