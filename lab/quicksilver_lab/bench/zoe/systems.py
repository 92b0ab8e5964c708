"""What is compared, as data: stock YARN, and quicksilver with each admission.

The admission counts memory alone, as the Capacity Scheduler does with its DefaultResourceCalculator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from policies.config.presets import DEFAULT
from quicksilver_lab.bench.mercury.competitors import TUNED

Order = Literal["fifo", "sjf", "srpt", "hrrn"]
Size = Literal["1d", "2d", "3d"]
ORDERS: Final[tuple[Order, ...]] = ("fifo", "sjf", "srpt", "hrrn")
SIZES: Final[tuple[Size, ...]] = ("1d", "2d", "3d")
ADMISSIONS: Final = ("rigid", "flexible", "malleable", "preemptive")
PRESET: Final = "zoe"
_QUEUE_LENGTH: Final = 10_000
"""At a NodeManager under quicksilver, whose queue is the sidecar's: far above what ever waits."""


@dataclass(frozen=True, slots=True)
class ZoeSystem:
    """One way to run the same applications."""

    name: str
    note: str
    scheduler_site: Mapping[str, str] = field(default_factory=lambda: dict(TUNED))
    """Of capacity-scheduler.xml."""
    policies: Mapping[str, Any] | None = None
    """That section of quicksilver.yaml; None without quicksilver."""

    @property
    def quicksilver(self) -> bool:
        """Whether proxy and sidecars take part."""
        return self.policies is not None

    @property
    def nm_queue_length(self) -> int:
        """yarn.nodemanager.opportunistic-containers-max-queue-length."""
        return _QUEUE_LENGTH if self.quicksilver else 0

    @property
    def admission(self) -> str:
        """The discipline that the simulator has too, "" for none."""
        return self.name if self.name in ADMISSIONS else ""


NAMES: Final = ("stock", *ADMISSIONS, DEFAULT)


def system(name: str, order: Order = "fifo", size: Size = "1d") -> ZoeSystem:
    """Return a system by its name. Raises KeyError."""
    if name == "stock":
        return ZoeSystem(name, "Capacity Scheduler with 100 off-switch assignments, asynchronous scheduling")
    if name == DEFAULT:
        return ZoeSystem(name, f"quicksilver's preset {DEFAULT}, which admits all", policies={"preset": DEFAULT})
    if name not in ADMISSIONS:
        raise KeyError(name)
    admit = {"policy": name, "settings": {"order": order, "size": size, "count": "memory"}}
    note = f"quicksilver's preset {PRESET}, admission {name} in the order {order} by {size}"
    return ZoeSystem(name, note, policies={"preset": PRESET, "admit": admit})
