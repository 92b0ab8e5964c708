"""One application attempt as the proxy follows it. It outlives connections."""

from __future__ import annotations

from functools import partial
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import AppView, Kind
from rm_proxy.attempt.allocate_exchange import AllocateExchange, Parts
from rm_proxy.attempt.asks.ask_table import AskEntry, AskTable, give_up
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.completions import Completions
from rm_proxy.attempt.delivery.allocations import Allocations
from rm_proxy.attempt.delivery.container_events import ContainerEvents
from rm_proxy.attempt.early_answers import EarlyAnswers
from rm_proxy.attempt.effects import DropHeld, Effect, TooLarge
from rm_proxy.attempt.held_containers import HeldContainers
from rm_proxy.attempt.own_grants import OwnGrants
from rm_proxy.attempt.promotion_requests import Promotions
from rm_proxy.attempt.registration.registration import AttemptEvent, AttemptState, Registration
from rm_proxy.attempt.registration.resync import Resync
from rm_proxy.attempt.routing.router import Router
from rm_proxy.attempt.routing.steering import Steering
from rm_proxy.attempt.snapshot import (
    Note,
    Snapshot,
    packed_undelivered,
    unpacked,
    unpacked_answer,
    unpacked_container,
    unpacked_undelivered,
)
from rm_proxy.attempt.snapshot_changes import SnapshotChanges, given_up, minted_note
from rm_proxy.domain.resources import resources_of

_SERIAL_START: Final = 1 << 29
"""Private ids start at a random number below it, so that those of an earlier proxy process are not met again."""


