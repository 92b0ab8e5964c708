"""How a master and the launchers of its application find and believe each other, without anything stored.

A launcher listens on the first free one of a few ports that follow from its container's id, so that the master of a
later attempt finds it. Both sign what they send with the key of the instance, which follows from the application's.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

SIGNATURE: Final = "X-Quicksilver-Signature"
"""Header with the signature of a message's body, between master and launchers."""
FIRST_PORT: Final = 61001
"""Above the ports of outgoing connections (net.ipv4.ip_local_port_range)."""
LAST_PORT: Final = 65499
CANDIDATES: Final = 16


def candidate_ports(container_id: str) -> list[int]:
    """Return the ports on which the launcher of a container may listen, in its order of trying."""
    ports: list[int] = []
    number = 0
    while len(ports) < CANDIDATES:
        digest = hashlib.sha256(f"{container_id}/{number}".encode()).digest()
        port = FIRST_PORT + int.from_bytes(digest[:4]) % (LAST_PORT - FIRST_PORT + 1)
        number += 1
        if port not in ports:
            ports.append(port)
    return ports


def instance_key(application_key: str, container_id: str) -> str:
    """Return the secret that the master shares with the launcher in a container."""
    return hmac.new(application_key.encode(), container_id.encode(), hashlib.sha256).hexdigest()


def sign(key: str, purpose: str, body: bytes) -> str:
    """Return the signature of a body. purpose: what it is, such as the path it is sent to; `answer` for answers."""
    return hmac.new(key.encode(), purpose.encode() + b"\0" + body, hashlib.sha256).hexdigest()


def signed(key: str, purpose: str, body: bytes, signature: str) -> bool:
    """Return whether a signature is that of the body."""
    return hmac.compare_digest(sign(key, purpose, body), signature)
