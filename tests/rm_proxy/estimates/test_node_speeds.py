"""How slow nodes are: what tasks tell of them, and who is told."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from quicksilver.common.messages import ContainerReport, ContainerState, EventKind
from rm_proxy.attempt.effects import Announce
from rm_proxy.estimates.node_speeds import DEAD_BAND, HALF_S, MOST_TIMES, Speeds
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    Am,
    cid,
    container,
    container_report,
    coordinator,
    event,
    granted_rows,
    node_id,
    report,
    row,
)


def speeds(slow_s: float, usual_s: float = 2.0, tasks: int = 8, nodes: int = 8) -> Speeds:
    """Return what is known when n1 took `slow_s` for tasks of which 2 s were expected, all others `usual_s`."""
    known = Speeds()
    for number in range(1, nodes + 1):
        for _ in range(tasks):
            known.observe(f"n{number}", slow_s if number == 1 else usual_s, 2.0, 32, 0.0)
    known.round(0.0)
    return known


def test_a_slow_node_stands_out_and_the_more_the_more_is_known() -> None:
    few, many = (speeds(6.0, tasks=tasks).of("n1") for tasks in (2, 32))
    assert 1.3 < few < many < 3.0
    assert many == pytest.approx(2.7, abs=0.1)
    assert speeds(6.0).of("n2") == speeds(6.0).of("nobody") == 1.0


def test_a_fast_node_stands_out_too() -> None:
    assert speeds(0.5, tasks=32).of("n1") == pytest.approx(0.28, abs=0.02)


def test_estimates_that_are_wrong_everywhere_tell_nothing_of_a_node() -> None:
    assert speeds(9.0, usual_s=9.0).of("n1") == 1.0


def test_with_few_nodes_all_count_as_equal() -> None:
    assert speeds(6.0, nodes=2).of("n1") == 1.0


def test_those_that_run_on_tell_before_they_end() -> None:
    known = speeds(2.0)
    known.running("n1", [2.0, 2.5, 3.0, 3.0], 1.0)
    known.round(1.0)
    early = known.of("n1")
    assert early > 1.1
    known.running("n1", [], 2.0)
    known.round(2.0)
    assert known.of("n1") == 1.0, "they are over, and what they took is observed"
    slow = speeds(6.0)
    before = slow.of("n1")
    slow.running("n1", [1.1, 1.2], 0.0)
    slow.round(0.0)
    assert slow.of("n1") == before, "those that are younger than what the node takes tell nothing yet"


def test_it_fades_and_is_forgotten() -> None:
    known = speeds(6.0)
    sure = known.of("n1")
    known.round(3 * HALF_S)
    assert known.of("n1") < sure
    known.forget("n1")
    assert known.of("n1") == 1.0
    known.round(3 * HALF_S)
    assert known.of("n1") == 1.0
    known = speeds(6.0)
    known.clear()
    assert known.of("n1") == 1.0


def test_a_node_that_was_mended_is_like_the_others_again() -> None:
    known = speeds(6.0, tasks=32)
    for _ in range(150):
        known.observe("n1", 2.0, 2.0, 32, 1.0)
    known.round(1.0)
    assert known.of("n1") == 1.0


@drawn(st.integers(0, 1000), st.sampled_from([0.2, 0.5]))
def test_tasks_that_vary_seldom_make_a_node_stand_out(seed: int, sigma: float) -> None:
    rng, known = Random(seed), Speeds()
    for number in range(40):
        for _ in range(32):
            known.observe(f"n{number}", rng.lognormvariate(0.0, sigma), 1.0, 32, 0.0)
    known.round(0.0)
    ratios = [known.of(f"n{number}") for number in range(40)]
    assert all(1 / MOST_TIMES <= ratio <= MOST_TIMES and math.isfinite(ratio) for ratio in ratios)
    assert sum(ratio != 1.0 for ratio in ratios) <= 10
    assert all(ratio == 1.0 or abs(math.log(ratio)) > DEAD_BAND for ratio in ratios)


def learnt(**settings: object) -> Am:
    """Return a master of 16 tasks on four nodes: 10 s were expected of each, and those of host1 took 30 s."""
    am = Am(coordinator(ALL_Q | {"estimate": settings}, nodes=4, tags=("expected_s:10",)))
    am.asks(row("*", 16))
    rows = list(granted_rows(am.sent.ask).values())
    am.gets(*(container(n, int(r.resource_name[4:]), r) for n, r in enumerate(rows, 1)))
    for node in range(1, 5):
        own = [n for n, r in enumerate(rows, 1) if r.resource_name == f"host{node}"]
        took_s = 30.0 if node == 1 else 10.0
        ends = [event(n, EventKind.ENDED, seq=seq, ran_s=took_s) for seq, n in enumerate(own, 1)]
        assert ends
        am.world.reports.report(node_id(node), report(node, events=ends), 31.0)
    am.world.rounds.all_parts(32.0)
    return am


def waiting(number: int, expected_s: float) -> ContainerReport:
    return container_report(number, state=ContainerState.WAITING, priority=20, since_s=0.0, expected_s=expected_s)


def test_grants_tell_the_nodes_what_tasks_take_there() -> None:
    am = learnt()
    slow_ratio = am.world.nodes[node_id(1)].view.slow_ratio
    assert slow_ratio > 1.2 and am.world.nodes[node_id(2)].view.slow_ratio == 1.0
    app = am.world.apps.app(APP)
    assert app is not None
    usual_s = am.world.durations.expected(app, 20).mean_s
    am.asks(row("*", 2))
    rows = granted_rows(am.sent.ask).values()
    am.gets(*(container(n, node, r) for n, node, r in zip((21, 22), (1, 2), rows, strict=True)))
    expected = {effect.node_id: effect.grant.expected_s for effect in am.effects if isinstance(effect, Announce)}
    assert expected == {node_id(1): pytest.approx(usual_s * slow_ratio), node_id(2): usual_s}


def test_nodes_are_told_what_tasks_take_that_wait_there() -> None:
    am = learnt()
    slow_ratio = am.world.nodes[node_id(1)].view.slow_ratio
    app = am.world.apps.app(APP)
    assert app is not None
    usual_s = am.world.durations.expected(app, 20).mean_s
    for node, news in ((1, [pytest.approx(usual_s * slow_ratio)]), (2, [])):
        here = [waiting(30, usual_s)]
        targets = am.world.reports.report(node_id(node), report(node, containers=here), 33.0).targets
        assert targets is not None and [each.expected_s for each in targets.expected] == news


def test_a_slow_node_does_not_make_its_tasks_seem_long_elsewhere() -> None:
    am = learnt()
    app = am.world.apps.app(APP)
    assert app is not None
    before_s = am.world.durations.expected(app, 20).mean_s
    am.asks(row("*", 1))
    (asked,) = granted_rows(am.sent.ask).values()
    am.gets(container(21, 1, asked))
    live = am.attempt.live.get(cid(21))
    assert live is not None
    took_s = live.expected_s
    am.world.reports.report(node_id(1), report(1, boot="c", events=[event(21, EventKind.ENDED, ran_s=took_s)]), 60.0)
    am.world.rounds.all_parts(60.0)
    assert am.world.durations.expected(app, 20).mean_s == pytest.approx(before_s)


def test_who_wants_it_takes_all_nodes_for_equal() -> None:
    am = learnt(node_tasks=0)
    assert {node.view.slow_ratio for node in am.world.nodes.values()} == {1.0}
