"""Two sockets that belong together: when each is read."""

from __future__ import annotations

import asyncio
from typing import cast

from quicksilver.common.process.socket_pair import PairedSocket


class Transport:
    """A transport that only stores whether it is read."""

    def __init__(self) -> None:
        self.reads = True
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        assert self.reads
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads and not self.closing
        self.reads = True


def connected(side: PairedSocket) -> Transport:
    transport = Transport()
    side.connection_made(cast(asyncio.Transport, transport))
    return transport


def test_a_socket_is_read_again_when_the_last_reason_against_it_is_gone() -> None:
    side, other = PairedSocket(), PairedSocket()
    side.pair_with(other)
    transport, other_transport = connected(side), connected(other)
    other.pause_writing()
    side.hold("it stops")
    other.resume_writing()
    assert not transport.reads and other_transport.reads
    side.release("it stops")
    assert transport.reads


def test_a_reason_given_before_the_socket_is_connected_counts() -> None:
    side, other = PairedSocket(), PairedSocket()
    side.pair_with(other)
    side.hold("nothing takes its bytes")
    transport = connected(side)
    assert not transport.reads
    side.release("nothing takes its bytes")
    assert transport.reads


def test_a_closing_socket_is_not_read_again() -> None:
    side = PairedSocket()
    transport = connected(side)
    side.hold("its peer is slow")
    transport.closing = True
    side.release("its peer is slow")
    assert not transport.reads and side.is_closing
