"""Tasks that run in the background of one loop until they end or their owner closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from quicksilver.common.process.logs import get_logger

log = get_logger(__name__)


class BackgroundTasks:
    """The background tasks of one owner. `failure`: the text that is logged when one of them raises."""

    def __init__(self, failure: str) -> None:
        self._failure = failure
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return how many tasks run."""
        return len(self._running)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background."""
        task = asyncio.ensure_future(coroutine)
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def finish(self, timeout_s: float) -> int:
        """Wait until all tasks have ended; cancel those that run longer, and return how many these were."""
        if not self._running:
            return 0
        _, late = await asyncio.wait(self._running, timeout=timeout_s)
        for task in late:
            task.cancel()
        return len(late)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error(self._failure, exc_info=task.exception())
