"""Takes the master keys that tracker relays report; they go into memory, and nowhere else."""

from __future__ import annotations

import asyncio
import base64
import binascii
import socket
from collections.abc import Callable
from dataclasses import dataclass

from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.messages import MasterKeyMessage, NodeKeysMessage
from quicksilver.common.process.logs import get_logger
from rm_proxy.api.key_routes import take_no_keys
from rm_proxy.minting.key_ring import MAX_NODES, KeyReport, KeyRing
from rm_proxy.minting.tokens import MasterKey, NodeKeys

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeyReports:
    """Reports of keys in, the ring changed.

    use_ip: whether tokens name the address of their node (hadoop.security.token.service.use_ip); known: returns
    whether there is such a node; now: returns Unix seconds; pass_on: gets what was taken, in a worker of several.
    """

    ring: KeyRing
    on: bool
    use_ip: bool
    known: Callable[[str], bool]
    now: Callable[[], float]
    pass_on: Callable[[KeyReport], None] = lambda report: None

    async def report(self, node_id: str, message: NodeKeysMessage) -> None:
        """Handle a node's keys. Raises ApiError."""
        if not self.on:
            await take_no_keys(node_id, message)
        if not self.known(node_id):
            raise ApiError(503, "unknown-node", f"there is no node {node_id} yet")
        container, nm = _key(message.container, "container"), _key(message.nm, "nm")
        keys = NodeKeys(container, nm, message.rm_identifier, await self._service(node_id))
        now_s = self.now()
        if not self.ring.report(node_id, keys, now_s):
            raise ApiError(503, "too-many-nodes", f"the keys of {MAX_NODES} nodes are known: this one's are not taken")
        self.pass_on((node_id, keys, now_s))

    async def _service(self, node_id: str) -> str:
        """Return what tokens name as the node's service; "" where its name serves."""
        host, _, port = node_id.rpartition(":")
        if not self.use_ip or not port.isdigit():
            return ""
        try:
            addresses = await asyncio.get_running_loop().getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        except OSError as error:
            log.warning("the address of a node is not known: its tokens name the host", node=node_id, why=str(error))
            return ""
        return f"{addresses[0][4][0]}:{port}"


def _key(message: MasterKeyMessage, name: str) -> MasterKey:
    try:
        return MasterKey(message.key_id, base64.b64decode(message.secret.get_secret_value(), validate=True))
    except binascii.Error:
        raise ApiError(422, "invalid", f"body.{name}.secret: is not base64") from None
