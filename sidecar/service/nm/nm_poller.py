"""Compares the node machine with the NodeManager's list of containers, and notices when the NodeManager is down."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from quicksilver.common.address import Address
from sidecar.connections.nm_liveness import NmLiveness
from sidecar.node.events import Ended, NodeManagerState
from sidecar.node.nm_reconcile import compare
from sidecar.service.dispatcher import Dispatcher
from sidecar.service.nm.nm_rest import NodeManagerRest

_TICK_S: Final = 1.0


class NodeManagerPoller:
    """Follows one NodeManager at `upstream` for the node machine of a dispatcher."""

    def __init__(self, dispatcher: Dispatcher, rest: NodeManagerRest, upstream: Address) -> None:
        self._dispatcher, self._node, self._rest = dispatcher, dispatcher.node, rest
        self._settings = dispatcher.settings
        self._changed = asyncio.Event()
        self._liveness = NmLiveness(upstream, self._settings.connect_timeout_s, self._liveness_changed)

    async def watch_liveness(self) -> None:
        """Notice at once when the NodeManager ends or returns, until cancelled."""
        await self._liveness.run()

    async def run(self) -> None:
        """Compare at the start, then regularly; each second while a process is not watched. Until cancelled."""
        while True:
            self._changed.clear()
            self._report_state()
            answered = await self._reconcile()
            begun_s = time.monotonic()
            while time.monotonic() - begun_s < self._settings.reconcile_s and not self._changed.is_set():
                await self._tick_or_change()
                if self._dispatcher.watcher.unseen() or not answered:
                    break

    def _liveness_changed(self, _why: str) -> None:
        """Forget what belongs to one process of the NodeManager: it has ended, or another one answers."""
        self._dispatcher.gates.services.forget()
        self._rest.forget()
        self._changed.set()

    async def _reconcile(self) -> bool:
        """Pass differences to the node machine; return whether the NodeManager answered."""
        dispatcher = self._dispatcher
        watcher = dispatcher.watcher
        listed = await self._rest.containers(lambda: bool(watcher.blind))
        self._report_state()
        if listed is None:
            return False
        events = compare(listed, self._node.state.containers, dispatcher.commands.ended, watcher.seen(), time.time())
        for event in events:
            if isinstance(event, Ended):
                dispatcher.metrics.ends.labels("nodemanager").inc()
            dispatcher.put(event)
        return True

    async def _tick_or_change(self) -> None:
        try:
            async with asyncio.timeout(_TICK_S):
                await self._changed.wait()
        except TimeoutError:
            return  # a second has passed

    def _report_state(self) -> None:
        """Report to the node machine, and at once to the proxy, whether the NodeManager accepts starts."""
        why = self._liveness.why or (self._rest.why if self._rest.stalled else "")
        if why == self._node.state.nm_down:
            return
        changed = bool(why) != bool(self._node.state.nm_down)
        self._dispatcher.put(NodeManagerState(why, time.time()))
        if changed:
            self._dispatcher.reporter.changed()
