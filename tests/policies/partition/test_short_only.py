"""Which nodes are kept for short jobs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies.config.registry import Registry
from policies.model import NodeView, WorkShares

REGISTRY = Registry()


def kept(
    nodes: list[NodeView], short_ratio: float | None = None, name: str = "short_only", **chosen: object
) -> set[str]:
    bound = REGISTRY.bind("partition", name, chosen)
    return set(bound.decide(nodes, WorkShares(short_ratio), bound.cfg))


def cluster(count: int) -> list[NodeView]:
    return [NodeView(f"n{number}:1", host=f"n{number}") for number in range(count)]


def test_as_large_as_it_is_set() -> None:
    assert len(kept(cluster(100), ratio=0.17)) == 17
    assert kept(cluster(100), 0.5, name="none") == set()


def test_as_large_as_the_short_jobs_part_of_the_work_within_bounds() -> None:
    assert len(kept(cluster(100), 0.09)) == 9
    assert len(kept(cluster(100), 0.001)) == 2
    assert len(kept(cluster(100), 0.7)) == 20
    assert kept(cluster(100)) == set(), "nothing is known yet"


def test_there_is_always_a_host_for_long_jobs() -> None:
    assert len(kept(cluster(2), ratio=0.99)) == 1
    assert kept(cluster(1), ratio=0.99) == set()
    assert kept([], ratio=0.5) == set()


def test_nodes_of_one_host_go_together() -> None:
    nodes = [NodeView(f"n{number // 2}:{number}", host=f"n{number // 2}") for number in range(8)]
    assert {node.split(":")[0] for node in kept(nodes, ratio=0.25)} == {
        host.split(":")[0] for host in kept(nodes, ratio=0.25)
    }
    assert len(kept(nodes, ratio=0.25)) == 2


@given(st.integers(2, 60), st.floats(0.01, 0.5), st.floats(0.01, 0.5), st.integers(0, 59))
def test_a_part_that_grows_keeps_its_nodes_and_one_node_less_changes_one(
    count: int, small: float, large: float, gone: int
) -> None:
    small, large = sorted((small, large))
    nodes = cluster(count)
    assert kept(nodes, ratio=small) <= kept(nodes, ratio=large)
    rest = [node for number, node in enumerate(nodes) if number != gone % count]
    assert len(kept(nodes, ratio=large) - kept(rest, ratio=large)) <= 2
