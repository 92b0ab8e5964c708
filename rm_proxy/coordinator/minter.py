"""Grants containers without the ResourceManager: on nodes that it runs, and whose master keys are known.

Does what its allocator does for OPPORTUNISTIC containers (OpportunisticContainerAllocator.buildContainer): the size is
rounded as the scheduler rounds it, the token names the node's partition.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Resources
from rm_proxy.coordinator.cluster_state import ClusterState
from rm_proxy.minting.key_ring import KeyRing
from rm_proxy.minting.tokens import Minted, add_container_token, nm_token

_FENCE_RATIO: Final = 0.5
"""Part of the time for which reports are fresh: by default 3 s, sidecars report each 2 s (own)."""


class Minter:
    """Makes containers with their tokens, where `own_grants` is on."""

    def __init__(self, state: ClusterState) -> None:
        self.ring = KeyRing()
        self._state, self._count = state, 0

    @property
    def on(self) -> bool:
        """Whether any container may be minted at all."""
        return self._state.limits.own_grants

    def take_count(self) -> int:
        """Return how many containers were made since the last call."""
        count, self._count = self._count, 0
        return count

    def fences(self, node_id: str, now_s: float) -> bool:
        """Return whether a node's sidecar starts no container of ours before the ResourceManager knows it.

        One that missed a report may not run any more.
        """
        node = self._state.nodes.get(node_id)
        return node is not None and node.fences(now_s, self._state.limits.report_fresh_s * _FENCE_RATIO)

    def fenced_since(self, node_id: str, since_s: float) -> bool:
        """Return whether a node's sidecar was there all the time; as far as its connection for reports shows."""
        node = self._state.nodes.get(node_id)
        return node is not None and node.cut_s < since_s

    def refused(self, why: str, now_s: float) -> None:
        """Note that the ResourceManager takes no such containers."""
        self.ring.refused(why, now_s)

    def mint(
        self, container: y.ContainerProto, node_id: str, size: Resources, user: str, now_s: float
    ) -> Minted | None:
        """Return a container on a node, with its tokens; None where the ResourceManager has to grant it.

        container: has its id, type, priority and request id; size: as it was asked for, without other resources.
        """
        node = self._state.nodes.get(node_id)
        keys = self.ring.keys(node_id, now_s)
        if keys is None or node is None or node.yarn is None or not node.yarn.running or node.unusable:
            return None
        limits, yarn = self._state.limits, node.yarn
        size = normalised(size, limits.minimum, limits.maximum)
        container.nodeId.host, _, port = node_id.rpartition(":")
        container.nodeId.port = int(port)
        container.node_http_address = yarn.web_address
        container.resource.memory, container.resource.virtual_cores = int(size.memory_mb), int(size.vcores)
        add_container_token(container, user, yarn.label, keys, now_s, limits.token_expiry_s)
        token = nm_token(container.id.app_attempt_id, container.nodeId, user, keys)
        self._count += 1
        return Minted(container, token, keys.nm.key_id)


def normalised(size: Resources, minimum: Resources, maximum: Resources) -> Resources:
    """Return a size as the scheduler rounds it: to a multiple of the least one, and no more than the largest one."""
    return Resources(
        _rounded(size.memory_mb, minimum.memory_mb, maximum.memory_mb),
        _rounded(size.vcores, minimum.vcores, maximum.vcores),
    )


def _rounded(amount: float, minimum: float, maximum: float) -> int:
    least = max(amount, minimum)
    rounded = ceil(least / minimum) * minimum if minimum > 0 else least
    return int(min(rounded, maximum) if maximum > 0 else rounded)
