"""Samples the cluster every few seconds, a part of the nodes at a time, so that callers are answered meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.history.cluster_sample import NAMES, Sample, Shrinks
from rm_proxy.history.delay_window import DelayWindow
from rm_proxy.history.open_waits import open_waits
from rm_proxy.history.time_series import LEVELS, TimeSeries
from rm_proxy.service.sampling.periodic_sampler import PeriodicSampler

EVERY_S: Final = LEVELS[0][0]
_NODES_AT_A_TIME: Final = 100


class ClusterSampler(PeriodicSampler):
    """Holds the last day in memory; it begins anew with the process."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__("cluster", EVERY_S)
        self._coordinator = coordinator
        self.series = TimeSeries(NAMES)
        self.shrinks = Shrinks()
        self.delays = DelayWindow()

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
        now_s = time.time()
        sample.add_delays(self.delays.percentiles(open_waits(self._coordinator, now_s), now_s))
        self.series.add(now_s, sample.values())
