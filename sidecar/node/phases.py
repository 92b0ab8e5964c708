"""The phases of a container at the node, and the moves between them; docs/sidecar.md draws them from here."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Where a container stands."""

    UNANNOUNCED = "unannounced"
    """An opportunistic start that no grant announced yet."""
    ROOM = "room"
    """A guaranteed start that waits while queueable containers are killed for it."""
    GRACE = "grace"
    """A guaranteed start that waits for queueable containers that are about to end."""
    WAITING = "waiting"
    """A held start."""
    STARTING = "starting"
    """Its start was sent to the NodeManager, which has not answered."""
    DOUBTFUL = "doubtful"
    """Its start was sent in an earlier sidecar process, and its answer is not known."""
    RUNNING = "running"
    KILLING = "killing"
    """Its stop was sent, and its end has not been seen."""
    STRANDED = "stranded"
    """It is to end, but no session can stop it: the proxy is asked to release it."""
    KILLING_AGAIN = "killing_again"
    """It was stranded; its stop was sent on a later session."""


STARTS: Final = frozenset((Phase.STARTING, Phase.DOUBTFUL))
"""Phases of a start that was sent and whose answer is not known."""

KILLED: Final = frozenset((Phase.KILLING, Phase.STRANDED, Phase.KILLING_AGAIN))
"""Phases of a container that is to end."""

USING: Final = STARTS | KILLED | {Phase.RUNNING}
"""Phases in which a container uses the node; a start counts from when it is sent, not from the NodeManager's answer."""

WANTING: Final = frozenset((Phase.ROOM, Phase.GRACE))
"""Phases of a guaranteed start that has not been forwarded."""

KEPT: Final = USING | {Phase.WAITING}
"""Phases that a later sidecar process must know of; the other starts are asked for again."""

MOVES: Final[dict[tuple[Phase | None, Phase | None], str]] = {
    (None, Phase.UNANNOUNCED): "an opportunistic start arrives",
    (None, Phase.ROOM): "a guaranteed start arrives",
    (None, Phase.WAITING): "from the journal, lost at once",
    (None, Phase.DOUBTFUL): "from the journal, start sent",
    (None, Phase.RUNNING): "from the journal, or from the NodeManager's list",
    (None, Phase.STRANDED): "from the journal, being killed",
    (Phase.UNANNOUNCED, Phase.WAITING): "its grant is known: held",
    (Phase.UNANNOUNCED, Phase.STARTING): "no grant in time: forwarded",
    (Phase.UNANNOUNCED, None): "withdrawn, refused, or not wanted any more",
    (Phase.ROOM, Phase.GRACE): "containers about to end make room",
    (Phase.GRACE, Phase.ROOM): "they did not end in time: killed",
    (Phase.ROOM, Phase.STARTING): "forwarded",
    (Phase.GRACE, Phase.STARTING): "forwarded",
    (Phase.ROOM, None): "withdrawn",
    (Phase.GRACE, None): "withdrawn",
    (Phase.WAITING, Phase.STARTING): "launched",
    (Phase.WAITING, None): "shed, stopped or lost",
    (Phase.STARTING, Phase.RUNNING): "accepted by the NodeManager",
    (Phase.STARTING, None): "refused or lost",
    (Phase.DOUBTFUL, Phase.RUNNING): "the NodeManager has it",
    (Phase.DOUBTFUL, None): "the NodeManager does not have it",
    (Phase.RUNNING, Phase.KILLING): "stop sent",
    (Phase.RUNNING, Phase.STRANDED): "to be stopped, no session",
    (Phase.RUNNING, None): "its process ended, or it is lost",
    (Phase.KILLING, Phase.STRANDED): "the NodeManager did not stop it",
    (Phase.KILLING, None): "seen gone",
    (Phase.STRANDED, Phase.KILLING_AGAIN): "a session came: stop sent",
    (Phase.STRANDED, None): "its process ended",
    (Phase.KILLING_AGAIN, Phase.STRANDED): "the NodeManager did not stop it",
    (Phase.KILLING_AGAIN, None): "seen gone",
}
"""From, to and why; None: not known to the sidecar (before it arrives, after it is forgotten)."""


class UnexpectedMoveError(AssertionError):
    """A container changed to a phase that cannot follow its phase."""


def diagram() -> str:
    """Return the moves as a Mermaid state diagram."""
    lines = [f"    {source or '[*]'} --> {target or '[*]'}: {why}" for (source, target), why in MOVES.items()]
    return "\n".join(["stateDiagram-v2", *lines])
