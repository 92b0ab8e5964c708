"""The way between racks: takes packets out of each rack's device, and puts them into another's, late or never.

It is a process because many kernels are built without netem (CONFIG_NET_SCH_NETEM). Packets are whole IPv4 packets of
devices of kind TUN; the third part of an address is its rack.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Final

PACKETS_MAX: Final = 20_000
"""Under way at once; more are lost, as in the queue of a switch."""
_BYTES: Final = 65_536
_RACK_AT: Final = 18
"""Index of the third part of an IPv4 packet's destination."""
_BURST: Final = 64
"""Packets that are read from one device before the others have their turn."""


class SlowLink:
    """Packets under way. `devices`: a file descriptor of a TUN device, which does not block, by rack."""

    def __init__(self, devices: Mapping[int, int], delay_s: float, loss_ratio: float, rng: Random) -> None:
        self.lost = self.delivered = 0
        self._devices, self._delay_s, self._loss_ratio, self._rng = dict(devices), delay_s, loss_ratio, rng
        self._under_way: deque[tuple[float, int, bytes]] = deque()
        """When each is due, for which device; all are as slow, so that the first is due first."""

    def run(self, stop: int) -> None:
        """Move packets until the file descriptor `stop` can be read."""
        poll = select.poll()
        for handle in (*self._devices.values(), stop):
            poll.register(handle, select.POLLIN)
        while True:
            ready = poll.poll(self._wait_ms(time.monotonic()))
            for handle, _ in ready:
                if handle == stop:
                    return
                self._read(handle, time.monotonic())
            self._deliver(time.monotonic())

    def _wait_ms(self, now_s: float) -> float | None:
        return max(0.0, (self._under_way[0][0] - now_s) * 1000) if self._under_way else None

    def _read(self, handle: int, now_s: float) -> None:
        for _ in range(_BURST):
            try:
                packet = os.read(handle, _BYTES)
            except BlockingIOError:
                return
            target = self._devices.get(packet[_RACK_AT]) if len(packet) > _RACK_AT else None
            full = len(self._under_way) >= PACKETS_MAX
            if target is None or full or self._rng.random() < self._loss_ratio:
                self.lost += 1
            else:
                self._under_way.append((now_s + self._delay_s, target, packet))

    def _deliver(self, now_s: float) -> None:
        while self._under_way and self._under_way[0][0] <= now_s:
            _, target, packet = self._under_way.popleft()
            try:
                os.write(target, packet)
                self.delivered += 1
            except OSError:  # the device is down, or its queue is full
                self.lost += 1
