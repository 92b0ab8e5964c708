"""The NodeManager's REST: its list of containers, its name for this node, and whether it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.process.logs import get_logger
from sidecar.metrics import SidecarMetrics
from sidecar.node.nm_reconcile import NOT_LAUNCHED, QUEUED_PATH, NmList, read_list, read_queued

log = get_logger(__name__)
_STALLED_AFTER: Final = 3
"""Consecutive failed calls, after a successful one, from which on the NodeManager counts as hung."""


class NodeManagerRest:
    """Calls one NodeManager. `on_node_id`: gets the NodeManager's name of the node."""

    def __init__(
        self, url: str, client: AsyncRestClient, metrics: SidecarMetrics, on_node_id: Callable[[str], None]
    ) -> None:
        self.answers: bool | None = None
        """Whether the last call was answered; None before the first."""
        self.why = ""
        """Why the last call was not answered; "" when it was."""
        self.url = url.rstrip("/")
        self._client, self._metrics, self._on_node_id = client, metrics, on_node_id
        self._failures = 0
        self._began_s = 0.0
        self._is_known = False
        """Whether name and begin are those of the NodeManager's present process."""

    def forget(self) -> None:
        """Handle that the NodeManager's process may be another one from now on."""
        self._is_known = False

    @property
    def stalled(self) -> bool:
        """Whether a NodeManager whose REST answered before has stopped answering."""
        return self._failures >= _STALLED_AFTER

    async def containers(self, blind: Callable[[], bool]) -> NmList | None:
        """Return the NodeManager's list of containers, None when it cannot be read.

        blind: returns whether running containers cannot be distinguished from others.
        """
        asked_s = time.time()
        try:
            if not self._is_known:
                self._read_info(await self._client.get(self.url + "/ws/v1/node/info"))
            answer = await self._client.get(self.url + "/ws/v1/node/containers")
            listed = read_list(answer, asked_s, 0.0 if blind() else self._began_s)
        except (QuicksilverError, ValidationError, ValueError) as error:
            self._failed(error)
            return None
        self.answers, self.why, self._failures = True, "", 0
        if any(row.state == NOT_LAUNCHED for row in listed.containers):
            listed = replace(listed, queued=await self._queued())
        return listed

    async def _queued(self) -> int:
        """Return how many containers stand in the NodeManager's own queue; 0 when its metrics cannot be read."""
        try:
            return read_queued(await self._client.get(self.url + QUEUED_PATH))
        except (QuicksilverError, ValueError) as error:
            log.debug("the NodeManager's metrics cannot be read", why=str(error))
            return 0

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    def _failed(self, error: Exception) -> None:
        self._metrics.nm_errors.inc()
        if self.answers is not False:
            log.warning("the NodeManager's list of containers cannot be read", why=str(error))
        if self.answers or self._failures:
            self._failures += 1  # it answered once, so it is not a REST that admits nobody
        self.answers = self._is_known = False
        self.why = f"the NodeManager's REST does not answer: {error}"

    def _read_info(self, info: Any) -> None:
        """Store the node's name and when the NodeManager began."""
        inner = info.get("nodeInfo") if isinstance(info, dict) else None
        fields = inner if isinstance(inner, dict) else {}
        node_id, began_ms = fields.get("id"), fields.get("nmStartupTime")
        self._began_s = began_ms / 1000 if isinstance(began_ms, int) else 0.0
        self._is_known = True
        if isinstance(node_id, str) and node_id:
            self._on_node_id(node_id)
