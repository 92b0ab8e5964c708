"""Nodes emptied by hand: an admin's order goes to the node's sidecar, which follows it until it is taken back
(sidecar/node/proxy_orders.py)."""

from __future__ import annotations

from typing import Final

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.security import Credentials
from quicksilver.common.messages import Draining
from quicksilver.common.process.logs import get_logger
from rm_proxy.coordinator.coordinator import Coordinator

_TIMEOUT_S: Final = 5.0
log = get_logger(__name__)


class NodeDrain:
    """Sends orders to sidecars; `credentials` show them that it is the proxy."""

    def __init__(self, coordinator: Coordinator, credentials: Credentials | None) -> None:
        self._coordinator, self._credentials = coordinator, credentials

    async def drain(self, node_id: str, order: Draining, author: str) -> None:
        """Have a node hold nothing, or hold starts again. Raises ApiError when its sidecar cannot be reached."""
        node = self._coordinator.nodes.get(node_id)
        if node is None:
            raise ApiError(404, "unknown-node", f"there is no node {node_id}")
        if node.report is None:
            raise ApiError(409, "no-sidecar", f"the sidecar of {node_id} has not reported yet")
        url = node.report.sidecar_url.rstrip("/")
        client = AsyncRestClient(timeout_s=_TIMEOUT_S, credentials=self._credentials)
        try:
            await client.post(f"{url}/v1/drain", order)
        except QuicksilverError as error:
            problem = f"the sidecar of {node_id} did not get the order: {error}"
            raise ApiError(502, "sidecar-unreachable", problem) from error
        finally:
            await client.close()
        log.info("node drained" if order.on else "node takes starts again", node=node_id, who=author, why=order.reason)
