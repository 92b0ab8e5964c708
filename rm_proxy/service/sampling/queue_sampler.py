"""Samples the YARN queues every few seconds, a part of the nodes at a time, so that callers are answered meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.history.queue_counts import LEVELS, QueueHistory, held_by_app, sample_queues
from rm_proxy.service.sampling.periodic_sampler import PeriodicSampler

EVERY_S: Final = LEVELS[0][0]
_NODES_AT_A_TIME: Final = 100


class QueueSampler(PeriodicSampler):
    """Holds the last day of the queues in memory; it begins anew with the process."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__("queues", EVERY_S)
        self._coordinator = coordinator
        self.history = QueueHistory()

    async def sample(self) -> None:
        """Take one sample."""
        nodes, counts = list(self._coordinator.nodes.values()), dict[str, int]()
        for first in range(0, len(nodes), _NODES_AT_A_TIME):
            held_by_app(nodes[first : first + _NODES_AT_A_TIME], counts)
            await asyncio.sleep(0)
        self.history.add(time.time(), sample_queues(self._coordinator, counts))
