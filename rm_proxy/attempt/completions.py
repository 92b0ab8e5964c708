"""Completions of an application attempt's containers: exactly one for each, with the intended exit status."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from hadoop_rpc.messages import as_text
from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.effects import Completed, DropHeld, Effect, Returned
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from rm_proxy.attempt.snapshot import Snapshot, packed, packed_container, unpacked, unpacked_container
from rm_proxy.domain import exit_codes, ids
from rm_proxy.domain.records import CompletionRecord

REMEMBERED_ENDS: Final = 20_000
"""Ends that are remembered per attempt, so that each container gets exactly one completion."""

REMEMBERED_RELEASES: Final = 1000
"""Releases of the proxy's own, per attempt, that may have to be sent again."""

REMEMBERED_KILLS: Final = 1000
"""Kills of containers that were not known, per attempt, whose completions are awaited."""

TOLD_WITHIN_S: Final = 3.0
"""How long a container's end by a stop waits for its sidecar to say that the stop was its own."""

_LOST: Final = {EventKind.SHED, EventKind.LOST}


class OwnReleases:
    """Containers that the proxy itself releases, until the ResourceManager reports their ends."""

    def __init__(self) -> None:
        self.to_send: list[y.ContainerIdProto] = []
        """Those that the next request has to carry."""
        self._sent: list[y.ContainerIdProto] = []
        """Those of the request that is not answered yet."""
        self._unconfirmed: OrderedDict[str, y.ContainerIdProto] = OrderedDict()
        """Those that were sent, until the container's end is reported."""

    @property
    def busy(self) -> bool:
        """Whether any has no answer."""
        return bool(self._sent or self.to_send)

    @property
    def open(self) -> list[y.ContainerIdProto]:
        """All without an answer, for the journal."""
        return [*self._sent, *self.to_send]

    def add(self, *containers: y.ContainerIdProto) -> None:
        """Release containers with the next request."""
        self.to_send.extend(containers)

    def repeat_all(self) -> None:
        """Repeat all whose ends were not reported: the ResourceManager was restarted.

        It recovers every container that runs, released or not (AMRMClient does the same with its own releases).
        """
        again = self._unconfirmed | {ids.container_id_text(proto): proto for proto in self.to_send}
        self.to_send, self._sent = list(again.values()), []

    def send(self) -> list[y.ContainerIdProto]:
        """Return those of the request in hand."""
        sending, self.to_send = self.to_send, []
        self._sent = [*self._sent, *sending]
        self._unconfirmed |= {ids.container_id_text(proto): proto for proto in sending}
        while len(self._unconfirmed) > REMEMBERED_RELEASES:
            self._unconfirmed.popitem(last=False)
        return sending

    def answered(self) -> None:
        """Note that the last request was answered: its releases have arrived."""
        self._sent = []

    def ended(self, container_id: str) -> None:
        """Note that the ResourceManager reported an end."""
        self._unconfirmed.pop(container_id, None)

    def clear(self) -> None:
        """Forget everything: the application is over."""
        self.to_send, self._sent = [], []
        self._unconfirmed.clear()


