"""Commands of a relay: what its shell (rm_proxy/service/connections/am_connections.py) has to do, in this order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rm_proxy.attempt.effects import Effect
from rm_proxy.attempt.snapshot import Note


class ToRm(NamedTuple):
    """Bytes for the ResourceManager."""

    data: bytes


class ToAm(NamedTuple):
    """Bytes for the application master; `effects` are to be carried out at the same time."""

    data: bytes
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Identified:
    """The ResourceManager confirmed who the peer is."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class PassedThrough:
    """From now on the connection is relayed unread; `encrypted`: whether its protection is the reason."""

    reason: str
    encrypted: bool


class Called(NamedTuple):
    """A request was relayed (for metrics); `rewritten`: whether it changed."""

    method: str
    rewritten: bool


class Noted(NamedTuple):
    """Journal this before the commands that follow: another process may have to continue from it."""

    attempt_id: str
    note: Note


class TookOver(NamedTuple):
    """A step in taking an attempt over from an earlier process (for metrics): refused, registered, astray, wrong-id."""

    attempt_id: str
    step: str


class MintedRefused(NamedTuple):
    """A call with containers of our own failed, and was sent again without them; `why`: as the ResourceManager said."""

    attempt_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """Close this connection: the application master has another one, which goes on with its last call."""

    attempt_id: str


Command = ToRm | ToAm | Identified | PassedThrough | Called | Noted | TookOver | MintedRefused | Replaced
