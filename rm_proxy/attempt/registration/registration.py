"""Registration of an application attempt with the ResourceManager: its states and their transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rm_proxy.attempt.registration.resync import Resync
from rm_proxy.domain import ids


class AttemptState(StrEnum):
    """States of an attempt's registration."""

    NEW = "new"
    """No registration was seen, and none was restored."""
    UNTRACKED = "untracked"
    """It registered with an earlier process that left nothing, or asks for too much: its asks pass as they are."""
    RESYNCING = "resyncing"
    """It was restored from an earlier process, and has to register and ask anew."""
    REGISTERED = "registered"
    """Its asks are known."""
    FORGOTTEN = "forgotten"
    """The ResourceManager does not know it: it will register again."""
    FINISHED = "finished"
    """The attempt is over."""


class AttemptEvent(StrEnum):
    """Events that lead from one state to another."""

    REGISTERED = "the ResourceManager registered it"
    NOT_REGISTERED = "the ResourceManager answered that it is not registered"
    UNTRACKED = "it allocates, and nothing is known of its registration"
    TOO_LARGE = "its asks are too many to be read"
    RESTORED = "its snapshot was read"
    RESYNCED = "it has an answer after its resync"
    FINISHED = "it finished, or another proxy serves it"


_S, _E = AttemptState, AttemptEvent
_ALWAYS: Final = {
    _E.REGISTERED: _S.REGISTERED,
    _E.NOT_REGISTERED: _S.FORGOTTEN,
    _E.FINISHED: _S.FINISHED,
    _E.TOO_LARGE: _S.UNTRACKED,
}
TRANSITIONS: Final[Mapping[AttemptState, Mapping[AttemptEvent, AttemptState]]] = {
    _S.NEW: {**_ALWAYS, _E.UNTRACKED: _S.UNTRACKED, _E.RESTORED: _S.RESYNCING},
    _S.UNTRACKED: _ALWAYS,
    _S.RESYNCING: {**_ALWAYS, _E.RESYNCED: _S.REGISTERED},
    _S.REGISTERED: _ALWAYS,
    _S.FORGOTTEN: _ALWAYS,
    _S.FINISHED: {},
}
"""The state that follows, for each state and event; an event that is not named is illegal in that state."""


class IllegalTransitionError(RuntimeError):
    """An event came in a state that does not allow it: our own mistake."""


@dataclass(slots=True, init=False)
class Registration:
    """The registration of one attempt."""

    attempt_id: str
    app_id: str
    state: AttemptState
    answer: bytes | None
    """The answer to the registration, as the application master got it."""
    resync: Resync | None
    """The take-over from an earlier process, while the state is RESYNCING."""

    def __init__(self, attempt_id: str) -> None:
        self.attempt_id, self.app_id = attempt_id, ids.app_of_attempt(attempt_id)
        self.state = AttemptState.NEW
        self.answer = self.resync = None

    def follow(self, event: AttemptEvent) -> None:
        """Go to the state that follows; raises IllegalTransitionError when the event is illegal in this one."""
        state = TRANSITIONS[self.state].get(event)
        if state is None:
            raise IllegalTransitionError(f"{self.attempt_id} is {self.state}: {event} is illegal")
        self.state = state
        if state is not AttemptState.RESYNCING:
            self.resync = None

    @property
    def valid(self) -> bool:
        """Whether its asks and containers are its own: it is registered, here or with an earlier process."""
        return self.answer is not None and self.state in (AttemptState.REGISTERED, AttemptState.RESYNCING)
