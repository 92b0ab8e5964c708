"""Settings that preempting without killing has in common (Kairos, thesis chapter 4): `preempt: las` and `freeze`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pydantic import Field

from policies.base import PolicyConfig
from policies.common.victims import Victims, fewest
from policies.model import ContainerView, Kind, Resources, Way


class Overcommit(StrEnum):
    """What counts as free memory for a guaranteed container."""

    NONE = "none"
    """Memory that is not allocated."""
    MEASURED = "measured"
    """Measured physical memory beyond `sidecar.reserve_mb`, as far as the NodeManager believes to have it."""


class Shrinking(PolicyConfig):
    """Settings of a node that runs more containers than it has cores and lets the least attained service go first."""

    quantum_s: float = Field(
        50.0, gt=0, json_schema_extra={"source": "Kairos thesis §4.5.2, W; 10 to 100 s did as well"}
    )
    """W: a running container that has attained no less than one that stands still gives way after this time."""
    extra: float = Field(4.0, ge=0, json_schema_extra={"unit": "vcores", "source": "Kairos thesis §4.5.2, Q"})
    """Q: queueable containers are started until the node's vcores and this many more are taken."""
    starve_quanta: int = Field(3, ge=1, json_schema_extra={"unit": "quanta", "source": "Kairos thesis §4.6, k"})
    """k: a container that did not run for this many quanta runs next."""
    protect_quanta: int = Field(1, ge=1, json_schema_extra={"unit": "quanta", "source": "own; m in Kairos §4.3.2"})
    """m: number of quanta that it then runs without giving way."""
    min_cores: float = Field(0.05, gt=0, le=1, json_schema_extra={"source": "own"})
    """Cores that a shrunk container keeps, so that its own heartbeats go on; never 0."""
    by_job: bool = Field(False, json_schema_extra={"source": "own"})
    """Whether the service of the whole job, over all nodes and in levels, comes before the container's own: of the
    widest job a container gives way first."""
    by_type: dict[str, Way] = Field(
        {"SPARK": Way.NONE, "FLINK": Way.NONE, "APACHE FLINK": Way.NONE},
        json_schema_extra={"source": "own: executors serve each other's blocks"},
    )
    """How containers of an application type (upper case) are preempted, where it is not the policy's own way: shrink,
    freeze, kill or none."""

    overcommit: Overcommit = Field(Overcommit.NONE, json_schema_extra={"source": "own"})
    """Whether a guaranteed container may start beside queueable ones where they have allocated the memory, but do not
    use it: then they are shrunk in place of being killed. With measured, physical memory beyond sidecar.reserve_mb
    counts as free, as far as the NodeManager is configured with more than sidecar.memory_mb."""
    victims: Victims = Field(Victims.LEAST_WORK, json_schema_extra={"source": "own"})
    """Order of kills when memory is needed, which shrinking does not free."""

    def own_way(self) -> Way:
        """Return how this policy preempts."""
        return Way.SHRINK

    def way(self, container: ContainerView) -> Way:
        """Return how a running container is preempted; a guaranteed one never is."""
        if container.kind is not Kind.QUEUEABLE:
            return Way.NONE
        return self.by_type.get(container.app_type.upper(), self.own_way())


def victims(need: Resources, running: Sequence[ContainerView], cfg: Shrinking, now_s: float) -> list[str]:
    """Return ids of containers that together free `need`, in the order of `cfg.victims`; see `fewest`.

    Vcores are asked for only where the NodeManager would kill by itself: for CPU alone containers are shrunk. Never one
    that is not preempted in any way.
    """
    return fewest(need, [c for c in running if cfg.way(c) is not Way.NONE], cfg.victims, now_s)
