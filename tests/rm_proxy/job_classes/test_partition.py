"""The nodes that are kept for short jobs, as the cluster changes."""

from __future__ import annotations

from policies.model import NodeView
from rm_proxy.job_classes.partition import PERIOD_S, Partition


def nodes(*names: str, label: str = "") -> list[NodeView]:
    return [NodeView(name, host=name.partition(":")[0], label=label) for name in names]


def first(views: list[NodeView]) -> frozenset[str]:
    return frozenset({views[0].id}) if views else frozenset()


def test_it_stays_for_a_while_and_changes_with_the_nodes() -> None:
    asked: list[int] = []

    def choose(views: list[NodeView]) -> frozenset[str]:
        asked.append(len(views))
        return first(views)

    partition = Partition()
    partition.round(nodes("a:1", "b:1"), choose, 0.0)
    assert (partition.nodes, partition.hosts) == ({"a:1"}, {"a"})
    partition.round(nodes("a:1", "b:1"), choose, PERIOD_S - 1)
    assert asked == [2]
    partition.round(nodes("b:1", "c:1"), choose, PERIOD_S - 1)
    assert partition.hosts == {"b"}
    partition.round(nodes("b:1", "c:1"), choose, 2 * PERIOD_S)
    assert asked == [2, 2, 2]
    partition.round(nodes("b:1", "c:1"), None, 2 * PERIOD_S)
    assert (partition.nodes, partition.hosts) == (frozenset(), frozenset())


def test_labelled_nodes_are_not_asked_about_and_a_host_counts_only_whole() -> None:
    partition = Partition()
    partition.round([*nodes("gpu:1", label="gpu"), *nodes("a:1", "a:2", "b:1")], first, 0.0)
    assert (partition.nodes, partition.hosts) == ({"a:1"}, frozenset())
