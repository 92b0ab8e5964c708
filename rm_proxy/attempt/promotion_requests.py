"""Promotion of one attempt's queueable containers: requested from the ResourceManager, unseen by the application.

Mercury (ATC '15, §3.3). The request goes out with the application master's next allocate request. To the
ResourceManager it is one more guaranteed container on that node; once it has room, an answer reports the promotion,
which is removed from that answer here. The application took the container for guaranteed all the while. A request
cannot be withdrawn: it stays until the ResourceManager accepts it or the container ends (ContainerUpdateContext of
Hadoop 3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.effects import Decided, Effect
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from rm_proxy.domain import ids
from rm_proxy.domain.records import DecisionRecord

MAX_OUTSTANDING: Final = 20
"""Promotions of one attempt that the ResourceManager may have before it at once."""
MAX_TRIES: Final = 3
MAX_LATELY: Final = 1_000
"""Promotions of an attempt that are remembered until YARN's REST shows them."""
RETRY_S: Final = 10.0
"""A refused promotion is asked for again after this, then after twice as long."""
_OUTSTANDING: Final = "UPDATE_OUTSTANDING_ERROR"
_VERSION: Final = "INCORRECT_CONTAINER_VERSION_ERROR"


class Stand(StrEnum):
    """Progress of a promotion."""

    TO_ASK = "to ask"
    ASKED = "asked"
    REFUSED = "refused"


@dataclass(slots=True)
class PromotionRequest:
    """One container that was chosen to be promoted; remembered until it ends."""

    live: HeldContainer
    reason: str
    stand: Stand = Stand.TO_ASK
    refusals: int = 0
    retry_at_s: float = 0.0


