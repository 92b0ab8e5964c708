"""Containers that the proxy grants itself, of one application attempt: from their minting to the answer with them.

The ResourceManager gets to know them with the request that they were minted for, by the protocol of distributed
schedulers (Mercury §3.3; DistributedSchedulingAMProtocol), and the application master gets them with its answer. Until
that came, nobody but the ResourceManager may know of them: after any failure they are released, and minted anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.own_numbers import FIRST_NUMBER, LAST_NUMBER, number_after
from rm_proxy.attempt.asks.ask_entry import QPlacement
from rm_proxy.attempt.asks.ask_table import AskTable, ask_again
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.completions import Completions
from rm_proxy.attempt.held_containers import HeldContainers
from rm_proxy.attempt.lost_containers import LostContainers
from rm_proxy.attempt.snapshot_changes import SnapshotChanges
from rm_proxy.domain import ids
from rm_proxy.minting.key_ring import MAX_NODES
from rm_proxy.minting.tokens import Minted

_START_BELOW: Final = 1 << 29
"""The first number is random below it, so that those of an earlier process of which no journal is left do not recur."""


class OwnGrants:
    """Mints containers for the request in hand; `number` is that of the last one."""

    def __init__(
        self,
        attempt_id: str,
        world: ClusterView,
        table: AskTable,
        live: HeldContainers,
        ends: Completions,
        notebook: SnapshotChanges,
    ) -> None:
        self.attempt = ids.attempt_id_proto(attempt_id)
        self.number = FIRST_NUMBER + world.rng.randrange(_START_BELOW)
        self._app_id, self._world = ids.app_of_attempt(attempt_id), world
        self._table, self._ends, self._notebook = table, ends, notebook
        self.lost = LostContainers(world, live, ends)
        self.fresh: list[Minted] = []
        """Minted for the request in hand, and not journaled yet."""
        self.open: list[Minted] = []
        """Those of the request without an answer, which the ResourceManager may know."""
        self.minted: Sequence[Minted] = ()
        """Those that have to go with the request in hand."""
        self._key_ids: dict[str, int] = {}
        """By node: the id of the key of the last NMToken that the application master was sent."""

    def mint(self, q: QPlacement, private: int, now_s: float) -> bool:
        """Grant a container on its node under a private id, with the request in hand; returns whether it can be."""
        app = self._world.apps.app(self._app_id)
        if app is None or not app.user or q.entry.beyond:
            return False
        ahead = self._world.hooks.early_answers and self._world.minter.fences(q.node_id, now_s)
        number = number_after(self.number, ahead)
        if number > LAST_NUMBER:
            return False
        container = y.ContainerProto(execution_type=y.OPPORTUNISTIC, allocation_request_id=private)
        container.id.app_attempt_id.CopyFrom(self.attempt)
        container.id.id = number
        container.priority.priority = q.entry.key.priority
        minted = self._world.minter.mint(container, q.node_id, q.entry.resources, app.user, now_s)
        if minted is None:
            return False
        self.number = number
        self.fresh.append(minted)
        return True

    def attach(self) -> None:
        """Have what was minted go with the request in hand, beside what went with the one that it repeats."""
        fresh, self.fresh = self.fresh, []
        if fresh:
            self._notebook.minted(fresh, self._table.serial, self.number)
        self.open = [*self.open, *fresh]
        self.minted = self.open

    def give_back(self) -> None:
        """Release the containers of a request that was not answered, and ask for others."""
        minted, self.open, self.minted = self.open, [], ()
        for grant in minted:
            self._ends.release_unseen(grant.container.id)
            ask_again(self._table, grant.container.allocation_request_id)
        self._notebook.minted_over(minted)

    def deliver(self, answer: y.AllocateResponseProto) -> None:
        """Put containers into the answer to their request, with the NMTokens that the application master lacks."""
        minted, self.open = self.open, []
        for grant in minted:
            answer.allocated_containers.append(grant.container)
            node_id = ids.node_id_text(grant.container.nodeId)
            if self._key_ids.get(node_id) != grant.nm_key_id:
                if len(self._key_ids) >= MAX_NODES:  # nodes with ports of their own at each start
                    self._key_ids.clear()
                self._key_ids[node_id] = grant.nm_key_id
                answer.nm_tokens.append(grant.nm_token)
        self._notebook.minted_over(minted)

    def start_over(self) -> None:
        """Note that the application master registers anew: it gets its NMTokens again."""
        self._key_ids.clear()
        if self.open:
            self.give_back()
