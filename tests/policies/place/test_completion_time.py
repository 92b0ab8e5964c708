"""Placement by completion time: waits by size, doubt, locality, slow nodes, lost containers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from policies.config.registry import Registry
from policies.model import AppView, Ask, NodeView, Placement, Resources

REGISTRY = Registry()
ONE, TWO, FOUR = Resources(1024, 1), Resources(2048, 2), Resources(4096, 4)
WAITS = ((ONE, 4.0), (TWO, 10.0), (FOUR, 40.0))


def full(name: str, **more: object) -> NodeView:
    """Return a node of four cores that all work, and on which one waits."""
    fields = {"used_q": FOUR, "containers": 5, "queue_length": 1, "remaining_s": 1.0, "waits": WAITS}
    return NodeView(name, name, "/r1", capacity=FOUR, **(fields | more))  # type: ignore[arg-type]


def ask(size: Resources = ONE, **more: object) -> Ask:
    return Ask(AppView("application_1_1"), 20, size, **({"expected_s": 20.0} | more))  # type: ignore[arg-type]


def place(wanted: Ask, *nodes: NodeView, noise_s: float = 0.0, rng: Random | None = None, **cfg: float) -> Placement:
    bound = REGISTRY.bind("place", "completion_time", {"noise_s": noise_s, **cfg})
    answer = bound.decide(wanted, nodes, bound.cfg, rng or Random(1))
    assert isinstance(answer, Placement)
    return answer


def seconds(wanted: Ask, node: NodeView, **cfg: float) -> float:
    """Return the completion time on a node."""
    return place(wanted, node, **cfg).scores[0][1]


@pytest.mark.parametrize(("size", "wait_s"), [(ONE, 4.0), (TWO, 10.0), (Resources(1500, 1), 10.0), (FOUR, 40.0)])
def test_the_wait_is_that_of_the_smallest_size_that_it_fits_into(size: Resources, wait_s: float) -> None:
    assert seconds(ask(size), full("a")) == 20.0 + wait_s


def test_nothing_waits_where_there_is_room() -> None:
    assert seconds(ask(), NodeView("a", "a", "/r1", capacity=FOUR, waits=WAITS)) == 20.0


def test_what_is_on_its_way_counts_on_top() -> None:
    assert seconds(ask(), full("a", unreported_s=6.0)) == 30.0


def test_an_old_report_is_doubted_and_has_run_on() -> None:
    """After 2 s it is looked up for 1.2 times its size, which is the next cell; 2 s of that are over."""
    assert seconds(ask(at_s=102.0), full("a", waits_s=100.0)) == 20.0 + 10.0 - 2.0
    assert seconds(ask(at_s=102.0), full("a", waits_s=100.0), doubt_per_s=0.0) == 20.0 + 4.0 - 2.0
    assert seconds(ask(FOUR, at_s=102.0), full("a", waits_s=100.0)) == 20.0 + 40.0 - 2.0, "no cell is larger"


def test_a_slow_node_a_far_one_and_one_that_loses_containers_count_as_slower() -> None:
    assert seconds(ask(), full("a", slow_ratio=1.5)) == 34.0
    near = {"hosts": frozenset({"b"}), "racks": frozenset({"/r1"})}
    assert seconds(ask(**near), full("b")) == 24.0
    assert seconds(ask(**near), full("a")) == pytest.approx(4.0 + 20.0 * (1 + 0.2 * 0.6))
    assert seconds(ask(**near), replace(full("a"), rack="/r2")) == pytest.approx(4.0 + 20.0 * 1.2)
    assert seconds(ask(), full("a", success_ratio=0.9)) == pytest.approx(24.0 * 1.1)


def test_where_it_is_over_first() -> None:
    busy, slow = full("a", waits=((FOUR, 9.0),)), full("b", slow_ratio=1.4)
    assert place(ask(), busy, slow).node == "a"
    assert place(ask(expected_s=5.0), busy, slow).node == "b"
    assert place(ask(), replace(busy, usable=False)).node is None


def test_equal_nodes_are_taken_by_chance() -> None:
    rng = Random(3)
    drawn = [place(ask(), full("a"), full("b"), noise_s=1.0, rng=rng).node for _ in range(60)]
    assert 15 <= drawn.count("a") <= 45


def test_a_node_without_cells_counts_by_its_queue() -> None:
    assert seconds(ask(), full("a", waits=(), queued_s=7.0)) == 20.0 + 8.0


def test_it_waits_in_the_proxy_where_it_would_not_start_at_once() -> None:
    free = NodeView("free", "free", "/r1", capacity=FOUR, slow_ratio=1.5)
    waiting = place(ask(), full("a"), early=False)
    assert (waiting.node, waiting.wait) == (None, True)
    assert waiting.reason == "completion_time: the only node that may take it is full"
    assert place(ask(), full("a", waits=((ONE, 1.0),)), free).node == "a", "over after 21 s there, 30 at the free node"
    assert place(ask(), full("a", waits=((ONE, 1.0),)), free, early=False).node == "free"
    nowhere = place(ask(label="gpu"), full("a"), early=False)
    assert (nowhere.node, nowhere.wait) == (None, False)
