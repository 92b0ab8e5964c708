"""Sidecars that die at any moment, with containers held, on their way, running: nothing is lost or doubled."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.model.checks import check
from tests.model.episodes import of_the_day
from tests.model.requestor import Want
from tests.model.test_whole import policies
from tests.model.world import Run


class Restarts(RuleBasedStateMachine):
    """One job, two small nodes."""

    @initialize(place=st.integers(0, 3), route=st.integers(0, 1))
    def begin(self, place: int, route: int) -> None:
        self.run = Run(policies(route, 0, place), ["MAPREDUCE"], 2, 1)
        self.am = self.run.ams[0]

    def site(self, node: int) -> Any:
        return self.run.sites[f"host{node + 1}:8041"]

    @rule(count=st.integers(4, 12), priority=st.sampled_from([5, 20]))
    def asks(self, count: int, priority: int) -> None:
        for _ in range(count):
            self.am.ask(Want(0, priority, (), (), 1024))
        self.run.heartbeat(self.am)
        self.run.heartbeat(self.am)

    @rule(most=st.integers(1, 12))
    def starts(self, most: int) -> None:
        for container_id in [c for c, a in self.am.assigned.items() if a.call_id is None][:most]:
            self.run.start(self.am, container_id)

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.run.tick(seconds)
        self.run.heartbeat(self.am)
        self.run.look(self.am)

    @rule(node=st.integers(0, 1), exit_status=st.sampled_from([0, 0, 1]), beats=st.booleans())
    def ends(self, node: int, exit_status: int, beats: bool) -> None:
        site = self.site(node)
        if site.running:
            site.finish(min(site.running), exit_status)
        if beats:
            self.run.node_heartbeat(site.id)

    @rule(node=st.integers(0, 1), times=st.integers(1, 2))
    def crashes(self, node: int, times: int) -> None:
        for _ in range(times):
            self.site(node).crash()
        self.run.look(self.am)

    @rule(node=st.integers(0, 1), exit_status=st.sampled_from([0, 1]))
    def ends_while_the_sidecar_is_down(self, node: int, exit_status: int) -> None:
        site = self.site(node)
        if site.running:
            site.finish_unseen(min(site.running), exit_status)
        site.crash()
        self.run.look(self.am)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "run"):
            check(self.run)

    def teardown(self) -> None:
        if not hasattr(self, "run"):
            return
        try:
            self.run.settle()
            check(self.run)
            for site in self.run.sites.values():
                memory = site.memory()
                assert not memory.entries
                assert not memory.events
                assert not site.node.state.to_release()
            assert not self.run.rm.app(self.am.number).containers
        finally:
            self.run.close()


TestRestarts = of_the_day(Restarts, 120, 30)
