"""A task that takes a sample every few seconds; a sample that fails is logged, and the next one is taken."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod

from quicksilver.common.process.logs import get_logger

log = get_logger(__name__)


class PeriodicSampler(ABC):
    """Samples at multiples of `every_s` seconds of Unix time. `name`: what is sampled, for the log."""

    def __init__(self, name: str, every_s: float) -> None:
        self._name, self._every_s = name, every_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sample."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"samples of the {self._name}")

    async def close(self) -> None:
        """Sample no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @abstractmethod
    async def sample(self) -> None:
        """Take one sample."""

    async def _run(self) -> None:
        while True:
            try:
                await self.sample()
            except Exception:
                log.exception("a sample failed", of=self._name)
            await asyncio.sleep(self._every_s - time.time() % self._every_s)
