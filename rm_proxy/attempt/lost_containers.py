"""Containers that the proxy granted itself, and of whose end the ResourceManager may never report.

One that was reported to it for a node that its scheduler did not know (any more) is unknown there, without an error
(SchedulerUtils.createOpportunisticRmContainer). Such a container ends here as the ResourceManager ends those that it
knows when it loses their node: ABORTED, "Container released on a *lost* node". Its own completion goes first where it
has one: it gets two answers' time, of which one is to a request that was sent after the node was lost.
"""

from __future__ import annotations

from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind
from quicksilver.common.own_numbers import FIRST_NUMBER, LAST_NUMBER
from rm_proxy.attempt.cluster_view import ClusterView
from rm_proxy.attempt.completions import Completions
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from rm_proxy.domain import exit_codes, ids

LOST_STATES: Final = frozenset((y.NS_LOST, y.NS_UNHEALTHY, y.NS_DECOMMISSIONED, y.NS_REBOOTED, y.NS_SHUTDOWN))
"""States of nodes that the scheduler has removed, with all their containers."""
_DIAGNOSTICS: Final = "Container released on a *lost* node"
_ANSWERS: Final = 2
"""Answers after which the ResourceManager would have reported the end of a container that it knows."""
_READ_S: Final = 15.0
"""Time within which a new process reads the list of nodes; what an earlier one waited counts from then on (own)."""


class LostContainers:
    """A machine: states of nodes in, completions out, with the answers to the application master."""

    def __init__(self, world: ClusterView, live: HeldContainers, ends: Completions) -> None:
        self._world, self._live, self._ends = world, live, ends
        self._answers = 0
        self._lost: dict[str, int] = {}
        """Containers whose nodes are lost, each with how many answers there were when that was noticed."""
        self._begun_s: float | None = None
        """When a container of an unlisted node was first seen: a new process may not have read the list yet."""

    def node_lost(self, node_id: str) -> None:
        """Note that an answer of the ResourceManager reported a node as lost."""
        for live in self._live:
            if live.node_id == node_id and _own(live):
                self._lost.setdefault(live.id, self._answers)

    def look(self, now_s: float) -> None:
        """Look for containers whose nodes the ResourceManager lists as lost, or no longer lists.

        After its restart nodes are missing in its list until they register, with their containers; and a NodeManager
        that cannot reach it reports ends later. It waits for both until a node expires, and so does this.
        """
        if not self._live.count_q:
            self._lost.clear()
            return
        inventory = self._world.inventory
        for live in self._live:
            if not _own(live) or live.id in self._lost:
                continue
            lost = inventory.is_lost(live.node_id)
            silent = lost is None or (live.is_over and not lost)
            if silent is (live.silent_s is None):
                live.silent_s = now_s if silent else None
                self._live.touch(live.id)
            if live.silent_s is not None:
                lost = self._waited(live.silent_s, now_s)
            if lost:
                self._lost[live.id] = self._answers

    def _waited(self, since_s: float, now_s: float) -> bool:
        """Return whether the ResourceManager owes news for too long."""
        if self._begun_s is None:
            self._begun_s = now_s
        return now_s - since_s > self._world.inventory.node_expiry_s and now_s - self._begun_s >= _READ_S

    def settle(self, answer: y.AllocateResponseProto) -> bool:
        """Add the completions that the ResourceManager has not reported in time to an answer, as it words them.

        Returns whether there are any.
        """
        self._answers += 1
        if not self._lost:
            return False
        due = [c for c, answers in self._lost.items() if self._answers - answers >= _ANSWERS]
        before = len(answer.completed_container_statuses)
        reported = {ids.container_id_text(status.container_id) for status in answer.completed_container_statuses}
        for container_id in due:
            del self._lost[container_id]
            live = self._live.get(container_id)
            if live is None or container_id in reported:
                continue
            answer.completed_container_statuses.append(_completion(live))
            self._ends.releases.add(ids.copied(live.proto))  # it knows it after all if its node registers with it
        return len(answer.completed_container_statuses) > before


def _own(live: HeldContainer) -> bool:
    return live.kind is Kind.QUEUEABLE and FIRST_NUMBER < live.proto.id <= LAST_NUMBER


def _completion(live: HeldContainer) -> y.ContainerStatusProto:
    status = y.ContainerStatusProto(
        state=y.C_COMPLETE, exit_status=exit_codes.ABORTED, diagnostics=_DIAGNOSTICS, executionType=y.OPPORTUNISTIC
    )
    status.container_id.CopyFrom(live.proto)
    status.capability.memory = int(live.resources.memory_mb)
    status.capability.virtual_cores = int(live.resources.vcores)
    return status
