"""Moves by example: chosen in a round, shed with the answer to a report, asked for again, placed where room is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.policy_set import Policies
from policies.model import AppView, Ask, Resources
from quicksilver.common.messages import ContainerReport, ContainerState, EventKind, Shed
from rm_proxy.attempt.effects import Decided, Effect, Moved
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain.records import DecisionRecord
from tests.examples import of_share
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    APP,
    Am,
    cid,
    container,
    coordinator,
    event,
    granted_rows,
    node_id,
    report,
    row,
    yarn_node,
)

HAWK: dict[str, Any] = {"policy": "hawk", "settings": {"short_s": 100}}
APOLLO: dict[str, Any] = {"policy": "apollo"}


def here(number: int, state: ContainerState, expected_s: float, **more: Any) -> ContainerReport:
    base = {"container_id": cid(number), "app_id": APP, "kind": "Q", "memory_mb": 1024, "vcores": 1, "priority": 20}
    return ContainerReport(**(base | {"state": state, "expected_s": expected_s} | more))


def busy(number: int, *waiting: int, **more: Any) -> Any:
    """A node of one vcore where a long container runs, and short ones wait."""
    runs = here(90, ContainerState.RUNNING, 1000.0, since_s=5.0, app_id="application_1_0009")
    queue = [here(n, ContainerState.WAITING, 10.0, since_s=3.0) for n in waiting]
    fields = {"vcores": 1, "used_q_mb": 1024, "used_q_vcores": 1, "containers": [runs, *queue]}
    fields |= {"queue_length": len(queue), "queued_s": 900.0 + 10 * len(queue), "remaining_s": 900.0}
    return report(number, **(fields | more))


class Stage:
    """An application whose containers wait on node 1, behind a long one; node 2 has nothing to do."""

    def __init__(self, count: int = 3, **policies: Any) -> None:
        self.world: Coordinator = coordinator({**ALL_Q, **policies}, nodes=1)
        self.am = Am(self.world)
        self.am.asks(row("*", count))
        self.am.gets(*(container(n + 1, 1, r) for n, r in enumerate(granted_rows(self.am.sent.ask).values())))
        self.now_s = 0.0
        self.waiting = list(range(1, count + 1))
        self.idle_cores = 8
        self.world.yarn_nodes([self.world.nodes[node_id(1)].yarn, yarn_node(2)], 0.0)  # type: ignore[list-item]
        self.effects: list[Effect] = []

    def reports(self, seconds: float = 1.0, **more: Any) -> list[Shed]:
        """Let time pass, and both nodes report; returns what node 1 is to shed."""
        self.now_s = self.am.now_s = self.now_s + seconds
        self.world.reports.report(node_id(2), report(2, vcores=self.idle_cores), self.now_s)
        return self.world.reports.report(node_id(1), busy(1, *self.waiting, **more), self.now_s).shed

    def round(self) -> list[Effect]:
        self.world.rounds.all_parts(self.now_s)
        self.effects = self.world.take_effects()
        return self.effects

    def outcomes(self) -> list[tuple[str, str]]:
        return [(e.cause, e.outcome) for e in self.effects if isinstance(e, Moved)]

    def sheds(self, number: int, seq: int = 1) -> None:
        """Node 1 sheds a container, and the application master hears of it."""
        self.waiting.remove(number)
        self.reports(0.1, events=[event(number, EventKind.SHED, seq=seq, reason="moves")])
        self.am.asks()
        self.am.gets()


def stolen(count: int = 3, **settings: Any) -> Stage:
    """A stage in which node 2 has been idle for long enough."""
    stage = Stage(count, steal={"policy": "hawk", "settings": HAWK["settings"] | settings})
    stage.reports()
    assert stage.round() == [], "idle, but only since now"
    stage.reports()
    stage.round()
    return stage


def records(effects: list[Effect]) -> list[DecisionRecord]:
    return [e.record for e in effects if isinstance(e, Decided)]


def test_an_idle_node_takes_over_what_waits_behind_a_long_task() -> None:
    stage = stolen(2)
    decisions = records(stage.effects)
    assert [(r.slot, r.policy, r.container_id, r.node_id) for r in decisions] == [
        ("steal", "hawk", cid(1), node_id(2)),
        ("steal", "hawk", cid(2), node_id(2)),
    ]
    assert decisions[0].scores == ((node_id(2), 0.0), (node_id(1), 460.0)), "half of the queue's 920 s"
    assert decisions[0].reason == "host2:8041 is idle since 1.0 s"
    assert stage.world.nodes[node_id(2)].view.containers == 2, "room is kept"
    orders = stage.reports()
    assert [(s.container_id, s.cause) for s in orders] == [(cid(1), "steal"), (cid(2), "steal")]
    assert orders[0].reason == "moves to host2:8041: host2:8041 is idle since 1.0 s"
    assert stage.reports() == [], "each is ordered once"
    assert records(stage.round()) == [], "and nothing is stolen twice"


def test_what_was_stolen_is_asked_for_again_and_lands_there() -> None:
    stage = stolen(1)
    stage.reports()
    stage.sheds(1)
    stage.am.asks(row("*", 1))
    (asked,) = granted_rows(stage.am.sent.ask).values()
    assert asked.resource_name == "host2"
    (q,) = stage.am.attempt.table.by_private.values()
    assert (q.ask.steer, q.placement.reason) == (node_id(2), "steal: it was shed at host1:8041 to go here")
    stage.round()
    assert stage.outcomes() == [("steal", "there")]
    assert stage.world.nodes[node_id(2)].view.containers == 1, "counted once, no longer kept"
    stage.am.gets(container(9, 2, asked))
    live = stage.am.attempt.live.get(cid(9))
    assert live is not None and live.retries == 1


def test_room_that_is_taken_meanwhile_lets_the_policy_choose() -> None:
    stage = stolen(1)
    stage.reports()
    stage.idle_cores = 0
    stage.sheds(1)
    stage.am.asks(row("*", 1))
    assert [r.resource_name for r in granted_rows(stage.am.sent.ask).values()] == ["host1"]
    stage.round()
    assert stage.outcomes() == [("steal", "elsewhere")]
    assert not stage.world.nodes[node_id(2)].own


def test_a_target_that_does_not_grant_is_not_asked_again() -> None:
    stage = stolen(1)
    stage.reports()
    stage.sheds(1)
    stage.am.asks(row("*", 1))
    stage.am.gets()
    stage.am.asks()
    assert [r.resource_name for r in granted_rows(stage.am.sent.ask).values()] == ["host1"]


def test_what_goes_guaranteed_gives_its_room_back() -> None:
    stage = stolen(1)
    stage.reports()
    stage.sheds(1)
    stage.world.switch(Policies.load({**ALL_Q, "routes": [{"policy": "only_g"}], "steal": HAWK}))
    stage.am.asks(row("*", 1))
    stage.round()
    assert stage.outcomes() == [("steal", "guaranteed")]
    assert not stage.world.nodes[node_id(2)].own


@pytest.mark.parametrize(
    ("shed", "asked_again", "outcome"), [(False, False, "kept"), (True, False, "lost"), (True, True, "")]
)
def test_a_move_takes_no_longer_than_its_time(shed: bool, asked_again: bool, outcome: str) -> None:
    stage = stolen(1, timeout_s=5.0, max_moves=1)
    stage.reports()
    if shed:
        stage.sheds(1)
    if asked_again:
        stage.am.asks(row("*", 1))
        stage.round()
    stage.reports(6.0)
    stage.round()
    assert stage.outcomes() == ([("steal", outcome)] if outcome else [])


def test_one_that_starts_first_stays() -> None:
    stage = stolen(1)
    stage.waiting.remove(1)
    stage.reports(0.5, events=[event(1, EventKind.STARTED)])
    stage.round()
    assert ("steal", "kept") in stage.outcomes()
    assert cid(1) not in stage.world.mover.moves


def test_no_more_than_the_idle_room_and_the_bounds() -> None:
    stage = Stage(6, steal=HAWK)
    stage.idle_cores = 2
    stage.reports()
    stage.round()
    stage.reports()
    assert len(records(stage.round())) == 2
    for bound in ({"max_per_round": 1}, {"max_per_node": 1}, {"max_taken": 1}):
        assert len(records(stolen(**bound).effects)) == 1, bound


def test_a_task_is_moved_so_often_and_no_more() -> None:
    stage = stolen(max_moves=1)
    assert len(records(stage.effects)) == 3
    again = Stage(steal={"policy": "hawk", "settings": {"short_s": 100, "max_moves": 1}})
    for live in again.am.attempt.live:
        live.retries = 1
    for _ in range(3):
        again.reports()
        assert records(again.round()) == []


@pytest.mark.parametrize("why", ["strict", "blacklist", "released", "mode", "unknown"])
def test_what_may_not_go_there_stays(why: str) -> None:
    stage = Stage(steal=HAWK)
    for live in stage.am.attempt.live:
        assert live.ask is not None
        if why == "strict":
            live.ask = Ask(live.ask.app, 20, live.resources, hosts=frozenset({"host1"}), anywhere=False)
        elif why == "blacklist":
            live.ask = Ask(live.ask.app, 20, live.resources, blacklist=frozenset({"host2"}))
        elif why == "released":
            live.released = True
    if why == "mode":
        stage.world.switch(Policies.load({**ALL_Q, "steal": HAWK, "mode": "bypass"}))
    elif why == "unknown":
        stage.waiting = [71, 72]
    for _ in range(3):
        stage.reports()
        assert records(stage.round()) == []


def test_idle_means_room_and_no_queue_for_a_time() -> None:
    stage = Stage(steal={"policy": "hawk", "settings": {"short_s": 100, "idle_s": 3}})
    for _ in range(3):
        stage.reports()
        assert records(stage.round()) == []
    stage.idle_cores = 0
    stage.reports()
    assert records(stage.round()) == []
    stage.idle_cores = 8
    for _ in range(3):
        stage.reports()
        assert records(stage.round()) == [], "the time begins anew"
    stage.reports()
    assert records(stage.round())


# Correction


def test_a_wait_that_grew_is_corrected_from_the_end_of_the_queue() -> None:
    stage = Stage(3, correct=APOLLO)
    stage.reports()
    stage.round()
    decisions = records(stage.effects)
    assert [(r.slot, r.policy, r.container_id, r.node_id) for r in decisions] == [
        ("correct", "apollo", cid(3), node_id(2)),
        ("correct", "apollo", cid(2), node_id(2)),
    ], "two at a time of one node"
    assert decisions[0].reason.startswith(
        "its wait grew from 0.0 s, as expected when placed, to 933.0 s; it would wait 930.0"
    )
    assert decisions[0].scores == ((node_id(2), 0.0), (node_id(1), 930.0))
    assert [s.cause for s in stage.reports()] == ["correct", "correct"]
    stage.sheds(3)
    stage.am.asks(row("*", 1))
    assert [r.resource_name for r in granted_rows(stage.am.sent.ask).values()] == ["host2"]
    stage.round()
    assert stage.outcomes() == [("correct", "there")]


def test_the_sidecars_own_figures_go_before_the_place_in_the_queue() -> None:
    stage = Stage(1, correct=APOLLO)
    soon = [here(1, ContainerState.WAITING, 10.0, starts_in_s=2.0)]
    stage.reports(containers=soon)
    assert records(stage.round()) == []


def test_the_average_of_the_stage_counts_those_that_started() -> None:
    stage = Stage(2, correct={"policy": "apollo", "settings": {"grown_s": 1e6}})
    stage.waiting = [2]
    started = event(1, EventKind.STARTED).model_copy(update={"waited_s": 2000.0})
    stage.reports(events=[started])
    assert records(stage.round()) == [], "913 s to wait: less than the average of 1456 s"
    other = Stage(2, correct={"policy": "apollo", "settings": {"grown_s": 1e6}})
    other.waiting = [2]
    other.reports(events=[event(1, EventKind.STARTED)])
    (decision,) = records(other.round())
    assert "is above its stage's average of 456.5 s" in decision.reason


def test_nothing_moves_where_nobody_is_better() -> None:
    stage = Stage(3, correct=APOLLO)
    stage.world.yarn_nodes([stage.world.nodes[node_id(1)].yarn], 0.0)  # type: ignore[list-item]
    stage.reports()
    assert records(stage.round()) == []


def test_a_policy_that_fails_moves_nothing_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(steal=HAWK)
    monkeypatch.setattr("policies.steal.hawk.first_group", lambda queue, cfg: 1 / 0)
    stage.reports()
    stage.round()
    stage.reports()
    (fault,) = stage.round()
    assert "ZeroDivisionError" in str(fault)
    assert stage.world.mover.moves == {}


def test_nothing_is_remembered_of_moves_that_are_over() -> None:
    stage = stolen()
    stage.world.mover.shed("gone:1", Shed(container_id=cid(50), cause="quota"))
    stage.reports(60.0)
    stage.world.inventory.update_app(stage.world.inventory.records[APP])
    stage.am.attempt.on_finished()
    stage.waiting = []
    stage.reports()
    stage.round()
    assert not stage.world.mover.moves and not stage.world.mover._sheds
    assert not any(node.own for node in stage.world.nodes.values())
    assert stage.world.mover.move_target(cid(1)) == ""
    ask = Ask(AppView(APP), 20, Resources(1024, 1), steer=node_id(2))
    assert stage.world.placer.place(ask, frozenset(), cid(1)).node is not None


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 2, 6])), max_size=3).map(lambda n: [(1, 6), *n, (3, 0)]),
    st.sampled_from(["steal", "correct", "both"]),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(0, 99),
)
@settings(max_examples=of_share(60), deadline=None)
def test_bounds_hold_whatever_the_cluster_looks_like(
    nodes: list[tuple[int, int]], slots: str, per_round: int, per_node: int, seed: int
) -> None:
    """nodes: vcores of each, and what waits there. No node is given more than it has room for."""
    bounds = {"max_per_round": per_round, "max_per_node": per_node}
    hawk = {"policy": "hawk", "settings": {"behind_long": False, "idle_s": 0, "min_wait_s": 0, **bounds}}
    apollo = {"policy": "apollo", "settings": {"grown_s": 0, "gain_s": 0, **bounds}}
    chosen = {slot: p for slot, p in (("steal", hawk), ("correct", apollo)) if slots in (slot, "both")}
    world = coordinator({**ALL_Q, **chosen}, nodes=len(nodes))
    world.rng.seed(seed)
    am = Am(world)
    firsts = [1 + sum(waiting for _, waiting in nodes[:at]) for at in range(len(nodes))]
    queues = [list(range(first, first + waiting)) for first, (_, waiting) in zip(firsts, nodes, strict=True)]
    am.asks(row("*", sum(map(len, queues))))
    rows = iter(granted_rows(am.sent.ask).values())
    am.gets(*(container(n, at, next(rows)) for at, queue in enumerate(queues, 1) for n in queue))
    orders: list[str] = []
    for second in range(1, 5):
        for at, ((vcores, _), queue) in enumerate(zip(nodes, queues, strict=True), 1):
            full = {"used_q_mb": 8192} if queue else {"containers": [], "used_q_mb": 0, "used_q_vcores": 0}
            fields = {"vcores": vcores, "remaining_s": 100.0 if queue else 0.0, **full}
            orders += [
                s.container_id
                for s in world.reports.report(node_id(at), busy(at, *queue, **fields), float(second)).shed
            ]
        world.rounds.all_parts(float(second))
        decisions = records(world.take_effects())
        assert len(decisions) <= per_round * len(chosen)
        moves = world.mover.moves.values()
        ways = [node for move in moves for node in (move.source, move.target)]
        assert all(ways.count(node) <= per_node for node in set(ways))
        for node in world.nodes.values():
            kept = [own for own in node.own.values() if own.reserved]
            assert len(kept) == sum(move.target == node.id for move in moves)
            if "correct" not in chosen:
                assert len(kept) <= node.bare.capacity.vcores - node.bare.used_q.vcores or not kept
    assert len(orders) == len(set(orders)), "each is ordered once"
