"""Lets more containers run than the node has cores, and decides which of them are shrunk.

It joins the node's containers with the machine of least attained service (`sidecar.cpu_sharing.las`), and keeps what
was measured of them. Without a shrinking policy it does nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from policies.common.shrinking import Shrinking
from policies.model import ContainerView, Kind, Way
from sidecar.cpu_sharing.events import (
    NEW,
    Jobs,
    Joined,
    LasCommand,
    LasEvent,
    LasRules,
    Left,
    Pinned,
    ReadyContainer,
    Resized,
    Ruled,
    Served,
    SharingTurn,
    Squeezed,
    Story,
)
from sidecar.cpu_sharing.las import Las
from sidecar.cpu_sharing.share import CoreShare
from sidecar.node.container import Container, Rules


def las_rules(shrinking: Shrinking, cores: float) -> LasRules:
    """Return the machine's rules for a node of so many vcores."""
    return LasRules(
        cores=cores,
        quantum_s=shrinking.quantum_s,
        starve_quanta=shrinking.starve_quanta,
        protect_quanta=shrinking.protect_quanta,
        min_cores=shrinking.min_cores,
        by_job=shrinking.by_job,
    )


class Sharing:
    """How the containers of one node share its CPU. `shrinking` is None where nothing is ever shrunk."""

    def __init__(self, shrinking: Shrinking | None = None, rules: Rules | None = None) -> None:
        self.shrinking = shrinking
        self.las: Las | None = None
        self.memory_used_mb: dict[str, int] = {}
        """Resident memory of the containers that are measured."""
        self.limit = ""
        """Why no container can be shrunk here although the policy shrinks; "" when it can."""
        self.whole = False
        """Whether the resizer knows only all or nothing."""
        self._am_vcores = rules.am_vcores if rules else None
        if shrinking is not None and rules is not None:
            self.las = Las(las_rules(shrinking, rules.capacity.vcores))

    def join(self, container: Container, now_s: float, story: Story = NEW) -> list[LasCommand]:
        """Handle a start that goes to the NodeManager; `story`: one that went in an earlier sidecar process."""
        if self.las is None or self.shrinking is None:
            return []
        vcores = float(container.start.resources.vcores)
        if container.start.am and self._am_vcores is not None:
            vcores = self._am_vcores
        way, app_id = self.way(container), container.start.app_id
        return self.las.handle(Joined(container.id, vcores, way, now_s, self.whole, story, app_id))

    def pin(self, container_id: str, now_s: float) -> list[LasCommand]:
        """Handle that a container became guaranteed."""
        return self._pass(Pinned(container_id, now_s))

    def leave(self, container_id: str, now_s: float) -> list[LasCommand]:
        """Forget a container that is over or being killed."""
        self.memory_used_mb.pop(container_id, None)
        return self.las.handle(Left(container_id, now_s)) if self.las is not None else []

    def handle(self, event: ReadyContainer | Served | Resized | Squeezed | Ruled) -> list[LasCommand]:
        """Pass on a measurement, or the result of a resize."""
        return self._pass(event)

    def jobs(self, attained_s: Mapping[str, float], spared: Collection[str], now_s: float) -> list[LasCommand]:
        """Learn what the jobs of these applications attained over all nodes, and which are spared."""
        if self.shrinking is None or not self.shrinking.by_job:
            return []
        return self._pass(Jobs(attained_s, spared, now_s))

    def turn(self, now_s: float) -> list[LasCommand]:
        """Handle that time went by."""
        return self._pass(SharingTurn(now_s))

    def retune(self, shrinking: Shrinking, now_s: float) -> list[LasCommand]:
        """Apply settings; how a container gives way stays as it was when it started."""
        if self.las is None:
            return []
        self.shrinking = shrinking
        return self._pass(Ruled(las_rules(shrinking, self.las.rules.cores), now_s))

    def deadline_s(self) -> float | None:
        """Return the latest time of the next turn."""
        return self.las.deadline_s() if self.las is not None else None

    def way(self, container: Container) -> Way:
        """Return how a container gives way."""
        if self.shrinking is None or not container.yields or container.start.am:
            return Way.NONE
        return self.shrinking.way(replace(container.view(), kind=Kind.QUEUEABLE))

    def share(self, container_id: str) -> CoreShare | None:
        """Return the machine's record of a container."""
        return self.las.shares.get(container_id) if self.las is not None else None

    def shares(self) -> Mapping[str, CoreShare]:
        """Return the machine's records of all containers."""
        return self.las.shares if self.las is not None else {}

    def view(self, container: Container) -> ContainerView:
        """Return a container as the policies see it, with its measurements."""
        share = self.share(container.id)
        return container.view(share.attained_s if share else None, self.memory_used_mb.get(container.id))

    def attained_s(self) -> float:
        """Return the attained service of all resizable containers together (Kairos §4.5.3)."""
        return self.las.attained_s() if self.las is not None else 0.0

    def spread_s(self) -> float:
        """Return the standard deviation of attained service (Kairos §4.3.3)."""
        return self.las.spread_s() if self.las is not None else 0.0

    def _pass(self, event: LasEvent) -> list[LasCommand]:
        return self.las.handle(event) if self.las is not None else []