class Promotions:
    """The promotions of one application attempt, as a machine; times are Unix seconds."""

    def __init__(self, app_id: str, world: ClusterView, live: HeldContainers, emit: Callable[[Effect], None]) -> None:
        self._app_id, self._world, self._live, self._emit = app_id, world, live, emit
        self.wishes: dict[str, PromotionRequest] = {}
        """By container; remembered until it ends."""
        self.to_ask: dict[str, PromotionRequest] = {}
        """Those that the next request has to carry."""
        self._theirs: set[str] = set()
        """Containers that the application itself updates: they are left alone."""
        self._promoted_lately: deque[tuple[float, HeldContainer]] = deque(maxlen=MAX_LATELY)

    def clear(self) -> None:
        """Forget everything: the application is over, or the ResourceManager has forgotten it."""
        self.wishes.clear()
        self.to_ask.clear()
        self._theirs.clear()
        self._promoted_lately.clear()

    # Wanted promotions

    @property
    def busy(self) -> bool:
        """Whether `unseen` may yield anything."""
        return bool(self.wishes or self._promoted_lately)

    def unseen(self, since_s: float) -> Iterator[HeldContainer]:
        """Yield containers whose room the ResourceManager's REST may not show yet: undecided, or promoted since."""
        while self._promoted_lately and self._promoted_lately[0][0] < since_s:
            self._promoted_lately.popleft()
        yield from self.outstanding()
        yield from (live for _, live in self._promoted_lately if live.id in self._live)

    def outstanding(self) -> Iterator[HeldContainer]:
        """Yield the containers whose promotion is not decided."""
        return (wish.live for wish in self.wishes.values() if wish.stand is not Stand.REFUSED)

    def candidates(self, now_s: float) -> Iterator[HeldContainer]:
        """Yield the containers that may be promoted, within the limit of open requests."""
        open_to = MAX_OUTSTANDING - sum(1 for _ in self.outstanding())
        for live in list(self._live):
            if open_to <= 0:
                return
            wish = self.wishes.get(live.id)
            if live.promotable and live.id not in self._theirs and (wish is None or _due(wish, now_s)):
                yield live
                open_to -= live.id in self.to_ask

    def ask(self, live: HeldContainer, reason: str, now_s: float) -> None:
        """Ask the ResourceManager, with the next request, to make a container guaranteed."""
        wish = self.wishes.setdefault(live.id, PromotionRequest(live, reason))
        wish.stand, wish.reason = Stand.TO_ASK, reason
        self.to_ask[live.id] = wish
        self._decided(live, "asked", reason, now_s)

    def prune(self, now_s: float) -> None:
        """Forget wanted promotions of containers that have ended."""
        for wish in [w for w in self.wishes.values() if w.live.id not in self._live]:
            self._forget(wish)
            if wish.stand is not Stand.REFUSED:
                self._decided(wish.live, "ended", "it ended before the ResourceManager promoted it", now_s)
        if self._theirs:
            self._theirs = {container_id for container_id in self._theirs if container_id in self._live}

    def _forget(self, wish: PromotionRequest) -> None:
        del self.wishes[wish.live.id]
        self.to_ask.pop(wish.live.id, None)

    # Requests

    def rewrite_request(self, request: y.AllocateRequestProto) -> bool:
        """Add wanted promotions to a request; returns whether that changed it.

        The application knows nothing of the versions that our promotions made, so its own updates get them added.
        """
        changed = False
        for theirs in request.update_requests:
            container_id = ids.container_id_text(theirs.container_id)
            live = self._live.get(container_id)
            self._theirs.add(container_id)
            wish = self.wishes.get(container_id)
            if wish is not None and (wish.stand is Stand.TO_ASK or theirs.update_type == y.PROMOTE_EXECUTION_TYPE):
                self._forget(wish)  # the verdict is for the application
            if live is not None and live.promoted_s is not None:
                theirs.container_version += 1
                changed = True
        to_ask, self.to_ask = self.to_ask, {}
        for wish in to_ask.values():
            if not wish.live.promotable or wish.live.id not in self._live:
                wish.stand = Stand.REFUSED
                continue
            wish.stand = Stand.ASKED
            request.update_requests.append(_promote(wish.live))
            changed = True
        return changed

    def ask_again(self, updates: Iterable[y.UpdateContainerRequestProto]) -> None:
        """Repeat with the next request promotions that the ResourceManager may not have seen; duplicates do no harm."""
        for update in updates:
            wish = self.wishes.get(ids.container_id_text(update.container_id))
            if wish is not None and wish.stand is Stand.ASKED:
                wish.stand = Stand.TO_ASK
                self.to_ask[wish.live.id] = wish

    # Answers

    def rewrite_answer(self, answer: y.AllocateResponseProto, now_s: float) -> bool:
        """Take the verdicts on our promotions out of an answer; returns whether that changed it."""
        changed = False
        for at in reversed(range(len(answer.updated_containers))):
            updated = answer.updated_containers[at]
            wish = self._wish(updated.container.id, updated.update_type)
            if wish is not None:
                self._promoted(wish, updated.container.version, now_s)
                del answer.updated_containers[at]
                changed = True
            else:
                self._count_theirs(updated)
                changed = self._restore_version(updated.container) or changed
        for at in reversed(range(len(answer.update_errors))):
            error = answer.update_errors[at]
            wish = self._wish(error.update_request.container_id, error.update_request.update_type)
            if wish is not None:
                self._refused(wish, error, now_s)
                del answer.update_errors[at]
                changed = True
            else:
                changed = self._restore_error(error) or changed
        return changed

    def _wish(self, container: y.ContainerIdProto, update_type: int) -> PromotionRequest | None:
        """Return the promotion of ours that a verdict is about; it may be one that an earlier process asked for."""
        if update_type != y.PROMOTE_EXECUTION_TYPE:
            return None
        container_id = ids.container_id_text(container)
        live = self._live.get(container_id)
        unknown = container_id not in self.wishes and container_id not in self._theirs
        if unknown and live is not None and live.kind is Kind.QUEUEABLE and live.may_be_guaranteed:
            why = "asked for before quicksilver restarted"
            self.wishes[container_id] = PromotionRequest(live, why, Stand.ASKED)
        return self.wishes.get(container_id)

    def _promoted(self, wish: PromotionRequest, version: int, now_s: float) -> None:
        live = self._live.get(wish.live.id)
        self._forget(wish)
        if live is None:
            return
        live.version = version
        self._live.touch(live.id)
        self._live.promote(live.id, now_s)
        self._promoted_lately.append((now_s, live))
        self._world.reports.promoted(live.node_id, live.id)
        self._decided(live, "promoted", wish.reason, now_s)

    def _count_theirs(self, updated: y.UpdatedContainerProto) -> None:
        """Count a container as guaranteed that the application master itself had promoted."""
        live = self._live.get(ids.container_id_text(updated.container.id))
        if updated.update_type == y.PROMOTE_EXECUTION_TYPE and live is not None and live.kind is Kind.QUEUEABLE:
            self._live.promote(live.id, None)
            self._world.reports.promoted(live.node_id, live.id)

    def _restore_version(self, container: y.ContainerProto) -> bool:
        """Give the application the version that it expects of its own update; return whether it differed."""
        live = self._live.get(ids.container_id_text(container.id))
        if live is None:
            return False
        live.version = container.version
        self._live.touch(live.id)
        if live.promoted_s is None:
            return False
        container.version -= 1
        return True

    def _refused(self, wish: PromotionRequest, error: y.UpdateContainerErrorProto, now_s: float) -> None:
        if error.reason == _OUTSTANDING:
            return  # the request already has it
        if error.reason == _VERSION and error.current_container_version >= 0:
            wish.live.version = error.current_container_version
            self._live.touch(wish.live.id)
        self.to_ask.pop(wish.live.id, None)
        wish.stand = Stand.REFUSED
        wish.refusals += 1
        wish.retry_at_s = now_s + RETRY_S * 2.0 ** (wish.refusals - 1)
        again = f"asked again in {wish.retry_at_s - now_s:.0f} s" if wish.refusals < MAX_TRIES else "not asked again"
        why = f"the ResourceManager: {error.reason or 'no reason given'}; {again}"
        self._decided(wish.live, "refused", why, now_s)

    def _restore_error(self, error: y.UpdateContainerErrorProto) -> bool:
        """Give the application back the version that it knows; returns whether there was a difference."""
        live = self._live.get(ids.container_id_text(error.update_request.container_id))
        if live is None or live.promoted_s is None:
            return False
        error.update_request.container_version -= 1
        error.current_container_version -= 1
        return True

    def _policy(self) -> str:
        app = self._world.apps.app(self._app_id)
        policies = self._world.policies
        return (policies if app is None else policies.for_app(app)).policy_name("promote")

    def _decided(self, live: HeldContainer, outcome: str, reason: str, now_s: float) -> None:
        self._emit(
            Decided(
                DecisionRecord(
                    id=f"promote:{live.id}:{outcome}:{now_s:.6f}",
                    at_s=now_s,
                    slot="promote",
                    policy=self._policy(),
                    app_id=self._app_id,
                    container_id=live.id,
                    node_id=live.node_id,
                    chosen=outcome,
                    reason=reason,
                )
            )
        )


def _due(wish: PromotionRequest, now_s: float) -> bool:
    return wish.stand is Stand.REFUSED and wish.refusals < MAX_TRIES and now_s >= wish.retry_at_s


def _promote(live: HeldContainer) -> y.UpdateContainerRequestProto:
    update = y.UpdateContainerRequestProto(
        container_version=live.version, update_type=y.PROMOTE_EXECUTION_TYPE, execution_type=y.GUARANTEED
    )
    update.container_id.CopyFrom(live.proto)
    return update
