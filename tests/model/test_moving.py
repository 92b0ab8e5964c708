"""A closed loop of relay, coordinator, sidecars and models of YARN: an idle node is filled from another's queue."""

from __future__ import annotations

from typing import Any

import pytest

from rm_proxy.attempt.effects import Effect, Moved
from sidecar.node.events import Drain
from tests.model.checks import check
from tests.model.requestor import Want
from tests.model.world import Run

BUSY, IDLE = "host1:8041", "host2:8041"
BASE: dict[str, Any] = {
    "queues": "*",
    "routes": [{"policy": "only_q"}],
    "quota": {"policy": "none"},
    "place": {"policy": "topk_wait"},
}
MOVES: dict[str, dict[str, Any]] = {
    "steal": {
        "steal": {"policy": "hawk"},
        "estimate": {"rules": [{"match": {"type": "TEZ"}, "expected_s": 1000}]},
    },
    "correct": {"correct": {"policy": "apollo"}},
    "": {},
}
"""For correction the long ones are taken for tasks of 10 s, as all are of which nothing is known."""
TURNS = {"steal": 12, "correct": 60, "": 60}


class Loop(Run):
    """Four long tasks fill node 1 and six short ones wait there; then node 2, which was draining, has room for four."""

    def __init__(self, slot: str, seed: int) -> None:
        self.moved: list[str] = []
        super().__init__(BASE | MOVES[slot], ("TEZ", "YARN"), 2, seed)
        self.sites[IDLE].tell(Drain(True, "maintenance", self.now_s))
        self.tick(1.0)
        for am, tasks in zip(self.ams, (4, 6), strict=True):
            for _ in range(tasks):
                am.ask(Want(0, 20))
            self.turn()
        self.sites[IDLE].tell(Drain(False, "", self.now_s))

    def carry_out(self, effects: Any) -> None:
        some: list[Effect] = list(effects)
        self.moved += [e.outcome for e in some if isinstance(e, Moved)]
        super().carry_out(some)

    def turn(self, times: int = 2) -> None:
        """Let heartbeats of everybody go by; who has a container starts it."""
        for _ in range(times):
            self.tick(1.0)
            for site in self.sites:
                self.node_heartbeat(site)
            for am in self.ams:
                self.heartbeat(am)
                self.look(am)
                for container_id in [c for c, a in am.assigned.items() if a.call_id is None]:
                    self.start(am, container_id)
            check(self)

    def waiting(self) -> dict[str, int]:
        return {site.id: len(site.node.state.queue) for site in self.sites.values()}

    def running(self) -> dict[str, int]:
        return {site.id: len(site.running) for site in self.sites.values()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slot", ["steal", "correct", ""])
def test_an_idle_node_is_filled_and_no_task_is_lost_or_doubled(slot: str, seed: int) -> None:
    loop = Loop(slot, seed)
    try:
        assert (loop.running(), loop.waiting()) == ({BUSY: 4, IDLE: 0}, {BUSY: 6, IDLE: 0})
        loop.turn(TURNS[slot])
        if not slot:
            assert (loop.running(), loop.waiting()) == ({BUSY: 4, IDLE: 0}, {BUSY: 6, IDLE: 0}), "nobody moves anything"
            return
        assert loop.running() == {BUSY: 4, IDLE: 4}
        assert set(loop.moved) == {"there"} and len(loop.moved) >= 4
        for _ in range(2):
            for container_id in list(loop.sites[IDLE].running):
                loop.sites[IDLE].finish(container_id, 0)
            loop.turn(TURNS[slot])
        short = loop.ams[1]
        assert short.done == 6, "all short ones were done while the long ones ran"
        assert loop.running() == {BUSY: 4, IDLE: 0}
        loop.settle()
        assert [am.done for am in loop.ams] == [4, 6]
        assert [am.surplus for am in loop.ams] == [0, 0]
        assert not loop.coordinator.mover.moves
    finally:
        loop.close()
