"""The node's containers as a machine: who runs, who waits, who has to go. Events in, commands out.

Guaranteed first (Mercury, ATC '15, §3): a guaranteed start never waits in the queue; queueable containers that stand in
its way are killed and seen gone before it is let through. A queueable container starts when there is room: memory and
vcores of the node less what was sent to the NodeManager, and physical memory. Its application master was told "started"
all the while.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from policies.model import ContainerView, Resources
from quicksilver.common.messages import EventKind
from sidecar.cpu_sharing.events import Ready, Resized, Served, Squeezed
from sidecar.node.container import (
    FOREIGN,
    GUARANTEED,
    QUEUEABLE,
    Entry,
    Phase,
    Rules,
    app_of_attempt,
    is_earlier,
    is_forged,
)
from sidecar.node.events import (
    Adopted,
    Answered,
    Arrived,
    Command,
    Doubtful,
    Drain,
    Dropped,
    Dying,
    Ended,
    Event,
    Forced,
    Forward,
    Granted,
    Hold,
    Kill,
    KillAsked,
    KillOver,
    Launch,
    NodeManagerState,
    Outcome,
    Physical,
    Retuned,
    SessionLost,
    SessionUp,
    Settled,
    Start,
    StopAsked,
    Targeted,
    Tick,
    Unlaunched,
    Warn,
    Watch,
    Withdrawn,
)
from sidecar.node.forecast import job_of
from sidecar.node.recovery import Restored, TakeOver
from sidecar.node.sharing import Sharing
from sidecar.node.waiting_queue import BypassLimit, OrderKey, Steady, Waiting

Victims = Callable[[Resources, Sequence[ContainerView], float], list[str]]
"""What must come free, the running queueable containers, and the time to the ids that have to go."""

_FORGERS_MAX: Final = 1000


class Node(TakeOver):
    """One node. `handle(event)` is the only way in; what the book holds is there to be read."""

    def __init__(
        self,
        rules: Rules,
        order_key: OrderKey,
        victims: Victims,
        sharing: Sharing | None = None,
        bypass_limit: BypassLimit | None = None,
        steady: Steady = lambda: None,
        grace_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Prepare. grace_s: how long a guaranteed start waits for queueable containers that are about to end."""
        super().__init__(rules, order_key, sharing, bypass_limit, steady)
        self._victims, self._grace_s = victims, grace_s
        self.forgers: OrderedDict[str, float] = OrderedDict()
        """Attempts whose tokens the NodeManager called forged: nothing is killed any more for what theirs claim."""

    def deadline_s(self) -> float | None:
        """Return when the machine wants a Tick at the latest."""
        wanted = (super().deadline_s(), self.sharing.deadline_s(), self.targets_until_s())
        times = [t for t in wanted if t is not None]
        return min(times, default=None)

    def handle(self, event: Event | Restored) -> list[Command]:
        """Take in what happened; return what to do, in order."""
        self._out = []
        self._take(event)
        self._let_through(event.now_s)
        self._fill(event.now_s)
        return self._out

    def _take(self, event: Event | Restored) -> None:
        now_s = event.now_s
        match event:
            case Restored():
                self._restored(event)
            case Granted():
                self._granted(event)
            case Dropped():
                for container_id in event.container_ids:
                    self._dropped(container_id, event.reason, now_s)
            case Arrived():
                self._arrived(event.start, now_s)
            case Withdrawn():
                self._withdrawn(event.container_id)
            case Answered():
                self._answered(event)
            case Ended():
                self._ended(event.container_id, now_s)
            case KillOver():
                self._kill_over(event)
            case StopAsked():
                self._give_up(event.container_id, EventKind.STOPPED, "stopped by the application master", now_s)
            case Forced():
                self._forced(event.container_id, now_s)
            case SessionUp():
                self._session_up(event.attempt_id, now_s)
            case SessionLost():
                self._session_lost(event.attempt_id, now_s)
            case Adopted():
                self._adopted(event)
            case Doubtful():
                self._cleared_up(event)
            case Unlaunched():
                self._unlaunched(event)
            case KillAsked():
                self._kill_asked(event)
            case Dying():
                self._let_go(event.container_id, now_s)
            case Ready() | Served() | Resized():
                self._out.extend(self.sharing.handle(event))
            case Physical() | Targeted() | Retuned() | Drain() | NodeManagerState() | Squeezed() | Tick():
                self._take_of_node(event)

    def _take_of_node(self, event: Physical | Targeted | Retuned | Drain | NodeManagerState | Squeezed | Tick) -> None:
        """Take in what is about the node and none of its containers."""
        match event:
            case Physical():
                self.free_physical_mb = event.free_mb
            case Targeted():
                self._targeted(event)
            case Retuned():
                self.retune(event.shrinking)
                self._out.extend(self.sharing.retune(event.shrinking, event.now_s))
            case Drain():
                self._drain(event)
            case NodeManagerState():
                self.nm_down = event.why
            case Squeezed():
                self.squeezed = event.why if event.on else ""
                self._out.extend(self.sharing.handle(event))
            case Tick():
                self._tick(event.now_s)
                self._out.extend(self.sharing.turn(event.now_s))

    # What the proxy says

    def _granted(self, event: Granted) -> None:
        for grant in event.grants:
            entry = self.entries.get(grant.container_id)
            if grant.container_id in self.over or (entry is not None and entry.phase is not Phase.UNANNOUNCED):
                continue  # its start has come before
            self.announced.pop(grant.container_id, None)
            self.announced[grant.container_id] = (grant, event.now_s)
            self._mark(grant.container_id)
            if entry is not None:
                self._decide_opportunistic(entry, event.now_s)
        while len(self.announced) > self.rules.announced_max:
            oldest = next(iter(self.announced))
            del self.announced[oldest]
            self._mark(oldest)
            self._out.append(Warn(oldest, f"more than {self.rules.announced_max} announced: the oldest is forgotten"))

    def _dropped(self, container_id: str, reason: str, now_s: float) -> None:
        grant, _ = self.announced.pop(container_id, (None, 0.0))
        if grant is not None:
            self._mark(container_id)
            self.unwanted[container_id] = grant, reason or "dropped by the proxy", now_s
            if len(self.unwanted) > self.rules.announced_max:
                del self.unwanted[next(iter(self.unwanted))]
        entry = self.entries.get(container_id)
        if entry is not None and entry.phase is Phase.STARTING and entry.kind == QUEUEABLE:
            entry.kill_reason, entry.kill_cause = reason or "dropped by the proxy", "proxy"
            self._mark(container_id)
        else:
            self._give_up(container_id, EventKind.STOPPED, reason or "dropped by the proxy", now_s)

    # Starts

    def _arrived(self, start: Start, now_s: float) -> None:
        known = self.entries.get(start.container_id)
        if known is not None and known.phase not in (Phase.UNANNOUNCED, Phase.ROOM):
            again = known.kind == QUEUEABLE and known.phase in (Phase.WAITING, Phase.STARTING)
            self._out.append(Hold(start.container_id) if again else Forward(start.container_id))
            return
        if known is not None:
            return  # the decision on the first one answers both
        if start.container_id in self.over:
            self._out.append(Hold(start.container_id))  # its end was told: only the answer was lost
            return
        kind = FOREIGN if start.opportunistic else GUARANTEED
        entry = Entry(start, kind, Phase.UNANNOUNCED, arrived_s=now_s, since_s=now_s, payload=start.payload)
        self.entries[entry.id] = entry
        if start.opportunistic:
            entry.until_s = now_s + self.rules.announce_wait_s
            self._decide_opportunistic(entry, now_s)
        else:
            self._make_room(entry, now_s)

    def _decide_opportunistic(self, entry: Entry, now_s: float) -> None:
        """Hold what the proxy announced; the rest goes on waiting for an announcement."""
        grant, _ = self.announced.get(entry.id, (None, 0.0))
        if grant is None:
            self._decide_unwanted(entry, now_s)
            return
        start = entry.start
        if not grant.app_id == start.app_id == app_of_attempt(start.attempt_id):
            self._out.append(Warn(entry.id, f"its start came on a session of {start.attempt_id or 'nobody'}: not held"))
            self._forward(entry, now_s)
            return
        del self.announced[entry.id]
        entry.kind, entry.grant = QUEUEABLE, grant
        self._out.append(Hold(entry.id))
        refusal = self._refusal(entry)
        if refusal:
            self._finish(entry, EventKind.SHED, refusal, now_s, "drain" if self.draining else "full")
            return
        entry.until_s = min(start.expires_s - self.rules.expiry_margin_s, entry.arrived_s + grant.max_hold_s)
        entry.enter(Phase.WAITING, now_s)
        self.queue.add(Waiting(entry.view(), start.attempt_id, entry.until_s, len(entry.payload)))
        self._mark(entry.id)
        self._tell(entry, EventKind.HELD, "", now_s)

    def _decide_unwanted(self, entry: Entry, now_s: float) -> None:
        """Take a start that nobody waits for any more, as its application has been told its end; nothing starts."""
        grant, reason, _ = self.unwanted.get(entry.id, (None, "", 0.0))
        if grant is not None and grant.app_id == entry.start.app_id == app_of_attempt(entry.start.attempt_id):
            entry.kind, entry.grant = QUEUEABLE, grant
            self._out.append(Hold(entry.id))
            self._finish(entry, EventKind.STOPPED, reason, now_s)

    def _refusal(self, entry: Entry) -> str | None:
        """Return why this start cannot be held at all."""
        if self.draining:
            return self.draining
        capacity = self.rules.capacity
        need = entry.start.resources
        if need.memory_mb > capacity.memory_mb or (self.rules.count_vcores and need.vcores > capacity.vcores):
            size = f"{need.memory_mb} MB, {need.vcores:g} vcores"
            return f"it never fits: {size} wanted, the node has {capacity.memory_mb} MB, {capacity.vcores:g} vcores"
        return self.queue.refusal(len(entry.payload))

    def _make_room(self, entry: Entry, now_s: float) -> None:
        """Let a guaranteed start through, after those queueable containers that it needs away were killed."""
        if entry.start.attempt_id in self.forgers:
            self._forward(entry, now_s)
            return
        entry.until_s = now_s + self.rules.kill_wait_s
        need = self.short_for_guaranteed(self.free() + self.leaving(), entry.start.resources)
        entry.enter(Phase.ROOM, now_s)
        self._kill_for(entry, self._await_ends(entry, need, now_s), now_s)

    def _await_ends(self, entry: Entry, need: Resources, now_s: float) -> Resources:
        """Have a guaranteed start wait for those that end soon, the next to end first; return what they leave short."""
        grace_s = self._grace_s()
        if need == Resources() or grace_s <= 0:
            return need
        lefts = ((job_of(self, e, now_s, 0.0).remaining_s(), e.id, e) for e in self.using() if self.killable(e))
        for left_s, _, ending in sorted((each for each in lefts if not each[2].awaited_by), key=lambda each: each[:2]):
            if left_s > grace_s or need == Resources():
                break
            ending.awaited_by, entry.patient, entry.until_s = entry.id, True, now_s + grace_s
            room = ending.start.resources
            need = Resources(max(0, need.memory_mb - room.memory_mb), max(0, need.vcores - room.vcores))
        return need

    def _kill_for(self, entry: Entry, need: Resources, now_s: float) -> None:
        """Kill what has to go for a guaranteed start; what may stay, or is awaited, stays."""
        if need == Resources():
            return  # _let_through decides
        candidates = [e for e in self.using() if self.killable(e) and not e.awaited_by]
        chosen = self._victims(need, [self.sharing.view(e) for e in candidates], now_s)
        if not chosen:
            size = f"{need.memory_mb} MB, {need.vcores:g} vcores"
            self._out.append(Warn(entry.id, f"no queueable container can make room for it ({size} short): passed on"))
            self._forward(entry, now_s)
            return
        for container_id in chosen:
            self._kill(self.entries[container_id], f"makes room for {entry.id}", "room", now_s)

    def _let_through(self, now_s: float) -> None:
        """Forward the guaranteed starts, oldest first, that have their room."""
        for entry in [e for e in self.entries.values() if e.phase is Phase.ROOM]:
            short = self.short_for_guaranteed(self.rules.capacity - self.used(), entry.start.resources)
            leaving = any(e.kill_reason or e.awaited_by for e in self.using())
            if short == Resources() or not leaving:
                self._forward(entry, now_s)
            elif now_s >= entry.until_s and not self._grace_over(entry, now_s):
                waited = f"{now_s - entry.since_s:.1f} s"
                self._out.append(Warn(entry.id, f"room was not made within {waited}: passed on all the same"))
                self._forward(entry, now_s)
            else:
                return

    def _grace_over(self, entry: Entry, now_s: float) -> bool:
        """Kill those that were to end by now, and wait for that; False when none were."""
        if not entry.patient:
            return False
        late = [e for e in self.using() if e.awaited_by == entry.id and self.killable(e)]
        self._await_no_more(entry)
        entry.until_s = now_s + self.rules.kill_wait_s
        for each in late:
            self._kill(each, f"makes room for {entry.id}, and did not end in time", "room", now_s)
        return True

    def _await_no_more(self, guaranteed: Entry) -> None:
        if guaranteed.patient:
            guaranteed.patient = False
            for entry in self.entries.values():
                if entry.awaited_by == guaranteed.id:
                    entry.awaited_by = ""

    def _forward(self, entry: Entry, now_s: float) -> None:
        self._await_no_more(entry)
        entry.enter(Phase.STARTING, now_s)
        entry.sent_s, entry.payload = now_s, b""
        self._mark(entry.id)
        self._out.extend(self.sharing.join(entry, now_s))
        self._out.append(Forward(entry.id))
        self._out.append(Watch(entry.id, entry.start.app_id))

    def _fill(self, now_s: float) -> None:
        """Start the queue's head as long as it fits; nobody overtakes it."""
        while (head := self.queue.head(now_s)) is not None:
            if self.obstacle(head.view.resources, now_s):
                return
            self._launch(self.entries[head.view.id], now_s)

    def _launch(self, entry: Entry, now_s: float) -> None:
        self.queue.launch(entry.id)
        entry.enter(Phase.STARTING, now_s)
        entry.sent_s, payload, entry.payload = now_s, entry.payload, b""
        self._mark(entry.id)
        self._out.extend(self.sharing.join(entry, now_s))
        self._out.append(Launch(entry.id, entry.start.attempt_id, payload))
        self._out.append(Watch(entry.id, entry.start.app_id))

    def _withdrawn(self, container_id: str) -> None:
        entry = self.entries.get(container_id)
        if entry is not None and entry.phase in (Phase.UNANNOUNCED, Phase.ROOM):
            self._await_no_more(entry)
            del self.entries[container_id]

    def _answered(self, event: Answered) -> None:
        entry = self.entries.get(event.container_id)
        if entry is None or entry.phase is not Phase.STARTING:
            return
        if event.outcome is not Outcome.STARTED and is_forged(event.text):
            self.forgers[entry.start.attempt_id] = event.now_s
            while len(self.forgers) > _FORGERS_MAX:
                self.forgers.popitem(last=False)
        if event.outcome is not Outcome.STARTED and entry.kind != QUEUEABLE:
            self._answered_badly(entry, event)
            return
        if event.outcome is not Outcome.STARTED:
            kind = EventKind.LOST if event.outcome is Outcome.LOST else EventKind.FAILED
            self._finish(entry, kind, event.text, event.now_s)
            return
        entry.enter(Phase.RUNNING, event.now_s)
        entry.started_s, entry.doubtful = event.now_s, False
        self._mark(entry.id)
        self._tell(entry, EventKind.STARTED, event.text, event.now_s)
        if entry.kind == QUEUEABLE:
            self._out.append(Settled(entry.id))
        if entry.process_gone:
            self._finish(entry, EventKind.ENDED, "", event.now_s)
        elif entry.kill_reason:
            self._kill(entry, entry.kill_reason, entry.kill_cause, event.now_s)

    def _answered_badly(self, entry: Entry, event: Answered) -> None:
        """Forget a start that its application master knows to have failed; a lost answer may hide a success."""
        if event.outcome is Outcome.REFUSED:
            self._forget(entry, event.now_s)
            return
        entry.enter(Phase.RUNNING, event.now_s)
        entry.started_s, entry.doubtful = event.now_s, False
        self._mark(entry.id)
        self._out.append(Warn(entry.id, f"{event.text}: counted as started until the NodeManager says otherwise"))

    def _forced(self, container_id: str, now_s: float) -> None:
        entry = self.entries.get(container_id)
        if entry is not None and entry.phase is Phase.WAITING:
            self._launch(entry, now_s)

    # Sessions and time

    def _session_up(self, attempt_id: str, now_s: float) -> None:
        """Kill what could not be killed for want of a session; starts of an earlier attempt are not wanted any more."""
        self.sessions.add(attempt_id)
        for entry in self.entries.values():
            if entry.phase is Phase.KILLING and entry.kill_over and entry.start.attempt_id == attempt_id:
                entry.kill_over = False
                self._out.append(Kill(entry.id, attempt_id))
        for waiting in [w for w in self.queue if is_earlier(w.attempt_id, attempt_id)]:
            self._give_up(waiting.view.id, EventKind.LOST, f"{attempt_id} has begun meanwhile", now_s)

    def _session_lost(self, attempt_id: str, now_s: float) -> None:
        self.sessions.discard(attempt_id)
        for waiting in [w for w in self.queue if w.attempt_id == attempt_id]:
            self._give_up(waiting.view.id, EventKind.LOST, "the session with the NodeManager was lost", now_s)

    def _tick(self, now_s: float) -> None:
        until_s = self.targets_until_s()
        if until_s is not None and until_s <= now_s:
            self.targets = None
            self._out.append(Warn("", "the proxy has said nothing for too long: its limits hold no more"))
        for waiting in self.queue.expired(now_s):
            waited = now_s - waiting.view.arrived_s
            why = f"hold limit reached after {waited:.1f} s"
            self._give_up(waiting.view.id, EventKind.SHED, why, now_s, "hold")
        for entry in list(self.entries.values()):
            if entry.phase is Phase.UNANNOUNCED and entry.until_s <= now_s:
                self._forward(entry, now_s)
        for container_id, (_, since_s) in list(self.announced.items()):
            if since_s + self.rules.announce_keep_s > now_s:
                break
            del self.announced[container_id]
            self._mark(container_id)
        for container_id in [c for c, (*_, s) in self.unwanted.items() if s + self.rules.announce_keep_s <= now_s]:
            del self.unwanted[container_id]
        self._forget_over(now_s)
