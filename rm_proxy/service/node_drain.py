"""Nodes emptied by hand: an admin's word is handed to the node's sidecar, which keeps it until it is taken back."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_client import RestClient
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.security import Credentials
from quicksilver.common.messages import Draining
from quicksilver.common.process.logs import get_logger
from rm_proxy.coordinator.coordinator import Coordinator

__all__ = ["NodeDrain"]
_TIMEOUT_S: Final = 5.0
log = get_logger(__name__)


class NodeDrain:
    """Tells sidecars; `credentials` are what they want to see of the proxy."""

    def __init__(self, coordinator: Coordinator, credentials: Credentials | None) -> None:
        self._coordinator, self._credentials = coordinator, credentials
        self._thread = ThreadPoolExecutor(2, "drain")

    async def drain(self, node_id: str, wanted: Draining, who: str) -> None:
        """Have a node hold nothing, or hold starts again. Raises ApiError when its sidecar cannot be told."""
        node = self._coordinator.nodes.get(node_id)
        if node is None:
            raise ApiError(404, "unknown-node", f"there is no node {node_id}")
        if node.report is None:
            raise ApiError(409, "no-sidecar", f"the sidecar of {node_id} has not reported yet")
        url = node.report.sidecar_url
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._post, url, wanted)
        except QuicksilverError as error:
            raise ApiError(502, "sidecar-unreachable", f"the sidecar of {node_id} was not told: {error}") from error
        log.info("node drained" if wanted.on else "node takes starts again", node=node_id, who=who, why=wanted.reason)

    def close(self) -> None:
        """Give the threads back."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _post(self, url: str, wanted: Draining) -> None:
        client = RestClient(url, timeout_s=_TIMEOUT_S, pool=1, credentials=self._credentials)
        try:
            client.post("/v1/drain", wanted)
        finally:
            client.close()
