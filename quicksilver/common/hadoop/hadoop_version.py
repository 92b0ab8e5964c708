"""What a version of Hadoop can do, as far as quicksilver depends on it: the one place that compares versions.

Read in the sources of 3.1.4, 3.2.4, 3.3.6, 3.4.1, 3.4.2 and 3.5.0, and for 3.1.1 in its classes; lab/docs/versions.md
has the differences, docs/compatibility.md what ran.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

NODES_USED: Final = "yarn.resourcemanager.opportunistic-container-allocation.nodes-used"
ENABLED: Final = "yarn.resourcemanager.opportunistic-container-allocation.enabled"
NODES_USED_VALUES: Final = ("0", "-1")
"""Each is the right one for some version (HadoopVersion.nodes_used)."""
OLDEST: Final = "3.1"
NEWEST: Final = "3.5"
"""The versions between which quicksilver was tried."""
_CENTRAL: Final = (3, 3)
_LEAK_MENDED: Final = (3, 5)
_CGROUP2: Final = (3, 5)


@dataclass(frozen=True)
class HadoopVersion:
    """A version as a daemon reports it, such as 3.1.1.7.1.9.0-387; vendors patch theirs."""

    text: str

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The numbers at its beginning: (3, 4, 2) of 3.4.2-vendor-7; () for none, such as trunk."""
        match = re.match(r"\d+(\.\d+)*", self.text)
        return tuple(int(part) for part in match[0].split(".")) if match else ()

    @property
    def known(self) -> bool:
        """Whether it is not newer than all that were tried."""
        return bool(self.numbers) and self.numbers[:2] <= _numbers(NEWEST)

    @property
    def supported(self) -> bool:
        """Whether its allocator grants OPPORTUNISTIC containers on a node that is named; Hadoop 3.0 and 2 do not."""
        return not self.numbers or self.numbers[:2] >= _numbers(OLDEST)

    @property
    def central_allocator(self) -> bool:
        """Whether the ResourceManager has CentralizedOpportunisticContainerAllocator, which looks a named node up.

        Before 3.3 it takes nodes only from its list of the NODES_USED least loaded ones, which it renews every second.
        """
        return not self.numbers or self.numbers[:2] >= _CENTRAL

    @property
    def nodes_used(self) -> str:
        """The value of NODES_USED with which it grants on named nodes, and if it can be on no others."""
        central, older = NODES_USED_VALUES
        return central if self.central_allocator else older

    @property
    def forgets_requests(self) -> bool:
        """Whether requests of which nothing is left are forgotten (YARN-11808)."""
        return not self.numbers or self.numbers[:2] >= _LEAK_MENDED

    @property
    def speaks_cgroup2(self) -> bool:
        """Whether its LinuxContainerExecutor writes the files of cgroup v2."""
        return self.numbers[:2] >= _CGROUP2

    @property
    def limits(self) -> tuple[str, ...]:
        """What is worse with it than with the newest, each as a sentence without a full stop."""
        if not self.supported or self.central_allocator:
            return ()
        return (
            "a node gets queueable containers up to 2 s after its first heartbeat, when it is listed",
            "of several NodeManagers with one host name only one gets queueable containers",
            "where the ResourceManager's list lacks a node, it grants on another one, and the proxy decides again",
        )

    def why_no_grants(self, enabled: str | None, nodes_used: str | None) -> str:
        """Return why a ResourceManager that runs with these values grants no queueable container; "" when it may.

        None: the value is not known.
        """
        if not self.supported:
            return f"Hadoop {self.text} grants no OPPORTUNISTIC containers on named nodes"
        if enabled is not None and enabled.strip().lower() != "true":
            return f"{ENABLED} is not true in the ResourceManager"
        if nodes_used is not None and nodes_used.strip() == "0" and not self.central_allocator:
            return f"Hadoop {self.text} grants none with {NODES_USED}=0; set it to {self.nodes_used}"
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
