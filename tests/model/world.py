"""Everything together under one virtual clock: application masters, relays, coordinator, sidecars, YARN's model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from random import Random
from typing import Any, Literal

from hadoop_rpc.events import Call, Failure, Response
from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.model import Resources
from quicksilver.common.messages import ContainerState
from rm_proxy.attempt.asks import ask_table
from rm_proxy.attempt.effects import Announce, DropHeld, Effect, FellBack
from rm_proxy.attempt.routing import router, steering
from rm_proxy.attempt.snapshot import Note, Snapshot
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import FaultKind
from rm_proxy.domain import ids
from rm_proxy.domain.records import AppRecord
from rm_proxy.yarn.models import YarnNode, YarnQueue
from sidecar.node.events import Tick
from tests.model.application_master import ApplicationMaster
from tests.model.resource_manager import NOT_REGISTERED, Refused, ResourceManager, RmContainer, RmNode
from tests.model.site import Site
from tests.model.wire import Wire, identifier

Fault = Literal["", "unseen", "unanswered", "untold"]
"""Where a connection breaks: before the ResourceManager, before the proxy has the answer, behind the proxy."""
TIMESTAMP = 1_700_000_000_000
NODE_MB, NODE_CORES = 4096, 4


@cache
def registry() -> Registry:
    return Registry()


class Run:
    """One run. types: the application types of the jobs, in the order of their numbers 1, 2, ..."""

    limits = ((router, "MAX_ROUTED"), (steering, "MAX_PLACED"), (ask_table, "MAX_PARKED"))
    """Limits of the proxy; a run may set them low, `close` sets them back."""

    def __init__(self, policies: Mapping[str, Any], types: Iterable[str], nodes: int, seed: int) -> None:
        self.now_s = 1000.0
        loaded = Policies.load(policies, registry())
        self.rng = Random(seed)
        self.coordinator = Coordinator(loaded, self.rng)
        hosts = {f"host{n}:8041": RmNode(f"host{n}", f"/r{n % 2}", NODE_MB) for n in range(1, nodes + 1)}
        self.rm = ResourceManager(hosts, TIMESTAMP)
        self.sites = {n: Site(n, NODE_MB, NODE_CORES, loaded, self._known) for n in hosts}
        self.rm.accepted = lambda node, number: number in self.sites[node].started
        self.ams: list[ApplicationMaster] = []
        self.wires: dict[int, Wire] = {}
        self.proxied: dict[int, set[str]] = {}
        self.broken: Counter[int] = Counter()
        """What a broken connection may cost: rows sent again overwrite grants on their way."""
        self.voided: set[str] = set()
        """Containers that the proxy gave up when the ResourceManager had restarted."""
        self.demoted: set[str] = set()
        """Containers whose promotion no NodeManager had heard of when the ResourceManager restarted."""
        self.calm: dict[int, int] = {}
        """By application: exchanges since the last fault."""
        self.fresh: dict[int, bool] = {}
        """Whether nothing happened since the last exchange."""
        self.leaks: Counter[int] = Counter()
        """Ids that the ResourceManager may keep for ever because a connection broke."""
        self.lose_announcements = False
        self.lose_drops = False
        self.compacts = False
        """Whether the proxy has written down everything anew just before it dies."""
        self.lose_effects = False
        """Whether the proxy dies after it wrote down what it does, and before it does it."""
        self.fallbacks: list[FellBack] = []
        """Of queueable containers that went guaranteed."""
        self.notes: dict[str, Snapshot] = {}
        """What the proxy wrote down, by attempt."""
        self._kept: list[tuple[Any, str, int]] = []
        self._tell_yarn()
        self.tick(0.0)
        for number, app_type in enumerate(types, 1):
            self._submit(number, app_type)

    def tighten(self, routed: int, placed: int, parked: int) -> None:
        """Set the proxy's limits low, so that few containers reach them."""
        self._kept = [(module, name, getattr(module, name)) for module, name in self.limits]
        for (module, name), value in zip(self.limits, (routed, placed, parked), strict=True):
            setattr(module, name, value)

    def close(self) -> None:
        for module, name, value in self._kept:
            setattr(module, name, value)

    def _known(self, container_id: str) -> bool:
        return int(container_id.rsplit("_", 1)[1]) not in self.rm.forgotten

    def _tell_yarn(self) -> None:
        size = Resources(NODE_MB, NODE_CORES)
        self.coordinator.yarn_nodes(
            [
                YarnNode(i, n.host, n.rack, "RUNNING" if n.up else "LOST", "", size, Resources(), f"{n.host}:8042")
                for i, n in self.rm.nodes.items()
            ],
            self.now_s,
        )
        total = Resources(NODE_MB * len(self.rm.nodes), NODE_CORES * len(self.rm.nodes))
        self.coordinator.inventory.update_queues(
            [YarnQueue("root.default", True, "RUNNING", total, Resources(), frozenset(), "")]
        )

    def _submit(self, number: int, app_type: str) -> None:
        app_id = f"application_{TIMESTAMP}_{number:04d}"
        self.coordinator.inventory.update_app(AppRecord(app_id, "default", "u", app_type, "job", (), 0, 0.0))
        am = ApplicationMaster(number, f"appattempt_{TIMESTAMP}_{number:04d}_000001", app_type)
        self.ams.append(am)
        self.proxied[number] = set()
        self.calm[number] = 99
        self.fresh[number] = False
        self._register(am)

    def _wire(self, am: ApplicationMaster) -> Wire:
        if am.number not in self.wires:
            attempt = int(am.attempt_id.rpartition("_")[2])
            self.wires[am.number] = Wire(self.coordinator, identifier(attempt, TIMESTAMP, am.number))
        wire = self.wires[am.number]
        wire.now_s = self.now_s
        return wire

    def _register(self, am: ApplicationMaster, kept: Iterable[y.ContainerProto] = ()) -> None:
        wire = self._wire(am)
        call = wire.send("registerApplicationMaster", y.RegisterApplicationMasterRequestProto())
        response = call
        if isinstance(call, Call):
            answer = self.rm.register(am.number)
            answer.containers_from_previous_attempts.extend(kept)
            response = wire.answer(call, answer)
        self._write(wire.take_notes())
        assert isinstance(response, Response)
        am.registered()
        for container in y.RegisterApplicationMasterResponseProto.FromString(
            response.body
        ).containers_from_previous_attempts:
            am.adopt(container)

    def kill_am(self, number: int, keeps: bool) -> None:
        """The application master dies; the next attempt registers after a while."""
        old = self.ams[number - 1]
        kept = self.rm.next_attempt(number, keeps)
        self.wires.pop(number, None)
        attempt = self.rm.app(number).attempt
        attempt_id = f"appattempt_{TIMESTAMP}_{number:04d}_{attempt:06d}"
        am = self.ams[number - 1] = ApplicationMaster(number, attempt_id, self.ams[number - 1].app_type)
        am.next_task = old.next_task
        self.proxied[number] = {ids.container_id_text(c.id) for c in kept}
        self.calm[number], self.fresh[number] = 0, False
        self._register(am, kept)
        self.carry_out(self.coordinator.take_urgent())
        if not self.lose_drops:
            self.none_is_held_of(old.attempt_id)

    def none_is_held_of(self, attempt_id: str) -> None:
        for site in self.sites.values():
            held = [
                e.id
                for e in site.node.state.containers.values()
                if site.node.state.held_state(e.id) is ContainerState.WAITING
            ]
            assert not [cid for cid in held if ids.attempt_of_container(cid) == attempt_id]

    # What outlives the proxy

    def _write(self, notes: Iterable[tuple[str, Note]]) -> None:
        for attempt_id, note in notes:
            kept = self.notes.setdefault(attempt_id, Snapshot())
            kept.take(json.loads(json.dumps(note)))
            if kept.over:
                del self.notes[attempt_id]

    def proxy_dies(self) -> None:
        """The proxy is killed, and another one goes on with what it wrote down."""
        old = self.coordinator
        for am in self.ams:
            table = old.attempts[am.attempt_id].table
            self.leaks[am.number] += len(table.by_private) + len(table._parked_for)
            self.broken[am.number] += len(am.wanted)
            self.calm[am.number] = 0
        self.wires.clear()
        if self.compacts:
            whole = dict(old.takeover.whole_notes())
            self.notes = {}
            self._write(whole.items())
        self.coordinator = Coordinator(old.policies, self.rng)
        for attempt_id, kept in self.notes.items():
            self.coordinator.takeover.restore(attempt_id, kept)
        self._tell_yarn()
        self.lose_effects = False

    def own_fault(self, am: ApplicationMaster) -> None:
        """The proxy's own code fails over an attempt: it is taken over as if the proxy had died."""
        table = self.coordinator.attempts[am.attempt_id].table
        self.leaks[am.number] += len(table.by_private) + len(table._parked_for)
        self.broken[am.number] += len(am.wanted)
        self.calm[am.number] = 0
        self.wires.pop(am.number, None)
        self._write(self.coordinator.takeover.notes())
        self.coordinator.modes.budget.note(FaultKind.INTERNAL, ids.app_of_attempt(am.attempt_id), self.now_s)
        assert self.coordinator.broken(am.attempt_id, self.now_s)
        self.carry_out(self.coordinator.take_effects())

    # allocate

    def heartbeat(self, am: ApplicationMaster, fault: Fault = "", again: bool = True) -> None:
        """One allocate call. again: after a fault the RPC layer repeats the very request; else it is made anew."""
        wire = self._wire(am)
        body = am.request(again)
        am.unanswered = body
        call = wire.send("allocate", body)
        self._write(wire.take_notes())
        self.calm[am.number] = 0 if fault else self.calm[am.number] + 1
        self.fresh[am.number] = False
        if fault:
            self.broken[am.number] += len(am.wanted)
            self.leaks[am.number] += len(self.coordinator.attempts[am.attempt_id].table.by_private)
        if isinstance(call, Failure):
            assert call.exception_class == NOT_REGISTERED, call
            if fault:
                del self.wires[am.number]
            else:
                self._register(am)
            return
        assert isinstance(call, Call)
        if fault == "unseen":
            del self.wires[am.number]
            return
        response = self._exchange(am, wire, call, fault)
        if isinstance(response, Failure):
            assert response.exception_class == NOT_REGISTERED, response
            live = self.coordinator.attempts[am.attempt_id].live
            self.voided |= {cid for cid in self.proxied[am.number] if cid not in live}
            self.calm[am.number] = 0
            self._register(am)
            return
        if response is None:
            del self.wires[am.number]
            return
        answer = y.AllocateResponseProto.FromString(response.body)
        self.proxied[am.number] |= {ids.container_id_text(c.id) for c in answer.allocated_containers}
        self.proxied[am.number] -= {ids.container_id_text(s.container_id) for s in answer.completed_container_statuses}
        self.fresh[am.number] = True
        if fault == "untold":
            del self.wires[am.number]
            return
        am.take(answer)

    def _exchange(self, am: ApplicationMaster, wire: Wire, call: Call, fault: Fault) -> Response | Failure | None:
        """Have a call answered, those of the proxy's own included; None when the connection broke before."""
        while True:
            try:
                raw = wire.server.response(call, self.rm.allocate(am.number, call.body))
            except Refused as refused:
                raw = wire.server.error(call, *str(refused).partition(": ")[::2])
            if fault == "unanswered":
                return None
            calls, events = wire.pass_down(raw)
            self._write(wire.take_notes())
            self.carry_out(wire.effects)
            if events:
                (event,) = events
                return event
            (call,) = calls  # the last answer, since the id was refused

    def carry_out(self, effects: Iterable[Effect]) -> None:
        if self.lose_effects:
            return
        for effect in effects:
            if isinstance(effect, FellBack):
                self.fallbacks.append(effect)
            elif isinstance(effect, Announce):
                if not self.lose_announcements:
                    self.sites[effect.node_id].announce(effect.grant)
            elif isinstance(effect, DropHeld):
                if self.lose_drops:
                    self.coordinator.reports.undelivered(effect)
                else:
                    self.sites[effect.node_id].drop((effect.container_id,), effect.reason)

    # nodes

    def tick(self, seconds: float) -> None:
        """Let time pass: the sidecars look at their clocks and report, the coordinator does its round."""
        self.now_s += seconds
        for site in self.sites.values():
            site.now_s = self.now_s
            site.tell(Tick(self.now_s))
            site.look_at_processes()
            if not site.down:
                site.look_at_list()
            ack = self.coordinator.reports.report(site.id, site.report(), self.now_s)
            self._write(self.coordinator.takeover.touched_notes())
            self.carry_out(self.coordinator.take_urgent())
            site.acknowledged(ack)
        self.coordinator.rounds.all_parts(self.now_s)
        self._write(self.coordinator.takeover.notes())
        self.carry_out(self.coordinator.take_effects())

    def use(self, policies: Policies) -> None:
        """Settings change at the proxy."""
        self.coordinator.use(policies, self.now_s)
        self._write(self.coordinator.takeover.notes())
        self.carry_out(self.coordinator.take_effects())

    def node_heartbeat(self, node_id: str) -> None:
        site = self.sites[node_id]
        if site.down:
            return
        started, site.started = site.started, []
        ended, site.ended = site.ended, {}
        by_number = {p.number: p.id for p in site.running.values()}
        for app in self.rm.apps.values():
            for number, known in app.containers.items():
                if number in by_number and known.version:
                    site.running[by_number[number]].promoted()
        for number in self.rm.heartbeat(node_id, started, ended):
            if number in by_number:
                site.finish(by_number[number], -105)

    def kill_nodemanager(self, node_id: str) -> None:
        self.sites[node_id].nodemanager_dies()

    def lose_node(self, node_id: str) -> None:
        """The ResourceManager has not heard of a dead NodeManager for too long."""
        on_their_way = [
            c for app in self.rm.apps.values() for c in app.granted if ids.node_id_text(c.nodeId) == node_id
        ]
        if on_their_way or not self.sites[node_id].down:
            return  # what is lost before an application heard of it is not modelled
        self.rm.lose(node_id)
        self.rm.nodes[node_id].up = False
        self._tell_yarn()

    def return_nodemanager(self, node_id: str, recovers: bool) -> None:
        """Start a dead NodeManager; one that forgets registers as an empty node."""
        if not self.sites[node_id].down:
            return
        if not recovers:
            self.lose_node(node_id)
            recovers = self.rm.nodes[node_id].up
        self.sites[node_id].nodemanager_returns(recovers)
        self.rm.nodes[node_id].up = True
        self._tell_yarn()

    def restart_rm(self) -> None:
        """Restart it; the NodeManagers register again with what runs there, and it recovers those containers."""
        for site in self.sites.values():
            for process in [*site.running.values(), *(site.ran[number] for number in site.ended)]:
                app = self.rm.app(int(process.id.split("_")[2]))
                before = app.containers.get(process.number)
                if before is not None and before.opportunistic != process.opportunistic:
                    self.demoted.add(process.id)
                known = RmContainer(process.number, site.id, process.opportunistic, process.memory_mb, running=True)
                known.version = process.version
                self.rm.recover(app, known)
        self.rm.restart()
        self.calm = dict.fromkeys(self.calm, 0)

    # containers

    def start(self, am: ApplicationMaster, container_id: str) -> None:
        assigned = am.assigned[container_id]
        node_id = ids.node_id_text(assigned.container.nodeId)
        known = self.rm.app(am.number).containers.get(assigned.container.id.id)
        opportunistic = known.opportunistic if known is not None else True
        assigned.call_id = self.sites[node_id].start(am.attempt_id, assigned.container, opportunistic)
        self.look(am)

    def look(self, am: ApplicationMaster) -> None:
        """See what became of the starts that were sent."""
        for container_id, assigned in list(am.assigned.items()):
            if assigned.call_id is None or assigned.started:
                continue
            site = self.sites[ids.node_id_text(assigned.container.nodeId)]
            answered = site.answered(am.attempt_id, assigned.call_id)
            if answered:
                assigned.started = True
            elif answered is False:
                am.start_failed(container_id)

    def stop(self, am: ApplicationMaster, container_id: str) -> None:
        assigned = am.assigned[container_id]
        assigned.stopped = True
        self.sites[ids.node_id_text(assigned.container.nodeId)].stop_by_am(am.attempt_id, assigned.container.id)

    # alone

    def settle(self, rounds: int = 150) -> None:
        """Leave everything alone, without faults, until nothing moves; AssertionError when that does not come.

        rounds: beside one for each container that is wanted, as few may run at a time.
        """
        self.lose_announcements = self.lose_drops = self.lose_effects = False
        for node in self.rm.nodes.values():
            node.takes_o = True
        for node_id, site in self.sites.items():
            site.refuse_next = False
            self.return_nodemanager(node_id, recovers=True)
        quiet = 0
        for _ in range(rounds + sum(len(am.wanted) for am in self.ams)):
            self.round()
            quiet = quiet + 1 if self._quiet() else 0
            if quiet == 5:
                return
        raise AssertionError(self.why_not_quiet())

    def round(self) -> None:
        self.tick(1.0)
        for node_id, site in self.sites.items():
            for container_id in list(site.running):
                site.finish(container_id, 0)
            self.node_heartbeat(node_id)
        for am in self.ams:
            self.heartbeat(am)
            self.look(am)
            for container_id, assigned in list(am.assigned.items()):
                if assigned.call_id is None and container_id in am.assigned:
                    self.start(am, container_id)

    def _quiet(self) -> bool:
        return all(am.idle for am in self.ams) and not any(
            s.node.state.containers or s.running for s in self.sites.values()
        )

    def why_not_quiet(self) -> str:
        lines = ["it does not come to rest:"]
        for am in self.ams:
            lines.append(f"am {am.number}: wanted {am.wanted}, assigned {list(am.assigned.items())}, {am.table.counts}")
            lines.append(f"  rm: g {self.rm.app(am.number).g}, o {self.rm.app(am.number).o}")
            attempt = self.coordinator.attempts[am.attempt_id]
            for e in attempt.entries:
                shares = (e.demand, e.g_share, e.q_wanted, len(e.pending))
                lines.append(f"  entry {e.key.priority}: demand, g, q, pending {shares}")
        for site in self.sites.values():
            lines.append(
                f"{site.id}: {[(c.id, c.phase) for c in site.node.state.containers.values()]}, "
                f"runs {list(site.running)}"
            )
        return "\n".join(lines)
