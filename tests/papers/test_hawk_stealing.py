"""Work stealing as the thesis of Hawk's authors has it (§2.3.6, Figure 2.3; §2.4.1 and §2.4.9 for the contacts)."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import ContainerView, Kind, NodeQueue, NodeView, Resources
from policies.steal.hawk import Hawk, first_group, steal

CFG = Hawk(short_s=100, min_wait_s=0, idle_s=0)
IDLE = NodeView("idle:1", capacity=Resources(8192, 8), idle_s=5.0)


def task(name: str, **more: object) -> ContainerView:
    """S1, S2 .. are short, L1 .. long."""
    expected_s = 1000.0 if name.startswith("L") else 10.0
    return ContainerView(name, "app", Kind.QUEUEABLE, Resources(1024, 1), expected_s=expected_s, **more)  # type: ignore[arg-type]


def queue(running: str, waiting: str, node: str = "busy:1") -> NodeQueue:
    return NodeQueue(NodeView(node), tuple(map(task, running.split())), tuple(map(task, waiting.split())))


def stolen(running: str, waiting: str, cfg: Hawk = CFG) -> str:
    return " ".join(view.id for view in first_group(queue(running, waiting), cfg))


@pytest.mark.parametrize(
    ("running", "waiting", "taken"),
    [
        ("S0", "S1 L1 S2 S3 L2 S4", "S2 S3"),  # a1: a short one runs; those behind the first long one in the queue
        ("S0", "L1 S1 S2", "S1 S2"),  # a2
        ("L0", "S1 S2 L1 S3", "S1 S2"),  # b1: a long one runs; those right behind it
        ("L0", "L1 S1 S2 L2 S3", "S1 S2"),  # b2: the first group there is
        ("S0", "S1 S2", ""),  # nothing is held up by a long one
        ("L0", "L1 L2", ""),  # nothing is short
    ],
)
def test_figure_2_3(running: str, waiting: str, taken: str) -> None:
    assert stolen(running, waiting) == taken


def test_with_several_slots_a_short_one_that_runs_makes_way_soon() -> None:
    """Hawk has one slot a node, or one queue a slot (§2.4.1); here slots share a queue."""
    assert stolen("L0 S0", "S1 L1 S2") == "S2"
    assert stolen("L0 L9", "S1 L1 S2") == "S1"
    assert stolen("", "S1 L1 S2") == "S1", "guaranteed containers alone hold it up"


def test_settings_of_ours() -> None:
    assert stolen("S0", "S1 S2 L1 S3", replace_cfg(behind_long=False)) == "S1 S2"
    soon = NodeQueue(NodeView("n:1"), (task("L0"),), (task("S1", starts_in_s=3.0), task("S2", starts_in_s=9.0)))
    assert [v.id for v in first_group(soon, replace_cfg(min_wait_s=5.0))] == ["S2"]
    bound = NodeQueue(NodeView("n:1"), (task("L0"),), (task("S1", movable=False), task("S2")))
    assert [v.id for v in first_group(bound, CFG)] == ["S2"]
    assert steal(IDLE, [queue("L0", "S1 S2 S3")], replace_cfg(max_taken=2), Random(1), 0.0) == ["S1", "S2"]
    assert steal(replace(IDLE, idle_s=0.5), [queue("L0", "S1")], replace_cfg(idle_s=1.0), Random(1), 0.0) == []


def replace_cfg(**more: object) -> Hawk:
    return CFG.model_copy(update=more)


def test_takes_from_the_first_contact_that_has_something() -> None:
    """Nine nodes have nothing for it, one has: ten contacts always find it; it takes of one node alone."""
    nothing = [queue("S0", "S1", f"n{n}:1") for n in range(9)]
    some = queue("L0", "S7 S8", "some:1")
    for seed in range(20):
        assert steal(IDLE, [*nothing, some], CFG, Random(seed), 0.0) == ["S7", "S8"]
    other = NodeQueue(NodeView("o:1"), (task("L5"),), (task("S5"),))
    found = {tuple(steal(IDLE, [some, other], CFG, Random(seed), 0.0)) for seed in range(40)}
    assert found == {("S7", "S8"), ("S5",)}


def test_more_contacts_find_more() -> None:
    """§2.4.9, Figure 2.12: performance rises with the cap; here 10 of 100 nodes have something."""
    nodes = [queue("L0", "S1") if n % 10 == 0 else queue("S0", "S1") for n in range(100)]
    found = [
        sum(bool(steal(IDLE, nodes, replace_cfg(max_contacts=cap), Random(seed), 0.0)) for seed in range(600)) / 600
        for cap in (1, 10, 40)
    ]
    assert found == pytest.approx([0.10, 0.67, 0.995], abs=0.05)


@given(
    st.lists(st.sampled_from("SL"), max_size=3),
    st.lists(st.tuples(st.sampled_from("SL"), st.booleans()), max_size=12),
    st.booleans(),
)
def test_always(running: list[str], waiting: list[tuple[str, bool]], behind_long: bool) -> None:
    """What is taken is short and movable, and what it stood between is no long one."""
    views = tuple(task(f"{kind}{n}", movable=movable) for n, (kind, movable) in enumerate(waiting))
    here = NodeQueue(NodeView("n:1"), tuple(task(f"{kind}r{n}") for n, kind in enumerate(running)), views)
    group = first_group(here, replace_cfg(behind_long=behind_long))
    assert all(view.id.startswith("S") and view.movable for view in group)
    if group:
        first, last = views.index(group[0]), views.index(group[-1])
        between = views[first : last + 1]
        assert all(view.id.startswith("S") for view in between)
        assert group == [view for view in between if view.movable]
        if behind_long and any(kind == "S" for kind in running):
            assert any(view.id.startswith("L") for view in views[:first])
