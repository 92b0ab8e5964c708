"""The states of an application at the app server, and the moves between them; docs/app-server.md draws the table."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where an application stands."""

    RECEIVED = "received"
    """It is stored; its size is not compared with quotas and cluster yet."""
    REFUSED = "refused"
    """It can never be started here."""
    CHECKED = "checked"
    QUEUED = "queued"
    """It waits for quota of its user."""
    SUBMITTING = "submitting"
    """Its YARN id is stored; whether YARN has it is not known yet."""
    SUBMITTED = "submitted"
    """YARN has it."""
    ACCEPTED = "accepted"
    """YARN's scheduler has it; its master waits for a container."""
    STARTING = "starting"
    """Its master runs, and not all of its core instances are ready."""
    READY = "ready"
    """All core instances are ready."""
    ENDING = "ending"
    """Its master ends it, or a kill is under way."""
    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"
    """YARN does not know it any more."""


WAITING: Final = (State.RECEIVED, State.CHECKED, State.QUEUED)
"""States before a submission."""
AT_YARN: Final = (State.SUBMITTED, State.ACCEPTED, State.STARTING, State.READY, State.ENDING)
"""States in which YARN has it."""
COUNTED: Final = (State.SUBMITTING, *AT_YARN)
"""States in which it counts against quotas."""
ENDED: Final = (State.REFUSED, State.FINISHED, State.FAILED, State.KILLED, State.LOST)

_AHEAD: Final = (State.SUBMITTED, State.ACCEPTED, State.STARTING, State.READY, State.ENDING)
_WHY: Final = {
    State.ACCEPTED: "YARN's scheduler has it",
    State.STARTING: "its master runs",
    State.READY: "its core instances are ready",
    State.ENDING: "its master ends it, or it is being killed",
    State.FINISHED: "it ended, and succeeded",
    State.FAILED: "it ended, and failed",
    State.KILLED: "it was killed",
    State.LOST: "YARN does not know it any more",
}

MOVES: Final[dict[tuple[State | None, State], str]] = {
    (None, State.RECEIVED): "a submission is stored",
    (State.RECEIVED, State.CHECKED): "its size fits its quota and the cluster",
    (State.RECEIVED, State.REFUSED): "it fits neither now nor later",
    (State.RECEIVED, State.KILLED): "killed before it was submitted",
    (State.CHECKED, State.QUEUED): "its user's quota is used up",
    (State.CHECKED, State.SUBMITTING): "there is quota",
    (State.CHECKED, State.KILLED): "killed before it was submitted",
    (State.QUEUED, State.SUBMITTING): "there is quota again",
    (State.QUEUED, State.KILLED): "killed before it was submitted",
    (State.SUBMITTING, State.QUEUED): "YARN does not have it: to be tried again",
    (State.SUBMITTING, State.SUBMITTED): "YARN has it",
    (State.SUBMITTING, State.FAILED): "YARN refused it, or never answered",
    **{
        (source, target): _WHY[target]
        for number, source in enumerate(_AHEAD)
        for target in (*_AHEAD[number + 1 :], State.FINISHED, State.FAILED, State.KILLED, State.LOST)
    },
    (State.READY, State.STARTING): "a core instance ended and is started again",
    (State.STARTING, State.ACCEPTED): "its master ended and is started again",
    (State.READY, State.ACCEPTED): "its master ended and is started again",
}
"""From, to and why."""


class UnexpectedStateError(AssertionError):
    """An application changed to a state that cannot follow its state."""


def check_move(source: State | None, target: State) -> None:
    """Raise UnexpectedMoveError for a move that is not in the table."""
    if (source, target) not in MOVES:
        raise UnexpectedStateError(f"{source} -> {target}")


def diagram() -> str:
    """Return the moves as a Mermaid state diagram."""
    lines = [f"    {source or '[*]'} --> {target}: {why}" for (source, target), why in MOVES.items()]
    lines += [f"    {state} --> [*]" for state in ENDED]
    return "\n".join(["stateDiagram-v2", *lines])
