"""Calls that wait for news while connections break and the proxy dies: each container and completion comes once."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.model.checks import check
from tests.model.episodes import of_the_day
from tests.model.requestor import Want
from tests.model.test_whole import policies
from tests.model.world import Fault, Run

BREAKS: list[Fault] = ["", "", "", "unseen", "unanswered", "untold", "absorbed", "poll unseen", "poll unanswered"]


class Waits(RuleBasedStateMachine):
    """One job of each kind of ask, more than two small nodes have room for."""

    @initialize(route=st.integers(0, 2), place=st.integers(0, 3), app_type=st.sampled_from(["MAPREDUCE", "YARN"]))
    def begin(self, route: int, place: int, app_type: str) -> None:
        self.run = Run({**policies(route, 0, place), "long_poll": "short"}, [app_type], 2, 1)
        self.am = self.run.ams[0]
        self.run.heartbeat(self.am)

    @rule(count=st.integers(6, 14), fault=st.sampled_from(BREAKS), again=st.booleans())
    def asks(self, count: int, fault: Fault, again: bool) -> None:
        for _ in range(count):
            self.am.ask(Want(0, 20, (), (), 1024))
        self.run.heartbeat(self.am, fault, again)

    @rule(which=st.integers(0, 50), count=st.integers(1, 4))
    def cancels(self, which: int, count: int) -> None:
        for _ in range(min(count, len(self.am.wanted))):
            self.am.cancel(sorted(self.am.wanted)[which % len(self.am.wanted)])

    @rule(fault=st.sampled_from(BREAKS), again=st.booleans())
    def heartbeat(self, fault: Fault, again: bool) -> None:
        self.run.heartbeat(self.am, fault, again)

    @rule(fault=st.sampled_from(BREAKS), again=st.booleans())
    def proxy_dies(self, fault: Fault, again: bool) -> None:
        self.run.heartbeat(self.am, fault, again)
        self.run.proxy_dies()

    @rule()
    def resource_manager_restarts(self) -> None:
        if len(self.run.rm.forgotten) < 60:
            self.run.restart_rm()

    @rule(most=st.integers(1, 12))
    def starts(self, most: int) -> None:
        for container_id in [c for c, a in self.am.assigned.items() if a.call_id is None][:most]:
            self.run.start(self.am, container_id)

    @rule(node=st.integers(0, 1))
    def ends(self, node: int) -> None:
        site = self.run.sites[f"host{node + 1}:8041"]
        if site.running:
            site.finish(min(site.running), 0)

    @rule(node=st.integers(0, 1))
    def node_heartbeat(self, node: int) -> None:
        self.run.node_heartbeat(f"host{node + 1}:8041")

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.run.tick(seconds)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "run"):
            check(self.run)

    def teardown(self) -> None:
        if hasattr(self, "run"):
            try:
                self.run.settle()
                check(self.run)
                allowed = self.am.cancelled + self.run.rm.excess[1] + self.run.broken[1]
                assert self.am.surplus <= allowed
            finally:
                self.run.close()


TestWaits = of_the_day(Waits, 40, 40)