class Completions:
    """The ResourceManager's completions, the proxy's own completions, and the proxy's own releases.

    lost: called with a queueable container that has to be asked for again.
    """

    def __init__(
        self,
        app_id: str,
        world: ClusterView,
        live: HeldContainers,
        emit: Callable[[Effect], None],
        lost: Callable[[HeldContainer], None],
    ) -> None:
        self._app_id, self._world, self._live, self._emit, self._lost = app_id, world, live, emit, lost
        self.releases = OwnReleases()
        self._own_ends: list[y.ContainerStatusProto] = []
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._stopped: dict[str, tuple[y.ContainerStatusProto, HeldContainer, float]] = {}
        """Completions after a stop whose origin is not known yet, with the time."""
        self.unjournaled: dict[str, None] = {}
        """Ends since the attempt was last journaled."""
        self._killed_before: OrderedDict[str, HeldContainer] = OrderedDict()
        """Containers that were killed before this proxy knew of them; their completions are still to come."""
        self.delivered_ids: frozenset[str] = frozenset()
        """Containers whose completions stand in the last answer that had any."""
        self.unheard: set[str] = set()
        """Containers whose end a sidecar reported, and whose completion the application has not confirmed yet."""

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._ended

    def clear(self) -> None:
        """Forget everything: the application is over."""
        self.releases.clear()
        self._own_ends.clear()
        self._ended.clear()
        self._stopped.clear()
        self._killed_before.clear()
        self.unheard.clear()

    def is_untold(self, container_id: str) -> bool:
        """Return whether a container is over, but not reported to the application before its stopper is known."""
        return container_id in self._stopped

    # Requests

    @property
    def to_tell(self) -> bool:
        """Whether the next answer has to carry completions that the proxy made."""
        return bool(self._own_ends)

    def rewrite_releases(self, request: y.AllocateRequestProto) -> bool:
        """Drop releases of containers that ended already for the application, add ours; returns whether it changed."""
        releases = []
        for proto in request.release:
            container_id = ids.container_id_text(proto)
            if container_id in self._ended:
                continue
            releases.append(proto)
            live = self._live.get(container_id)
            if live is None:
                continue
            live.released = True
            self._live.touch(container_id)
            if live.kind is Kind.QUEUEABLE:
                self._emit(DropHeld(live.node_id, live.id, "released by the application master"))
        if len(releases) == len(request.release) and not self.releases.to_send:
            return False
        releases += self.releases.send()
        del request.release[:]
        request.release.extend(releases)
        return True

    def give_back(self, container: y.ContainerProto, reason: str) -> None:
        """Release a container that the application does not get to see; no completion of it will be seen either."""
        container_id = ids.container_id_text(container.id)
        self.releases.add(ids.copied(container.id))
        self.remember(container_id)
        self._emit(Returned(container_id, reason))

    def release_unseen(self, container: y.ContainerIdProto) -> None:
        """Release a container that neither the application nor, perhaps, the ResourceManager has heard of."""
        self.releases.add(ids.copied(container))
        self.remember(ids.container_id_text(container))

    # Journal

    @property
    def open(self) -> bool:
        """Whether there are completions to report, releases to send, or stops of unknown origin."""
        return bool(self._own_ends or self.releases.busy or self._stopped)

    def note(self) -> dict[str, Any]:
        """Return open completions, releases and stops for the journal."""
        return {
            "made": [packed(status) for status in self._own_ends],
            "out": [packed(proto) for proto in self.releases.open],
            "stopped": [
                {"status": packed(status), "live": packed_container(live), "at_s": at_s}
                for status, live, at_s in self._stopped.values()
            ],
        }

    @property
    def ended(self) -> list[str]:
        """The ends that are remembered, the oldest first."""
        return list(self._ended)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state that an earlier process journaled."""
        self._ended = OrderedDict.fromkeys(snapshot.ended)
        self._own_ends = [y.ContainerStatusProto.FromString(unpacked(text)) for text in snapshot.open.get("made", ())]
        self.releases.add(*(y.ContainerIdProto.FromString(unpacked(text)) for text in snapshot.open.get("out", ())))
        for text in snapshot.minted.values():
            self.release_unseen(y.ContainerIdProto.FromString(unpacked(text)))
        for stopped in snapshot.open.get("stopped", ()):
            live = unpacked_container(stopped["live"])
            status = y.ContainerStatusProto.FromString(unpacked(stopped["status"]))
            self._stopped[live.id] = status, live, stopped["at_s"]

    # Answers

    def rewrite_completed(self, answer: y.AllocateResponseProto, now_s: float) -> bool:
        """Let each container end once, with an exit status that its framework understands as intended."""
        changed, doubled, ended_ids = False, [], []
        for at, status in enumerate(answer.completed_container_statuses):
            container_id = ids.container_id_text(status.container_id)
            self.releases.ended(container_id)
            if container_id in self._ended:
                doubled.append(at)
                continue
            live = self._live.pop(container_id) or self._killed_before.pop(container_id, None)
            self.remember(container_id)
            if live is not None and live.may_be_held:
                self._emit(DropHeld(live.node_id, live.id, "YARN ended it before it started"))
            if live is not None and live.killed is not None:
                self.unheard.add(container_id)
            if live is not None and _whose(status, live):
                self._stopped[container_id] = _copied(status), live, now_s
                doubled.append(at)
                continue
            ended_ids.append(container_id)
            changed = self._translate(container_id, status, live, now_s) or changed
        for at in reversed(doubled):
            del answer.completed_container_statuses[at]
        if self._own_ends:
            answer.completed_container_statuses.extend(self._own_ends)
            ended_ids += [ids.container_id_text(status.container_id) for status in self._own_ends]
            self._own_ends = []
            changed = True
        self.delivered_ids = frozenset(ended_ids)
        return changed or bool(doubled)

    def settle(self, now_s: float) -> None:
        """Report stopped containers that no sidecar claimed in time: the application stopped them itself."""
        for container_id in [c for c, (_, _, at_s) in self._stopped.items() if now_s - at_s >= TOLD_WITHIN_S]:
            self._tell_stopped(container_id, now_s)

    def _tell_stopped(self, container_id: str, now_s: float) -> None:
        status, live, _ = self._stopped.pop(container_id)
        self._translate(container_id, status, live, now_s)
        self.unheard.add(container_id)
        self._own_ends.append(status)

    def tell_again(self, statuses: list[y.ContainerStatusProto]) -> None:
        """Repeat completions that the application did not get and that YARN may not send again."""
        self._own_ends = [*statuses, *self._own_ends]

    def _translate(
        self, container_id: str, status: y.ContainerStatusProto, live: HeldContainer | None, now_s: float
    ) -> bool:
        was, exit_status, diagnostics = status.exit_status, status.exit_status, as_text(status.diagnostics)
        app = self._world.apps.app(self._app_id)
        killed = live is not None and live.killed is not None
        if live is not None and (live.kind is Kind.QUEUEABLE or killed) and app is not None:
            exit_status = exit_codes.translate(app.type, was, killed, live.released)
            if killed:
                diagnostics = f"Preempted by quicksilver on {live.node_id}: {live.killed}. {diagnostics}"
            if not live.released and (killed or exit_codes.by_the_system(was)):
                self._lost(live)
        changed = exit_status != was or diagnostics != status.diagnostics
        if changed:
            status.exit_status, status.diagnostics = exit_status, diagnostics
        original = was if exit_status != was else None
        self._emit(Completed(CompletionRecord(container_id, self._app_id, exit_status, original, diagnostics, now_s)))
        return changed

    def remember(self, container_id: str) -> None:
        """Note that a container is over for the application: nothing more is reported of it."""
        self._ended[container_id] = self.unjournaled[container_id] = None
        while len(self._ended) > REMEMBERED_ENDS:
            self._ended.popitem(last=False)

    # Events of the nodes

    def killed_before(self, live: HeldContainer) -> None:
        """Note that an unknown container was killed; its completion will be reported as a kill."""
        self._killed_before[live.id] = live
        while len(self._killed_before) > REMEMBERED_KILLS:
            self._killed_before.popitem(last=False)

    def on_event(self, event: ContainerEvent, now_s: float) -> None:
        """Handle a sidecar's event of a container; one that is not (or no longer) held is ignored."""
        live = self._live.get(event.container_id)
        if live is None:
            if event.container_id in self._stopped and event.kind in (EventKind.KILLED, EventKind.ENDED):
                if event.kind is EventKind.KILLED:
                    self._stopped[event.container_id][1].killed = event.reason or "room was needed"
                self._tell_stopped(event.container_id, now_s)
            return
        self._live.touch(live.id)
        if event.kind is EventKind.HELD:
            live.hold(now_s)
        elif event.kind is EventKind.STARTED:
            live.start(now_s if live.started_s is None else None)  # a sidecar may report it to two processes
        elif event.kind is EventKind.KILLED:
            live.killed = event.reason or "room was needed"
        elif event.kind in _LOST:
            self.preempt(live, f"Not started by quicksilver: {event.reason}", now_s)
        elif event.kind is EventKind.FAILED:
            self._end(live, exit_codes.LAUNCH_FAILED, f"NodeManager refused the start: {event.reason}", now_s)
        elif event.kind is EventKind.STOPPED:
            text = "Stopped by the application master before it started"
            self._end(live, exit_codes.KILLED_BY_APPMASTER, text, now_s)

    def give_up(self, container_id: str) -> None:
        """Release a container that its sidecar killed and cannot stop, once; its completion is YARN's."""
        live = self._live.get(container_id)
        if live is None or live.released or live.given_up:
            return
        live.given_up = True
        self._live.touch(container_id)
        live.killed = live.killed or "room was needed"
        self.releases.add(live.proto)

    def preempt(self, live: HeldContainer, diagnostics: str, now_s: float) -> None:
        """End a container that never started in a way that makes the application ask again."""
        app = self._world.apps.app(self._app_id)
        self._end(live, exit_codes.preempted_status(app.type if app else ""), diagnostics, now_s)
        if not live.released:
            self._lost(live)

    def _end(self, live: HeldContainer, exit_status: int, diagnostics: str, now_s: float) -> None:
        """Make the completion of a container that never started, and give it back with the next request."""
        self._live.pop(live.id)
        self.remember(live.id)
        if not live.released:
            self.releases.add(live.proto)
        status = y.ContainerStatusProto(
            state=y.C_COMPLETE,
            diagnostics=f"{diagnostics}\n",  # a line of its own, like all diagnostics of the NodeManager
            exit_status=exit_status,
            executionType=y.GUARANTEED,
        )
        status.container_id.CopyFrom(live.proto)
        status.capability.memory = live.resources.memory_mb
        status.capability.virtual_cores = int(live.resources.vcores)
        self._own_ends.append(status)
        self.unheard.add(live.id)
        self._emit(Completed(CompletionRecord(live.id, self._app_id, exit_status, None, diagnostics, now_s, own=True)))


def _copied(status: y.ContainerStatusProto) -> y.ContainerStatusProto:
    copy = y.ContainerStatusProto()
    copy.CopyFrom(status)
    return copy


def _whose(status: y.ContainerStatusProto, live: HeldContainer) -> bool:
    """Return whether the stopper of a container is still unknown: its application, or the sidecar to make room.

    The ResourceManager's answer may come before the sidecar's report.
    """
    stopped = status.exit_status == exit_codes.KILLED_BY_APPMASTER
    return stopped and live.kind is Kind.QUEUEABLE and live.killed is None and not live.released