class Attempt:
    """One application attempt: its registration and its parts.

    `exchange` handles allocate requests and answers, `containers` what sidecars report of its containers, `router`
    decides between guaranteed and queueable.
    """

    def __init__(self, attempt_id: str, world: ClusterView) -> None:
        self.registration = Registration(attempt_id)
        self.id, self.app_id = attempt_id, self.registration.app_id
        self.live = HeldContainers()
        self.table = AskTable(world.rng.randrange(_SERIAL_START))
        self._world = world
        self._effects: list[Effect] = []
        self._effect = self._effects.append
        emit = self._effect
        self.promotion = Promotions(self.app_id, world, self.live, emit)
        self.router = Router(attempt_id, world, self.table, self.live, self.promotion, emit)
        self._steering = Steering(world, self.table, self.router, emit)
        self._ends = Completions(self.app_id, world, self.live, emit, self.router.remember_loss)
        self._arrivals = Allocations(
            world, self.registration, self.router, self._steering, self.table, self.live, self._ends, emit
        )
        self.notebook = SnapshotChanges(self.live, self._ends)
        self.containers = ContainerEvents(self.registration, world, self.live, self.router, self._ends, emit)
        self.own_grants = OwnGrants(attempt_id, world, self.table, self.live, self._ends, self.notebook)
        parts = Parts(
            self.registration,
            world,
            self.table,
            self.live,
            self.router,
            self._steering,
            self._ends,
            self._arrivals,
            self.own_grants,
            self.promotion,
            self.notebook,
            self.containers,
            emit,
            partial(_give_up, self),
        )
        self.exchange = AllocateExchange(parts)
        self.early = EarlyAnswers(parts, self.exchange)

    def take_effects(self) -> list[Effect]:
        """Return the effects that are due beside the messages, and forget them."""
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    @property
    def has_news(self) -> bool:
        """Whether there are effects or changes for the journal that go with the next message."""
        return bool(self._effects) or self.notebook.has_changes

    @property
    def finished(self) -> bool:
        """Whether the attempt is over."""
        return self.registration.state is AttemptState.FINISHED

    @property
    def app(self) -> AppView | None:
        """The application with everything that this attempt holds and asked for; None while it is not known."""
        return self.router.app

    @property
    def entries(self) -> list[AskEntry]:
        """Containers that the application wants now, for the REST API."""
        return list(self.table.entries.values())

    @property
    def at_rest(self) -> bool:
        """Whether an exchange that is empty in both directions would change nothing."""
        return not self._effects and self.exchange.at_rest

    def reconsider(self, routes: bool) -> None:
        """Decide anew on undelivered containers, because settings changed; see `Router.reconsider`."""
        if not self.finished:
            self.router.reconsider(routes)

    # Registration

    def on_registered(self, body: bytes, now_s: float) -> bytes | None:
        """Handle the answer to a registration; returns it rewritten, or None if it passes unchanged.

        The application master forgets its asks with it and sends them anew; so does the ResourceManager.
        """
        answer = y.RegisterApplicationMasterResponseProto.FromString(body)
        self._start_over()
        if not self.finished:
            self.registration.follow(AttemptEvent.REGISTERED)
        if answer.HasField("maximumCapability"):
            self.router.maximum = resources_of(answer.maximumCapability)
        changed = self._arrivals.adopt(answer.containers_from_previous_attempts, now_s)
        self.router.charge()
        self.registration.answer = answer.SerializeToString() if changed else body
        self.notebook.registered(self.registration.answer)
        self._world.reports.registered(self.id, now_s)
        return self.registration.answer if changed else None

    def on_not_registered(self, now_s: float) -> None:
        """Note that the ResourceManager does not know the attempt (it restarted): all asks will come again.

        It has forgotten the containers that never started, and will refuse their tokens: they end here. What the last
        answer delivered is not even known to the application if it asked for that answer again; its completions are
        reported again.
        """
        last, late = self.exchange.unseen, self.exchange.undelivered
        unseen = set(last.container_ids) if last is not None else set()
        unseen.update(late.container_ids if late is not None else ())
        reason = "the ResourceManager restarted before its start"
        for live in [c for c in self.live if not c.is_started]:
            if live.kind is Kind.QUEUEABLE:
                self._effect(DropHeld(live.node_id, live.id, reason))
            if live.kind is Kind.GUARANTEED or live.id in unseen:
                self.live.pop(live.id)
                if live.id in unseen:
                    self._ends.remember(live.id)
            else:
                self._ends.preempt(live, reason, now_s)
        if last is not None:
            self._ends.tell_again(last.ends)
        if late is not None:
            self._ends.tell_again(list(late.answer.completed_container_statuses))
            self.exchange.undelivered = None
        if self.own_grants.open:
            self.own_grants.give_back()
        self._ends.releases.repeat_all()
        self._start_over()
        if not self.finished:
            self.registration.follow(AttemptEvent.NOT_REGISTERED)
        self.notebook.new()

    def _start_over(self) -> None:
        self.table.start_over()
        self._steering.forget()
        self.router.start_over()
        self.exchange.start_over()
        self.early.start_over()
        self.promotion.clear()
        self.router.charge()

    @property
    def mints(self) -> bool:
        """Whether the proxy grants containers itself."""
        return self._world.hooks.own_grants

    @property
    def answers_early(self) -> bool:
        """Whether it does so before the ResourceManager answers."""
        return self._world.hooks.early_answers

    def own_grants_refused(self, why: str, now_s: float) -> None:
        """Note that the ResourceManager does not know the protocol of distributed schedulers."""
        self._world.minter.refused(why, now_s)

    def on_finished(self) -> None:
        """Note that the application master unregistered: starts that sidecars still hold for it are dropped."""
        self.end("the application finished")

    def end(self, reason: str) -> None:
        """Forget all of this attempt, and have the sidecars drop every start of it that they hold."""
        if self.finished:
            return
        for live in self.live:
            if live.kind is Kind.QUEUEABLE and not live.is_started:
                self._effect(DropHeld(live.node_id, live.id, reason))
        self.abandon()

    def abandon(self) -> None:
        """Forget all of this attempt: another proxy continues it, and the sidecars keep the starts that they hold."""
        if not self.finished:
            self.registration.follow(AttemptEvent.FINISHED)
        self._start_over()
        self.live.clear()
        self._ends.clear()
        self.notebook.over()
        self.router.charge()
        self._world.admissions.departed(self.app_id)

    # Restore from an earlier process

    def restore(self, snapshot: Snapshot) -> None:
        """Restore an earlier process's snapshot. Raises KeyError, TypeError or ValueError if it is broken."""
        self.registration.answer = unpacked(snapshot.registered)
        answer = y.RegisterApplicationMasterResponseProto.FromString(self.registration.answer)
        if answer.HasField("maximumCapability"):
            self.router.maximum = resources_of(answer.maximumCapability)
        self.exchange.last = unpacked_answer(snapshot.last) if snapshot.last is not None else None
        for note in snapshot.live.values():
            self.live.add(unpacked_container(note))
        self.live.ended_s = snapshot.ended_s
        self.early.restore()
        if snapshot.undelivered is not None:
            self.exchange.undelivered = unpacked_undelivered(snapshot.undelivered)
        self._ends.restore(snapshot)
        self.exchange.exclusions.restore(snapshot.kept_off)
        self.table.serial = snapshot.serial
        self.own_grants.number = snapshot.number or self.own_grants.number
        self.registration.follow(AttemptEvent.RESTORED if snapshot.registered else AttemptEvent.NOT_REGISTERED)
        self.registration.resync = Resync(snapshot) if snapshot.registered else None
        self.notebook.restore(snapshot)
        self.containers.master_gone_s = snapshot.master_gone_s
        self.containers.answers = 1  # its first answer was long ago
        self.live.changed = {}
        self.router.charge()

    def go_astray(self, response_id: int) -> bool:
        """Handle an allocate request of an unknown registration; returns whether that is news.

        One without an answer yet (0) says all that the application master wants: nothing is missing.
        """
        if self.registration.state is not AttemptState.NEW or self.exchange.allocates > 0 or response_id == 0:
            return False
        self.registration.follow(AttemptEvent.UNTRACKED)
        return True

    def refuses(self, response_id: int) -> bool:
        """Return whether an allocate request is to be refused, so that the application master registers anew."""
        resync = self.registration.resync
        if resync is None or self.finished or not resync.refuses(response_id):
            return False
        self.notebook.resync(resync.id)
        return True

    def registration_answer(self) -> bytes | None:
        """Return our own answer to a registration; None if the ResourceManager has to answer it."""
        resync = self.registration.resync
        return resync.registration() if resync is not None else None

    def take_note(self) -> Note | None:
        """Return the changes since the last call, for the journal; None if there are none."""
        if self.registration.answer is None:
            return None
        note = self.notebook.take()
        return note if note is None or self.registration.state is not AttemptState.UNTRACKED else given_up(note)

    def whole_note(self) -> Note | None:
        """Return the whole state for the journal, as one note; None if there is none."""
        if self.finished or self.registration.answer is None or self.registration.state is AttemptState.UNTRACKED:
            return None
        registered = b"" if self.registration.state is AttemptState.FORGOTTEN else self.registration.answer
        exchange, resync = self.exchange, self.registration.resync
        kept_off = exchange.exclusions.maybe
        note = self.notebook.whole(registered, exchange.last, self.table, resync, exchange.resend or (), kept_off)
        late = exchange.undelivered
        note["undelivered"] = packed_undelivered(late) if late is not None else None
        note["master_gone_s"] = self.containers.master_gone_s
        return note | minted_note(self.own_grants.open, self.own_grants.number)


def _give_up(attempt: Attempt, why: str) -> y.AllocateRequestProto:
    """Track the asks no longer, since they are too many: later ones pass as they are, and stay guaranteed.

    Returns the content that has the ResourceManager hold them as the application sees them, and nothing of ours.
    """
    resync, exclusions, router = attempt.registration.resync, attempt.exchange.exclusions, attempt.router
    ahead = y.AllocateRequestProto(ask=resync.give_up() if resync is not None else ())
    ahead.ask.extend(attempt.exchange.resend or ())
    ahead.ask.extend(give_up(attempt.table))
    ahead.blacklist_request.blacklist_removals.extend(sorted(exclusions.maybe - router.blacklist))
    exclusions.restore(())
    attempt._steering.forget()
    router.start_over(router.blacklist)
    attempt.promotion.clear()
    attempt.registration.follow(AttemptEvent.TOO_LARGE)
    attempt.notebook.over()
    router.charge()
    attempt._effect(TooLarge(attempt.app_id, why))
    return ahead
