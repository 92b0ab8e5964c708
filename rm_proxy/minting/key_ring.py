"""The master keys that NodeManagers have, as their tracker relays report them; in memory alone.

A NodeManager accepts its current key and the one before. A token for it is made with the newest key that it was given.
Keys belong to one run of a ResourceManager, whose start time the tokens name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rm_proxy.minting.tokens import NodeKeys

FRESH_S: Final = 120.0
"""Age of a report from which on its keys are not used: the node may have other ones. Relays report each 30 s."""
MAX_NODES: Final = 20_000
"""Nodes whose keys are stored; those of further ones are not taken."""
KeyReport = tuple[str, NodeKeys, float]
"""A node, its keys, and when they were reported."""
TRIAL_S: Final = 300.0
"""Time after which a ResourceManager that does not know the protocol is tried again."""


class KeyRing:
    """A machine: reports of keys in, the keys to use for a node out; `now_s` may be any clock that does not go back."""

    def __init__(self) -> None:
        self.rm_identifier = 0
        """Start time of the ResourceManager that serves, in milliseconds; 0 while it is not known."""
        self.why_off = ""
        """Why the ResourceManager takes no containers of our own; "" while it may."""
        self._keys: dict[str, tuple[NodeKeys, float]] = {}
        self._container_key_ids: set[int] = set()
        """Those of nodes that registered at this ResourceManager."""
        self._again_s = 0.0

    def serves(self, rm_identifier: int) -> None:
        """Note which ResourceManager serves now; the keys of an earlier run are void."""
        if rm_identifier != self.rm_identifier:
            self.rm_identifier, self.why_off = rm_identifier, ""
            self._container_key_ids = {
                keys.container.key_id for keys, _ in self._keys.values() if keys.rm_identifier == rm_identifier
            }

    def report(self, node_id: str, keys: NodeKeys, now_s: float) -> bool:
        """Handle a node's report; returns whether it was taken."""
        if node_id not in self._keys and len(self._keys) >= MAX_NODES:
            return False
        if keys.rm_identifier and keys.rm_identifier == self.rm_identifier:
            self._container_key_ids.add(keys.container.key_id)
        self._keys[node_id] = keys, now_s
        return True

    def reports(self, now_s: float) -> list[KeyReport]:
        """Return what was reported of each node and is not too old, for the other workers of a proxy."""
        return [(node_id, keys, at_s) for node_id, (keys, at_s) in self._keys.items() if now_s - at_s <= FRESH_S]

    def forget(self, node_id: str) -> None:
        """Forget a node."""
        self._keys.pop(node_id, None)

    def clear(self) -> None:
        """Forget all: another ResourceManager serves."""
        self._keys.clear()
        self._container_key_ids.clear()

    def keys(self, node_id: str, now_s: float) -> NodeKeys | None:
        """Return the keys for a node; None where nothing can be granted there: old keys, or of an earlier run.

        A relay that was restarted knows no start time: it is the one of other nodes that have the same key.
        """
        known = self._keys.get(node_id)
        if known is None or now_s - known[1] > FRESH_S or not self.rm_identifier or not self.accepted(now_s):
            return None
        keys = known[0]
        if keys.rm_identifier:
            return keys if keys.rm_identifier == self.rm_identifier else None
        same = keys.container.key_id in self._container_key_ids
        return replace(keys, rm_identifier=self.rm_identifier) if same else None

    def usable(self, now_s: float) -> int:
        """Return for how many nodes there are keys."""
        return sum(1 for node_id in self._keys if self.keys(node_id, now_s) is not None)

    # Whether the ResourceManager takes them

    def refused(self, why: str, now_s: float) -> None:
        """Note that the ResourceManager does not know the protocol."""
        self.why_off, self._again_s = why, now_s + TRIAL_S

    def accepted(self, now_s: float) -> bool:
        """Return whether the ResourceManager may be sent containers of our own."""
        if self.why_off and now_s >= self._again_s:
            self.why_off = ""
        return not self.why_off
