"""Words of whole applications: what one needs at once, and what it can use beside it (Zoe, §2).

Without all of its core containers an application does no work; elastic ones come and go while it runs. The policies
`flexible`, `preemptive`, `malleable` and `rigid` of the slot `admit` decide by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from policies.model import Resources, total


@dataclass(frozen=True, slots=True)
class Containers:
    """Some containers of one size and one YARN request priority."""

    priority: int
    size: Resources
    count: int

    @property
    def all(self) -> Resources:
        """Their size together."""
        return Resources(self.size.memory_mb * self.count, self.size.vcores * self.count)


@dataclass(frozen=True, slots=True)
class AppRequest:
    """One application that wants to run, or is in service."""

    id: str
    limits: tuple[str, ...]
    """Names of the limits that it falls under (`Room.limits`), the narrowest first: its user in its YARN queue, that
    queue, the queues above it."""
    arrived_s: float
    """When it was submitted; Unix seconds."""
    core: tuple[Containers, ...]
    elastic: tuple[Containers, ...] = ()
    """All that it could use now beside its core, those that it has included."""
    runtime_s: float = 0.0
    """Expected, with everything that it asks for (in isolation)."""
    priority: int = 0
    """The higher goes first, whatever the order says (§4.5)."""
    left_ratio: float = 1.0
    """Share of its work that is left, 0..1."""
    entered_s: float | None = None
    """Since when it is in service; None while it waits."""
    granted: Mapping[int, int] = field(default_factory=dict)
    """Elastic containers of its share by request priority, as the policy decided last."""
    core_size: Resources = field(init=False)
    whole_size: Resources = field(init=False)
    """Core and elastic together."""

    def __post_init__(self) -> None:
        core = total(each.all for each in self.core)
        object.__setattr__(self, "core_size", core)
        object.__setattr__(self, "whole_size", core + total(each.all for each in self.elastic))


@dataclass(frozen=True, slots=True)
class Room:
    """The resources that applications share."""

    total: Resources
    """Of all nodes, without what runs outside of the admission: application masters, applications that pass by."""
    limits: Mapping[str, Resources] = field(default_factory=dict)
    """Maximum of each YARN queue by its full path, and of its users, likewise; what is not named has no limit."""

    def memory_only(self) -> Room:
        """Return the room where vcores are not counted, as with YARN's DefaultResourceCalculator."""
        limits = {name: Resources(size.memory_mb, inf) for name, size in self.limits.items()}
        return Room(Resources(self.total.memory_mb, inf), limits)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which applications are in service, and with how many elastic containers ("virtual assignment", §3.2)."""

    shares: Mapping[str, Mapping[int, int]]
    """By application in service: elastic containers by request priority."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """By application that waits: why, in words."""
