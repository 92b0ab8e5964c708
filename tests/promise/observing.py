"""What tests of the scheduling look at: grants and ends in YARN's logs, shares and limits of containers at a node."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil
import requests

from quicksilver_lab.bench.sleep_job import SleepTask, all_lives
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.nm_log import Life
from sidecar.resizer.processes import groups_of

_GRANT: Final = re.compile(
    r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}).*Allocated \[(container_\w+)\] as opportunistic at location", re.MULTILINE
)
LONG: Final = ("expected_s:300",)
"""Tag of a job whose tasks are taken to run for 300 s: nothing is bound ahead of their ends. The tags of a user whose
tasks are shorter are not believed for long, so that such a user has no other job here."""
WITHIN_S: Final = 120.0
"""What must come may take this long where three clusters share two cores."""
_POLL_S: Final = 0.1
_GROUPS: Final = Path("/sys/fs/cgroup")


def grant_times(cluster: Cluster) -> dict[str, float]:
    """Return when the ResourceManager granted each opportunistic container, by its log; Unix seconds."""
    log = cluster.log("resourcemanager").read_text(errors="replace")
    return {cid: datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f").timestamp() for at, cid in _GRANT.findall(log)}


def lives(cluster: Cluster, tasks: Iterable[SleepTask]) -> list[Life]:
    """Return what the NodeManagers' logs tell of the containers of these tasks, in the order of the tasks."""
    recorded = all_lives(cluster)
    return [recorded[cid] for task in tasks for cid in task.containers if cid in recorded]


def starts(cluster: Cluster, tasks: Iterable[SleepTask]) -> list[float]:
    """Return when the tasks began to run, by the NodeManagers' logs, the earliest first; Unix seconds."""
    return sorted(life.running_s for life in lives(cluster, tasks) if life.running_s is not None)


def mean_at_once(some: Iterable[Life], from_s: float, to_s: float) -> float:
    """Return how many of these containers ran at the same time, as the mean over a time; both ends in Unix seconds."""
    ran = ((life.running_s, to_s if life.over_s is None else life.over_s) for life in some)
    return sum(max(0.0, min(to_s, end_s) - max(from_s, at_s)) for at_s, end_s in ran if at_s is not None) / (
        to_s - from_s
    )


def is_limited(pid: int) -> bool:
    """Return whether the kernel limits the CPU of a process (cgroup v1 or v2), or has stopped it (signals)."""
    groups = groups_of(pid) or {}
    for file, group in (
        (_GROUPS / "cpu" / groups.get("cpu", "").strip("/") / "cpu.cfs_quota_us", "cpu" in groups),
        (_GROUPS / groups.get("", "").strip("/") / "cpu.max", "" in groups),
    ):
        if group and file.is_file():
            return file.read_text().split()[0] not in ("-1", "max")
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


@dataclass
class Change:
    """A container changed its state at its node."""

    at_s: float
    cid: str
    state: str
    attained_s: dict[str, float]
    """CPU seconds of all containers of the node at that time."""


@dataclass
class NodeWatch:
    """Asks a node's sidecar for its containers again and again, for the time of a with block, and notes changes."""

    stack: LocalDaemons
    node: int
    changes: list[Change] = field(default_factory=list)
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last answer, by container."""
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name=f"watch of node {self.node}")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        address = self.stack.cluster.spec.node_addresses[self.node]
        url = f"{self.stack.sidecar_rest(address).url}/v1/containers"
        while not self._over.wait(_POLL_S):
            rows = {row["container_id"]: row for row in requests.get(url, timeout=30).json()}
            now_s, before = time.time(), self.containers
            attained_s = {cid: float(row["attained_s"] or 0.0) for cid, row in rows.items()}
            for cid, row in rows.items():
                if cid not in before or before[cid]["state"] != row["state"]:
                    self.changes.append(Change(now_s, cid, row["state"], attained_s))
            self.containers = rows

    def state(self, cid: str) -> str:
        """Return a container's state; "" when it is not there."""
        return str(self.containers.get(cid, {}).get("state", ""))

    def attained_s(self, cid: str) -> float:
        """Return the CPU seconds of a container; 0 when it is not there."""
        return float(self.containers.get(cid, {}).get("attained_s") or 0.0)

    def of(self, cid: str, state: str) -> list[Change]:
        """Return when a container came into a state."""
        return [change for change in self.changes if (change.cid, change.state) == (cid, state)]

    def story(self) -> str:
        """Return all changes as text, for the message of an assertion."""
        return "\n".join(f"{c.at_s:.1f} {c.cid[-6:]} {c.state} {c.attained_s}" for c in self.changes)


def pid_of(cluster: Cluster, node: int, cid: str) -> int:
    """Return the pid that the NodeManager wrote for a container."""
    (file,) = cluster.local_dir(node).glob(f"**/nmPrivate/application_*/{cid}/{cid}.pid")
    return int(file.read_text())
