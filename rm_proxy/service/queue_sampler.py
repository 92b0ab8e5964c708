"""Samples the YARN queues every few seconds, a part of the nodes at a time, so that callers are answered meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from quicksilver.common.process.logs import get_logger
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.history.queue_counts import LEVELS, QueueHistory, held_by_app, sample_queues

EVERY_S: Final = LEVELS[0][0]
_NODES_AT_A_TIME: Final = 100
log = get_logger(__name__)


class QueueSampler:
    """Holds the last day of the queues in memory; it begins anew with the process."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.history = QueueHistory()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sample."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="queue-sampler")

    async def close(self) -> None:
        """Sample no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self.sample()
            except Exception:
                log.exception("a sample of the queues failed")
            await asyncio.sleep(EVERY_S)

    async def sample(self) -> None:
        """Take one sample."""
        nodes, held = list(self._coordinator.nodes.values()), dict[str, int]()
        for first in range(0, len(nodes), _NODES_AT_A_TIME):
            held_by_app(nodes[first : first + _NODES_AT_A_TIME], held)
            await asyncio.sleep(0)
        self.history.add(time.time(), sample_queues(self._coordinator, held))
