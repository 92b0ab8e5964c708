"""The same world with containers that the proxy grants itself, ahead of the ResourceManager.

The ResourceManager's answer to a call that was answered early may come at once, with the next call, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hadoop_rpc.events import Call, Failure, Response
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.yarn_server_pb2 import (
    DistributedSchedulingAllocateRequestProto,
    DistributedSchedulingAllocateResponseProto,
)
from policies.model import Resources
from quicksilver.common.own_numbers import FIRST_NUMBER
from rm_proxy.attempt.effects import Confirmed, Effect
from rm_proxy.domain import ids
from rm_proxy.minting.tokens import MasterKey, NodeKeys
from rm_proxy.relay.minted_frames import METHOD
from sidecar.node.events import NowKnown
from tests.model.application_master import ApplicationMaster
from tests.model.resource_manager import NOT_REGISTERED, Refused, RmContainer
from tests.model.wire import Wire
from tests.model.world import Fault, Run

INVALID_ASK = "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException"
REFUSED_SHARE = 0.2
"""Of the calls that ask for other containers beside own ones; the ResourceManager takes the same asks later."""
_TOLD_AGAIN = "a container that may have been started is reported to the ResourceManager again"


class AheadRun(Run):
    """A run with `own_grants: ahead`."""

    def __init__(self, policies: Mapping[str, Any], types: Iterable[str], nodes: int, seed: int) -> None:
        self.on_way: dict[int, list[Call]] = {}
        """By application: calls that the ResourceManager has not got yet."""
        self.known_numbers: set[int] = set()
        """Own containers that it got to know."""
        self.leaves_open = True
        self.rm_start = 1
        routes = {"routes": [{"policy": "only_q"}], "quota": {"policy": "none"}} if seed % 2 else {}
        super().__init__({**policies, **routes}, types, nodes, seed)

    def _mint(self) -> None:
        world = self.coordinator
        if not world.hooks.early_answers:
            sizes: dict[str, Any] = {"minimum": Resources(1024, 1), "maximum": Resources(8192, 8)}
            state = world._state
            state.limits = replace(state.limits, own_grants=True, early_answers=True, **sizes)
            world.switch(world.policies)
        world.minter.ring.serves(self.rm_start)
        keys = NodeKeys(MasterKey(self.rm_start, b"12345678"), MasterKey(self.rm_start, b"abcdefgh"), self.rm_start)
        for node_id, node in self.rm.nodes.items():
            if node.up:
                world.minter.ring.report(node_id, keys, self.now_s)

    def tick(self, seconds: float) -> None:
        super().tick(seconds)
        self._mint()

    def proxy_dies(self) -> None:
        for number in list(self.on_way):
            self._cut(number)
        super().proxy_dies()
        self._mint()

    def own_fault(self, am: ApplicationMaster) -> None:
        self._cut(am.number)
        super().own_fault(am)

    def kill_am(self, number: int, keeps: bool) -> None:
        self._cut(number)
        super().kill_am(number, keeps)

    def restart_rm(self) -> None:
        self.rm_start += 1
        super().restart_rm()

    def _cut(self, number: int) -> None:
        """A connection ends: the ResourceManager gets what was on its way, or does not."""
        calls = self.on_way.pop(number, [])
        for call in calls:
            if self.rng.random() < 0.5:
                with suppress(Refused):
                    self._allocate(number, call)
        calls.clear()
        self.wires.pop(number, None)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        effects = list(effects)
        super().carry_out(effects)
        for effect in effects if not self.lose_effects else ():
            if isinstance(effect, Confirmed) and self.lose_drops:
                self.coordinator.reports.confirmed(effect.node_id, [effect.container_id])
            elif isinstance(effect, Confirmed):
                self.sites[effect.node_id].tell(NowKnown((effect.container_id,), self.now_s))

    def check_starts(self) -> None:
        """No own container runs that the ResourceManager has never known."""
        for site in self.sites.values():
            own = {process.number for process in site.running.values() if process.number > FIRST_NUMBER}
            assert own <= self.known_numbers, "it would be killed, and its application wait for ever"

    # allocate

    def _allocate(self, number: int, call: Call) -> bytes:
        """Have the ResourceManager handle a call; it takes own containers before it looks at the request."""
        if call.method != METHOD:
            return self.rm.allocate(number, call.body)
        request = DistributedSchedulingAllocateRequestProto.FromString(call.body)
        app = self.rm.app(number)
        if not app.registered:
            raise Refused(NOT_REGISTERED)
        for data in request.allocated_containers:
            self._take(number, y.ContainerProto.FromString(data))
        if y.AllocateRequestProto.FromString(request.allocate_request).ask and self.rng.random() < REFUSED_SHARE:
            self.calm[number] = 0
            raise Refused(f"{INVALID_ASK}: its containers are known all the same")
        answer = self.rm.allocate(number, request.allocate_request)
        return DistributedSchedulingAllocateResponseProto(allocate_response=answer).SerializeToString()

    def _take(self, number: int, proto: y.ContainerProto) -> None:
        app, own, node_id = self.rm.app(number), proto.id.id, ids.node_id_text(proto.nodeId)
        assert own not in app.ran and not any(own in site.started for site in self.sites.values()), _TOLD_AGAIN
        key = proto.priority.priority, proto.allocation_request_id
        if not self.rm.nodes[node_id].up:
            return
        self.known_numbers.add(own)
        known = app.containers[own] = RmContainer(own, node_id, True, proto.resource.memory)
        app.attempt_of[own] = proto.id.app_attempt_id.attemptId
        app.keys[own] = key
        known.priority, known.request_id = key

    def heartbeat(self, am: ApplicationMaster, fault: Fault = "", again: bool = True) -> None:
        wire, on_way = self._wire(am), self.on_way.setdefault(am.number, [])
        am.unanswered = am.request(again)
        calls, events = wire.push("allocate", am.unanswered)
        at_once = bool(events)
        on_way += calls
        self._write(wire.take_notes())
        self.carry_out(wire.effects)
        self.calm[am.number] = 0 if fault else self.calm[am.number] + 1
        self.fresh[am.number] = False
        if fault:
            self.broken[am.number] += len(am.wanted)
            self.leaks[am.number] += len(self.coordinator.attempts[am.attempt_id].table.by_private)
        while on_way and not events and fault != "unseen":
            events = self._pass(am, wire, on_way, fault)
            if fault == "unanswered":
                break
        if not events:
            on_way.clear()
            del self.wires[am.number]
            return
        refused = isinstance(events[0], Failure)
        self._heard(am, events[0], fault)
        if fault:
            self._cut(am.number)
        if refused and not (fault and at_once):
            self._register(am)
        while on_way and not (self.leaves_open and self.rng.random() < 0.5):
            self._pass(am, wire, on_way, "")
        if on_way:
            self.calm[am.number] = 0  # the ResourceManager has not got the rows of the open call
        self._remember_undelivered(am)

    def _pass(self, am: ApplicationMaster, wire: Wire, on_way: list[Call], fault: Fault) -> list[Response | Failure]:
        """Have the ResourceManager answer the first call on its way; returns what the application master gets."""
        call = on_way.pop(0)
        try:
            raw = wire.server.response(call, self._allocate(am.number, call))
        except Refused as refused:
            raw = wire.server.error(call, *str(refused).partition(": ")[::2])
        if fault == "unanswered":
            return []
        calls, events = wire.pass_down(raw)
        on_way += calls
        self._write(wire.take_notes())
        self.carry_out(wire.effects)
        self._remember_undelivered(am)
        return events

    def _remember_undelivered(self, am: ApplicationMaster) -> None:
        late = self.coordinator.attempts[am.attempt_id].exchange.undelivered
        self.proxied[am.number] |= set(late.container_ids) if late is not None else set()

    def _heard(self, am: ApplicationMaster, event: Response | Failure, fault: Fault) -> None:
        if isinstance(event, Failure):
            assert event.exception_class == NOT_REGISTERED, event
            live = self.coordinator.attempts[am.attempt_id].live
            self.voided |= {cid for cid in self.proxied[am.number] if cid not in live}
            self.calm[am.number] = 0
            return
        answer = y.AllocateResponseProto.FromString(event.body)
        self.proxied[am.number] |= {ids.container_id_text(c.id) for c in answer.allocated_containers}
        self.proxied[am.number] -= {ids.container_id_text(s.container_id) for s in answer.completed_container_statuses}
        self.fresh[am.number] = not self.on_way.get(am.number)
        if fault != "untold":
            am.take(answer)

    def settle(self, rounds: int = 150) -> None:
        self.leaves_open = False
        super().settle(rounds)
