"""One application attempt as the proxy follows it: what its allocate requests and answers become.

It outlives connections. The application master must never notice: counts, priorities, capabilities, request ids,
execution types and completions stay consistent in what it sees (docs/architecture.md, The proxy).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import AppView, Kind
from rm_proxy import exit_codes, ids
from rm_proxy.asks import AskTable, Entry, QPlacement, Reason, resources_of, set_resources
from rm_proxy.grants import announcement, granted
from rm_proxy.live import Live, LiveContainers
from rm_proxy.records import CompletionRecord
from rm_proxy.routing import Router
from rm_proxy.world import Announce, Completed, DropHeld, Effect, Granted, Returned, World
from shell.messages import ContainerEvent, EventKind

REMEMBERED_ENDS: Final = 20_000
"""Ends that are remembered per attempt, so that each container gets exactly one completion."""
GUARD_WAIT_S: Final = 10.0
"""How long a container may wait behind what waits for it before the deadlock guard sheds it."""

_LOST: Final = {EventKind.SHED, EventKind.LOST}


@dataclass(slots=True)
class _Answer:
    """The last answer as the application master got it, for the case that it asks for it again."""

    response_id: int
    rewritten: bytes | None


class Attempt:
    """The machine of one application attempt; requests and answers are serialised AllocateRequest/ResponseProtos."""

    def __init__(self, attempt_id: str, world: World) -> None:
        self.id = attempt_id
        self.app_id = ids.app_of_attempt(attempt_id)
        self.live = LiveContainers()
        self.table = AskTable()
        self.finished = False
        self.allocates = 0
        self.registered_answer: bytes | None = None
        """The ResourceManager's answer to the registration."""
        self._world = world
        self._router = Router(attempt_id, self.app_id, world, self.table, self.live)
        self._releases: list[y.ContainerIdProto] = []
        self._made: list[y.ContainerStatusProto] = []
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._last: _Answer | None = None
        self._answers = 0

    @property
    def app(self) -> AppView | None:
        """The application with all that this attempt holds and asked for; None while it is not known."""
        return self._router.app

    def take_effects(self) -> list[Effect]:
        """Return what is to be done beside the messages, and forget it."""
        effects, self._router.effects = self._router.effects, []
        return effects

    def _effect(self, effect: Effect) -> None:
        self._router.effects.append(effect)

    # Registration

    def on_registered(self, body: bytes) -> bytes | None:
        """Take in the answer to a registration; returns it rewritten, or None when it is to pass as it came.

        The application master forgets its asks with it and sends them anew; so does the ResourceManager.
        """
        answer = y.RegisterApplicationMasterResponseProto.FromString(body)
        self._start_over()
        self.registered_answer = body
        if answer.HasField("maximumCapability"):
            self._router.maximum = resources_of(answer.maximumCapability)
        changed = [self._restore(c) for c in answer.containers_from_previous_attempts]
        return answer.SerializeToString() if any(changed) else None

    def on_not_registered(self) -> None:
        """Take in that the ResourceManager does not know the attempt (it restarted): all asks will come again."""
        self._start_over()

    def _start_over(self) -> None:
        self.table = AskTable()
        old = self._router
        self._router = Router(self.id, self.app_id, self._world, self.table, self.live)
        self._router.maximum, self._router.effects = old.maximum, old.effects
        self._last = None

    def on_finished(self) -> None:
        """Take in that the application master unregistered: what the sidecars still hold of it is dropped."""
        self.finished = True
        self.drop_held("the application finished")

    def drop_held(self, reason: str) -> None:
        """Tell the sidecars to forget every start of this attempt that they hold."""
        for live in self.live:
            if live.kind is Kind.QUEUEABLE and not live.started:
                self._effect(DropHeld(live.node_id, live.id, reason))

    # Requests

    def on_allocate(self, body: bytes, now_s: float) -> bytes | None:
        """Take in a request; returns it rewritten for the ResourceManager, or None when it is to pass as it came."""
        self.allocates += 1
        request = y.AllocateRequestProto.FromString(body)
        if request.HasField("blacklist_request"):
            self._router.blacklist.update(request.blacklist_request.blacklist_additions)
            self._router.blacklist.difference_update(request.blacklist_request.blacklist_removals)
        changed = self._rewrite_releases(request) if request.release or self._releases else False
        if request.ask or self.table.open_queueables or self.table.dirty:
            changed = self._rewrite_asks(request, now_s) or changed
        return request.SerializeToString() if changed else None

    def _rewrite_asks(self, request: y.AllocateRequestProto, now_s: float) -> bool:
        touched = self.table.update(request.ask)
        for entry in touched:
            self._router.route(entry, now_s)
        self._router.steer_ungranted(now_s)
        self._router.place_wanted(now_s)
        ours = self.table.dirty or any(entry.mixed for entry in touched)
        rows = self.table.rows_for_rm()
        if not ours:
            return False
        del request.ask[:]
        request.ask.extend(rows)
        return True

    def _rewrite_releases(self, request: y.AllocateRequestProto) -> bool:
        """Drop releases of what has ended already for the application, add ours; tells whether that changed it."""
        kept = []
        for proto in request.release:
            container_id = ids.container_id_text(proto)
            if container_id in self._ended:
                continue
            kept.append(proto)
            live = self.live.get(container_id)
            if live is None:
                continue
            live.released = True
            if live.kind is Kind.QUEUEABLE:
                self._effect(DropHeld(live.node_id, live.id, "released by the application master"))
        if len(kept) == len(request.release) and not self._releases:
            return False
        kept = [*kept, *self._releases]
        self._releases = []
        del request.release[:]
        request.release.extend(kept)
        return True

    # Answers

    def on_answer(self, body: bytes, now_s: float) -> bytes | None:
        """Take in an answer; returns it rewritten for the application master, or None when it is to pass as it came."""
        answer = y.AllocateResponseProto.FromString(body)
        if self._last is not None and answer.response_id == self._last.response_id:
            return self._last.rewritten  # the ResourceManager repeats itself: so do we
        self._answers += 1
        changed = self._rewrite_allocated(answer, now_s)
        for previous in answer.containers_from_previous_attempts:
            changed = self._restore(previous) or changed
        changed = self._rewrite_completed(answer, now_s) or changed
        changed = self._rewrite_limit(answer) or changed
        for report in answer.updated_nodes:
            self._world.node_changed(ids.node_id_text(report.nodeId), report.node_state == y.NS_RUNNING)
        rewritten = answer.SerializeToString() if changed else None
        self._last = _Answer(answer.response_id, rewritten)
        return rewritten

    def _restore(self, container: y.ContainerProto) -> bool:
        """Give a container the request id and execution type that the application asked for."""
        private = container.allocation_request_id
        if not ids.is_private(private):
            return False
        container.allocation_request_id = ids.original_id(private)
        container.execution_type = y.OPPORTUNISTIC if ids.asked_opportunistic(private) else y.GUARANTEED
        return True

    def _rewrite_allocated(self, answer: y.AllocateResponseProto, now_s: float) -> bool:
        changed, unwanted = False, []
        for at, container in enumerate(answer.allocated_containers):
            private = container.allocation_request_id
            if not ids.is_private(private):
                self._guaranteed_arrived(container, now_s)
                continue
            changed = True
            refusal = self._queueable_arrived(container, private, now_s)
            if refusal is None:
                self._restore(container)
            else:
                unwanted.append(at)
                self._give_back(container, refusal)
        for at in reversed(unwanted):
            del answer.allocated_containers[at]
        return changed

    def _give_back(self, container: y.ContainerProto, reason: str) -> None:
        container_id = ids.container_id_text(container.id)
        self._releases.append(ids.copied(container.id))
        self._remember_end(container_id)
        self._effect(Returned(container_id, reason))

    def _guaranteed_arrived(self, container: y.ContainerProto, now_s: float) -> None:
        resources = resources_of(container.resource)
        priority = container.priority.priority
        entry = self.table.entry_of_guaranteed(priority, container.allocation_request_id, resources)
        reason = Reason("not asked for through quicksilver", now_s, 1)
        if entry is not None:
            host, rack = self._where(container.nodeId)
            reason = entry.take_g() or reason
            entry.decrement(host, rack)
            entry.decrement_told(host, rack)
            if entry.undecided < 0:
                self.table.shrink(entry, -entry.undecided)
        self._deliver(container, Kind.GUARANTEED, reason, None, now_s)

    def _queueable_arrived(self, container: y.ContainerProto, private: int, now_s: float) -> str | None:
        """Take in a container of a private id; returns None when the application gets it, or why it does not."""
        entry = self.table.entry_of(private, container.priority.priority, resources_of(container.resource))
        if entry is None:
            return "its ask is gone"
        q = self.table.by_private.get(private)
        if q is None:
            self.table.forget_parked(entry, private)
            reason = entry.take_q() or entry.take_g()
            if reason is None:
                return "it came after its ask was taken back"
        else:
            self.table.granted(q)
            reason = Reason(q.reason, q.asked_s, 1)
            refusal = self._elsewhere(q, container)
            if refusal is not None:
                entry.add_q(1, q.reason, q.asked_s)
                return refusal
        entry.decrement(*self._where(container.nodeId))
        self._deliver(container, Kind.QUEUEABLE, reason, q, now_s)
        return None

    def _elsewhere(self, q: QPlacement, container: y.ContainerProto) -> str | None:
        node_id = ids.node_id_text(container.nodeId)
        if node_id == q.node_id:
            return None
        node = self._world.node(node_id)
        if node is not None and q.ask.tier(node) is not None:
            return None
        return f"granted on {node_id} instead of {q.node_id}, where it may not go"

    def _where(self, node: y.NodeIdProto) -> tuple[str, str]:
        view = self._world.node(ids.node_id_text(node))
        return node.host, view.rack if view is not None else "/default-rack"

    def _deliver(
        self, container: y.ContainerProto, kind: Kind, reason: Reason, q: QPlacement | None, now_s: float
    ) -> None:
        app = self._router.app
        priority = container.priority.priority
        live = Live(
            ids.container_id_text(container.id),
            ids.copied(container.id),
            ids.node_id_text(container.nodeId),
            kind,
            priority,
            resources_of(container.resource),
            q.ask.expected_s if q else self._world.expected_s(app, priority) if app else 0.0,
            now_s,
            q.ask.retries if q else 0,
        )
        self.live.add(live)
        self._effect(Granted(granted(live, self.id, reason, q)))
        if kind is Kind.QUEUEABLE and app is not None:
            self._effect(Announce(live.node_id, announcement(live, self.id, app, self._world.hold_limit_s(app))))

    # Completions

    def _rewrite_completed(self, answer: y.AllocateResponseProto, now_s: float) -> bool:
        """Let each container end once, with a status that its framework reads as it was meant."""
        changed, doubled = False, []
        for at, status in enumerate(answer.completed_container_statuses):
            container_id = ids.container_id_text(status.container_id)
            if container_id in self._ended:
                doubled.append(at)
                continue
            live = self.live.pop(container_id)
            self._remember_end(container_id)
            changed = self._translate(status, live, now_s) or changed
        for at in reversed(doubled):
            del answer.completed_container_statuses[at]
        if self._made:
            answer.completed_container_statuses.extend(self._made)
            self._made = []
            changed = True
        return changed or bool(doubled)

    def _translate(self, status: y.ContainerStatusProto, live: Live | None, now_s: float) -> bool:
        was, exit_status, diagnostics = status.exit_status, status.exit_status, status.diagnostics
        app = self._world.app(self.app_id)
        if live is not None and live.kind is Kind.QUEUEABLE and app is not None:
            exit_status = exit_codes.translate(app.type, was, live.killed is not None, live.released)
        if live is not None and live.killed is not None:
            diagnostics = f"Preempted by quicksilver on {live.node_id}: {live.killed}. {diagnostics}"
        changed = exit_status != was or diagnostics != status.diagnostics
        if changed:
            status.exit_status, status.diagnostics = exit_status, diagnostics
            if live is not None:
                self._router.remember_loss(live.resources, live.retries)
        self._effect(
            Completed(
                CompletionRecord(
                    ids.container_id_text(status.container_id),
                    self.app_id,
                    exit_status,
                    was if exit_status != was else None,
                    diagnostics,
                    now_s,
                )
            )
        )
        return changed

    def _remember_end(self, container_id: str) -> None:
        self._ended[container_id] = None
        while len(self._ended) > REMEMBERED_ENDS:
            self._ended.popitem(last=False)

    def on_event(self, event: ContainerEvent, now_s: float) -> None:
        """Take in what a sidecar says of one of the containers; one that is not (or no longer) held is ignored."""
        live = self.live.get(event.container_id)
        if live is None:
            return
        if event.kind is EventKind.HELD:
            live.held_s = now_s
        elif event.kind is EventKind.STARTED:
            live.started = True
        elif event.kind is EventKind.KILLED:
            live.killed = event.reason or "room was needed"
        elif event.kind in _LOST:
            self._end_unstarted(live, self._preempted(), f"Not started by quicksilver: {event.reason}", now_s)
            self._router.remember_loss(live.resources, live.retries)
        elif event.kind is EventKind.FAILED:
            self._end_unstarted(live, exit_codes.LAUNCH_FAILED, f"NodeManager refused the start: {event.reason}", now_s)
        elif event.kind is EventKind.STOPPED:
            text = "Stopped by the application master before it started"
            self._end_unstarted(live, exit_codes.KILLED_BY_APPMASTER, text, now_s)

    def _preempted(self) -> int:
        app = self._world.app(self.app_id)
        return exit_codes.preempted_status(app.type if app else "")

    def _end_unstarted(self, live: Live, exit_status: int, diagnostics: str, now_s: float) -> None:
        """Make the completion of a container that never started, and give it back with the next request."""
        self.live.pop(live.id)
        self._remember_end(live.id)
        if not live.released:
            self._releases.append(live.proto)
        status = y.ContainerStatusProto(
            state=y.C_COMPLETE, diagnostics=diagnostics, exit_status=exit_status, executionType=y.GUARANTEED
        )
        status.container_id.CopyFrom(live.proto)
        status.capability.memory = live.resources.memory_mb
        status.capability.virtual_cores = int(live.resources.vcores)
        self._made.append(status)
        self._effect(Completed(CompletionRecord(live.id, self.app_id, exit_status, None, diagnostics, now_s, own=True)))

    def guard(self, now_s: float) -> None:
        """Shed held containers that wait behind containers of their own application that wait for them."""
        app = self._world.app(self.app_id)
        if app is None or app.type != "MAPREDUCE":
            return
        for live in self.live.behind_own(app.type, GUARD_WAIT_S, now_s):
            reason = "deadlock guard: it waited behind containers of its own application that wait for it"
            self._effect(DropHeld(live.node_id, live.id, reason))
            self._end_unstarted(live, self._preempted(), reason, now_s)
            self._router.remember_loss(live.resources, live.retries)

    # Headroom

    def _rewrite_limit(self, answer: y.AllocateResponseProto) -> bool:
        """Tell the application the headroom that its framework reckons with; the first answer stays untouched."""
        if self._answers < 2 or not answer.HasField("limit") or not self.live.count_q:
            return False
        app = self._router.app
        if app is None:
            return False
        limit = resources_of(answer.limit)
        told = self._world.policies.headroom(limit, app)
        if told == limit:
            return False
        set_resources(answer.limit, told)
        return True

    @property
    def entries(self) -> list[Entry]:
        """What the application wants now, for the REST API."""
        return list(self.table.entries.values())
