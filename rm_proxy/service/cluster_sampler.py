"""Samples the cluster every few seconds, a part of the nodes at a time, so that callers are answered meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from quicksilver.common.process.logs import get_logger
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.history.cluster_sample import NAMES, Sample, Shrinks
from rm_proxy.history.time_series import LEVELS, TimeSeries

EVERY_S: Final = LEVELS[0][0]
_NODES_AT_A_TIME: Final = 100
log = get_logger(__name__)


class ClusterSampler:
    """Holds the last day in memory; it begins anew with the process."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.series = TimeSeries(NAMES)
        self.shrinks = Shrinks()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sample."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="cluster-sampler")

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
                log.exception("a sample of the cluster failed")
            await asyncio.sleep(EVERY_S - time.time() % EVERY_S)

    async def sample(self) -> None:
        """Take one sample."""
        sample = Sample()
        for number, node in enumerate(list(self._coordinator.nodes.values()), 1):
            sample.add(node)
            self.shrinks.add(node)
            if number % _NODES_AT_A_TIME == 0:
                await asyncio.sleep(0)
        self.shrinks.end_round()
        sample.add_pending(self._coordinator)
        self.series.add(time.time(), sample.values())
