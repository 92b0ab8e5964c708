"""Shedding as a closed loop: coordinator and sidecars' machines under a virtual clock; what is shed is placed again.

Tasks are placed by `topk_wait`, wait at their nodes, and run as long as expected, or ten times that on slow nodes,
which do not know it (the stragglers of Mercury, ATC '15, §7.2.3).
"""

from __future__ import annotations

import statistics
from collections import Counter
from random import Random
from typing import Any

import pytest

from policies.config.policy_set import Policies
from policies.model import AppView, Ask, Resources
from quicksilver.common.messages import EventKind, Report
from rm_proxy.coordinator.coordinator import Coordinator
from sidecar.node.events import (
    Answered,
    Command,
    Ended,
    Granted,
    Launch,
    Outcome,
    ReportEvent,
    SessionUp,
    Targeted,
    Tick,
)
from sidecar.node.events import Event as NodeEvent
from sidecar.node.node import SidecarNode
from sidecar.node.report_view import fill_report
from tests.examples import others_long
from tests.rm_proxy.yarn_messages import ALL_Q, node_id, yarn_node
from tests.sidecar.words import APP, ATTEMPT, arrived, grant, node

PLACES = 2
EXPECTED_S = 5.0


class Cluster:
    """Nodes of two places each; `slow` are the numbers of those that need ten times as long."""

    def __init__(self, nodes: int, slow: tuple[int, ...] = (), seed: int = 1, **policies: Any) -> None:
        self.coordinator = Coordinator(
            Policies.load({**ALL_Q, "place": {"policy": "topk_wait"}, **policies}), Random(seed)
        )
        self.machines: dict[int, SidecarNode] = {n: node(1024 * PLACES, PLACES) for n in range(1, nodes + 1)}
        self.coordinator.yarn_nodes([yarn_node(n) for n in self.machines], 0.0)
        self.slow, self.now_s, self.seq = slow, 0.0, 0
        self.ends: list[tuple[float, int, str]] = []
        self.wanted: list[tuple[int, int]] = []
        """(task, how often it was shed), to be placed."""
        self.sheds: Counter[int] = Counter()
        self.shed_at_s: list[float] = []
        self.done: Counter[int] = Counter()
        self.done_s = 0.0
        for machine in self.machines.values():
            machine.handle(SessionUp(ATTEMPT, 0.0))

    def run(self, tasks: int, a_second: int = 10_000, limit_s: int = 2000) -> float:
        """Run tasks that come `a_second`, and return when the last one was over."""
        coming = [(task, 0) for task in range(tasks)]
        for number in self.machines:
            self._report(number)
        while self.done.total() < tasks:
            assert self.now_s < limit_s
            self.wanted += coming[:a_second]
            del coming[:a_second]
            self._place()
            self.now_s += 1.0
            self._end()
            for number in self.machines:
                self._report(number)
            self.coordinator.rounds.all_parts(self.now_s)
            for number in self.machines:
                self._tell(number, Tick(self.now_s))
        return self.done_s

    def _place(self) -> None:
        wanted, self.wanted = self.wanted, []
        for task, sheds in wanted:
            ask = Ask(AppView(APP), 20, Resources(1024, 1), expected_s=EXPECTED_S)
            placed = self.coordinator.placer.place(ask, frozenset())
            assert placed.node is not None
            number = next(n for n in self.machines if node_id(n) == placed.node)
            name = f"{task}.{sheds}"
            self._tell(number, Granted((grant(name, expected_s=EXPECTED_S, max_hold_s=1e9, sheds=sheds),), self.now_s))
            self._tell(number, arrived(name, self.now_s, expires_s=1e12))
            self._report(number)

    def _report(self, number: int) -> None:
        self.seq += 1
        base = Report(node_id=node_id(number), boot="b", seq=self.seq, sidecar_url="http://n", memory_mb=1, vcores=1)
        ack = self.coordinator.reports.report(
            node_id(number), fill_report(base, self.machines[number], self.now_s), self.now_s
        )
        self._tell(number, Targeted(ack.targets, (), (), self.now_s))

    def _end(self) -> None:
        for end in sorted(self.ends):
            if end[0] <= self.now_s:
                self.ends.remove(end)
                self._tell(end[1], Ended(end[2], self.now_s))
                self.done[int(end[2].split(".")[0])] += 1
                self.done_s = self.now_s

    def _tell(self, number: int, event: NodeEvent) -> None:
        for command in self.machines[number].handle(event):
            self._obey(number, command)

    def _obey(self, number: int, command: Command) -> None:
        if isinstance(command, Launch):
            runs_s = EXPECTED_S * (10 if number in self.slow else 1)
            self.ends.append((self.now_s + runs_s, number, command.container_id))
            self._tell(number, Answered(command.container_id, Outcome.STARTED, "", self.now_s))
        elif isinstance(command, ReportEvent) and command.event.kind is EventKind.SHED:
            assert command.event.cause == "shed"
            task, sheds = (int(part) for part in command.event.container_id.split("."))
            self.wanted.append((task, sheds + 1))
            self.sheds[task] += 1
            self.shed_at_s.append(self.now_s)


SHED = {"shed": {"policy": "mean_sigma"}}


@pytest.mark.parametrize("a_second", [10_000, 5])
def test_alike_nodes_shed_nothing(a_second: int) -> None:
    even = Cluster(8, **SHED)
    even.run(200, a_second)
    assert set(even.done.values()) == {1}
    assert even.sheds.total() == 0


@pytest.mark.parametrize("seed", others_long([1, 2, 3]))
def test_what_waits_at_stragglers_is_done_elsewhere_and_the_loop_comes_to_rest(seed: int) -> None:
    tasks = 200
    left = Cluster(8, (1,), seed)
    slow_s = left.run(tasks)
    shed = Cluster(8, (1,), seed, **SHED)
    fast_s = shed.run(tasks)
    assert set(shed.done.values()) == {1} and len(shed.done) == tasks, "none lost, none doubled"
    assert fast_s < 0.7 * slow_s
    assert max(shed.sheds.values()) <= 2
    assert max(shed.shed_at_s) < 0.6 * fast_s, "it is quiet before the end"
    assert 0 < shed.sheds.total() <= 0.14 * tasks, "Mercury §7.2.3: 14 % of all tasks dequeued are acceptable"


@pytest.mark.long
def test_a_limit_of_the_length_moves_what_waits_at_stragglers_too() -> None:
    policy = {"policy": "queue_length", "settings": {"min_length": 2, "max_length": 50}}
    slow_s = Cluster(8, (1,)).run(200)
    cluster = Cluster(8, (1,), shed=policy)
    assert cluster.run(200) < 0.8 * slow_s
    assert max(cluster.sheds.values()) <= 2
    assert statistics.fmean(cluster.done.values()) == 1
