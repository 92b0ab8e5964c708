"""Packets between racks: late, in order, some lost; no device needed."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random

from quicksilver_lab.cluster.hosts.slow_link import SlowLink

TO_RACK = {rack: bytes(16) + bytes([10, 77, rack, 11]) for rack in (1, 2, 9)}


@contextmanager
def link(delay_s: float, loss_ratio: float) -> Iterator[tuple[SlowLink, dict[int, socket.socket]]]:
    """Run a link between two racks, whose devices are sockets; what is sent at one end is a packet of that rack."""
    with ExitStack() as stack:
        pairs = {rack: socket.socketpair(type=socket.SOCK_DGRAM) for rack in (1, 2)}
        for near, far in pairs.values():
            stack.enter_context(near)
            stack.enter_context(far)
            near.setblocking(False)
            far.settimeout(5)
        made = SlowLink({rack: pair[0].fileno() for rack, pair in pairs.items()}, delay_s, loss_ratio, Random(3))
        reading, writing = os.pipe()
        thread = threading.Thread(target=made.run, args=(reading,))
        thread.start()
        try:
            yield made, {rack: pair[1] for rack, pair in pairs.items()}
        finally:
            os.write(writing, b"x")
            thread.join()
            os.close(reading)
            os.close(writing)


def test_packets_come_late_and_in_order() -> None:
    with link(0.2, 0.0) as (made, racks):
        begun_s = time.monotonic()
        for number in range(5):
            racks[1].send(TO_RACK[2] + bytes([number]))
        racks[2].send(TO_RACK[1])
        assert [racks[2].recv(100)[-1] for _ in range(5)] == [0, 1, 2, 3, 4]
        assert racks[1].recv(100) == TO_RACK[1]
        assert time.monotonic() - begun_s > 0.15
    assert (made.delivered, made.lost) == (6, 0)


def test_some_are_lost_and_what_goes_to_no_rack_is() -> None:
    with link(0.0, 0.25) as (made, racks):
        for _ in range(200):
            racks[1].send(TO_RACK[2])
            racks[1].send(TO_RACK[9])
        end_s = time.monotonic() + 10
        while made.delivered + made.lost < 400:
            assert time.monotonic() < end_s
            time.sleep(0.01)
    assert 120 < made.delivered < 180
