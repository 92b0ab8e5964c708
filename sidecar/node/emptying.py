"""Empties a node that an admin drains with a time limit: at its end the queueable containers that still run are killed.

Their application masters have that time: the proxy reports the node to them as DECOMMISSIONING.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sidecar.node.container import Container
from sidecar.node.endings import Endings
from sidecar.node.events import Drain, ReportSoon
from sidecar.node.node_policies import NodePolicies
from sidecar.node.node_state import NodeState

BY: Final = "admin"
"""The party whose drains may have a time limit."""


class Emptying:
    """The time limit of a drain."""

    def __init__(self, state: NodeState, endings: Endings, policies: NodePolicies) -> None:
        self.state, self._endings, self._policies = state, endings, policies
        self._is_over = False

    def drain(self, event: Drain) -> None:
        """Begin, change or end the time limit."""
        if event.by != BY:
            return
        for container in self._running():
            if container.kill_s is not None and container.kill_s == self.state.drain_until_s:
                container.kill_s = None
        before, self._is_over = self.state.drain_until_s, False
        until_s = None if event.timeout_s is None or not event.on else event.now_s + event.timeout_s
        self.state.drain_until_s = until_s
        if until_s != before:
            self.state.out.append(ReportSoon())
        self.tick(event.now_s)

    def deadline_s(self) -> float | None:
        """Return when the next notices or the kills are due; None for never."""
        if self.state.drain_until_s is None or self._is_over:
            return None
        unnoticed = [c for c in self._running() if c.kill_s is None and self._notice_s(c) > 0]
        return min((self.state.drain_until_s - self._notice_s(c) for c in unnoticed), default=self.state.drain_until_s)

    def tick(self, now_s: float) -> None:
        """Give the notices that are due; kill at the end of the time limit."""
        if self.state.drain_until_s is None or self._is_over:
            return
        self._is_over = now_s >= self.state.drain_until_s
        noticed = False
        for container in list(self._running()):
            if self._is_over:
                self._endings.kill(container, self.state.drains.get(BY, ""), "drain", now_s)
            elif container.kill_s is None and self._notice_s(container) >= self.state.drain_until_s - now_s:
                container.kill_s, noticed = self.state.drain_until_s, True
        if noticed:
            self.state.out.append(ReportSoon())

    def _running(self) -> Iterator[Container]:
        return (c for c in self.state.containers.values() if self._endings.killable(c))

    def _notice_s(self, container: Container) -> float:
        return self._policies.notice_s(container.grant.app_type) if container.grant is not None else 0.0
