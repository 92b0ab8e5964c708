"""The request of an application as a whole: core components, which it needs, and elastic ones for more speed.

After Zoe ("Flexible Scheduling of Distributed Analytic Applications", §2): without all of its core components an
application does no work; elastic ones come and go while it runs. Admission (`admission.py`) decides by requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from policies.common.request_order import RequestSize, size_of


@dataclass(frozen=True, slots=True)
class Components:
    """Some components of equal size."""

    count: int
    millicores: int = 1000
    """Of each; thousandths of a core, so that sums are exact."""
    memory_mb: int = 0
    """Of each; 0: not counted."""

    def __post_init__(self) -> None:
        """Raise ValueError for amounts that cannot be counted."""
        if self.count < 0 or self.millicores < 1 or self.memory_mb < 0:
            raise ValueError(f"{self}: count and memory_mb must be 0 or more, millicores 1 or more")

    def fitting(self, millicores: int, memory_mb: int) -> int:
        """Return how many of them the given room holds, at most `count`; 0 when it is less than nothing."""
        many = min(self.count, millicores // self.millicores)
        if self.memory_mb:
            many = min(many, memory_mb // self.memory_mb)
        return max(0, many)


NONE: Final = Components(0)


@dataclass(frozen=True, slots=True)
class ResearchRequest:
    """One application that wants to run."""

    id: int
    arrived_s: float
    runtime_s: float
    """Expected, with all of its components granted (in isolation); > 0."""
    core: Components
    elastic: Components = NONE
    priority: int = 0
    """Set by hand: the higher goes first, whatever the order says (§4.5)."""
    core_millicores: int = field(init=False)
    core_mb: int = field(init=False)
    whole_millicores: int = field(init=False)
    """Core and elastic together, as `whole_mb`."""
    whole_mb: int = field(init=False)

    def __post_init__(self) -> None:
        """Raise ValueError when it could never do any work, or would take no time."""
        if self.core.count < 1 or not self.runtime_s > 0:
            raise ValueError(
                f"application {self.id}: {self.core.count} core components, {self.runtime_s} s; "
                "one component and more than 0 s are the least"
            )
        core, elastic = self.core, self.elastic
        object.__setattr__(self, "core_millicores", core.count * core.millicores)
        object.__setattr__(self, "core_mb", core.count * core.memory_mb)
        object.__setattr__(self, "whole_millicores", self.core_millicores + elastic.count * elastic.millicores)
        object.__setattr__(self, "whole_mb", self.core_mb + elastic.count * elastic.memory_mb)


def runtime(request: ResearchRequest) -> float:
    """Return its expected runtime in seconds (size 1D, Table 2)."""
    return request.runtime_s


def components(request: ResearchRequest) -> float:
    """Return runtime x number of components, in component-seconds (size 2D, Table 2)."""
    return size_of(RequestSize.COMPONENTS, request.runtime_s, _parts(request))


def volume(request: ResearchRequest) -> float:
    """Return runtime x the sum of cores x memory of each component, in core-GB-seconds (size 3D, Table 2).

    Where memory is not counted, each component has 1 GB.
    """
    return size_of(RequestSize.VOLUME, request.runtime_s, _parts(request))


def _parts(request: ResearchRequest) -> Iterator[tuple[int, float, float]]:
    return ((c.count, c.millicores / 1000, (c.memory_mb or 1024) / 1024) for c in (request.core, request.elastic))


SIZES: Final[dict[str, Callable[[ResearchRequest], float]]] = {"1d": runtime, "2d": components, "3d": volume}
"""Definitions of the size of an application (§4.4)."""
