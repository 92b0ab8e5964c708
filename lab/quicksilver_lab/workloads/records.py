"""What YARN itself recorded of containers: the ResourceManager's log and REST, the NodeManagers' REST.

Finished containers leave the NodeManagers' REST, so a `RecordsWatch` polls it as long as a workload runs.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import requests

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.workloads.rest import get_json

GUARANTEED, OPPORTUNISTIC = "GUARANTEED", "OPPORTUNISTIC"
_POLL_S: Final = 0.4
_JOIN_S: Final = 60.0
_ANY_GRANT: Final = re.compile(r"OPERATION=AM Allocated Container\s.*CONTAINERID=(container_\w+)")
_OPPORTUNISTIC_GRANT: Final = re.compile(r"Allocated \[(container_\w+)\] as opportunistic at location \[([^\]]+)\]")
_RELEASED: Final = re.compile(r"(container_\w+) Container Transitioned from ACQUIRED to RELEASED")
_APPLICATION: Final = re.compile(r"container(?:_e\d+)?_(\d+)_(\d+)_(\d+)_(\d+)$")
_MASTER_NUMBER: Final = 1


def application_of(container: str) -> str:
    """Return the application of a container id; the id itself when it is none."""
    match = _APPLICATION.match(container)
    return f"application_{match[1]}_{match[2]}" if match else container


def is_master(container: str) -> bool:
    """Return whether a container is its attempt's first, in which the application master runs."""
    match = _APPLICATION.match(container)
    return match is not None and int(match[4]) == _MASTER_NUMBER


@dataclass(frozen=True, slots=True)
class RecordedGrants:
    """Containers in the ResourceManager's log."""

    all: frozenset[str]
    opportunistic: frozenset[str]
    released: frozenset[str] = frozenset()
    """Those given back before their NodeManager had started them: by the application master, which had one too many, or
    by quicksilver, which takes them from a node where no place came free when it should have."""


def grants(log: str) -> RecordedGrants:
    """Return the grants in a ResourceManager's log."""
    opportunistic = frozenset(match[0] for match in _OPPORTUNISTIC_GRANT.findall(log))
    every = frozenset(_ANY_GRANT.findall(log)) | opportunistic
    return RecordedGrants(every, opportunistic, every.intersection(_RELEASED.findall(log)))


@dataclass(frozen=True, slots=True)
class RecordTally:
    """One application's containers besides the application master's, by what RM and NMs recorded."""

    granted: int
    """Containers that the ResourceManager granted."""
    rm_opportunistic: int
    """Those that the ResourceManager granted as OPPORTUNISTIC."""
    ran: int
    """Those that NodeManagers showed."""
    nm_opportunistic: int
    """Those that NodeManagers showed as OPPORTUNISTIC."""
    nodes: dict[str, int]
    """Containers that ran, by NodeId."""
    disagreeing: tuple[str, ...]
    """Containers whose execution type differs between the RM's log and the NM's REST."""

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON knows it."""
        return {
            "granted": self.granted,
            "rm_opportunistic": self.rm_opportunistic,
            "ran": self.ran,
            "nm_opportunistic": self.nm_opportunistic,
            "nodes": self.nodes,
            "disagreeing": list(self.disagreeing),
        }


@dataclass(frozen=True, slots=True)
class Seen:
    """A container as a NodeManager showed it."""

    id: str
    node: str
    execution_type: str


@dataclass
class RecordsWatch:
    """Polls the NodeManagers' REST on a thread of its own for the time of a with block."""

    cluster: Cluster
    seen: dict[str, Seen] = field(default_factory=dict)
    opportunistic_at_rm: int = 0
    """The most OPPORTUNISTIC containers that the RM's REST ever counted as running or queued on its nodes."""
    failures: int = 0
    """Polls that got no answer, such as during a daemon's restart."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    _log_start: int = 0

    def __enter__(self) -> Self:
        """Begin: of the RM's log, only what comes from now on counts."""
        log = self.rm_log
        self._log_start = log.stat().st_size if log.exists() else 0
        self._thread = threading.Thread(target=self._run, name="watch")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join(_JOIN_S)

    @property
    def rm_log(self) -> Path:
        """The ResourceManager's log."""
        return self.cluster.log("resourcemanager")

    def _run(self) -> None:
        while not self._stopped.wait(_POLL_S):
            for node in self.cluster.spec.node_addresses:
                self._look(f"{node.web.url}/ws/v1/node/containers", self._take_node)
            self._look(f"{self.cluster.rm_rest}/ws/v1/cluster/nodes", self._take_rm)

    def _look(self, url: str, take: Any) -> None:
        try:
            take(get_json(url, self.cluster.web_auth))
        except (requests.RequestException, ValueError):
            self.failures += 1

    def _take_node(self, answer: dict[str, Any]) -> None:
        for container in (answer.get("containers") or {}).get("container", []):
            if container.get("executionType"):
                record = Seen(container["id"], container["nodeId"], container["executionType"])
                self.seen[record.id] = record

    def _take_rm(self, answer: dict[str, Any]) -> None:
        nodes = (answer.get("nodes") or {}).get("node", [])
        now = sum(node.get("numRunningOpportContainers", 0) + node.get("numQueuedContainers", 0) for node in nodes)
        self.opportunistic_at_rm = max(self.opportunistic_at_rm, now)

    def granted(self) -> RecordedGrants:
        """Return the grants in the RM's log since the begin."""
        with self.rm_log.open("rb") as log:
            log.seek(self._log_start)
            return grants(log.read().decode(errors="replace"))

    def tally(self, application: str) -> RecordTally:
        """Return the records of one application."""
        return tally(application, self.granted(), self.seen.values())


def tally(application: str, granted: RecordedGrants, seen: Iterable[Seen]) -> RecordTally:
    """Compare what the RM granted one application with what the NodeManagers showed of it."""

    def mine(container: str) -> bool:
        return application_of(container) == application and not is_master(container)

    ran = [record for record in seen if mine(record.id)]
    nodes: dict[str, int] = {}
    for record in ran:
        nodes[record.node] = nodes.get(record.node, 0) + 1
    opportunistic = {record.id for record in ran if record.execution_type == OPPORTUNISTIC}
    disagreeing = {record.id for record in ran if (record.id in opportunistic) != (record.id in granted.opportunistic)}
    return RecordTally(
        granted=sum(map(mine, granted.all)),
        rm_opportunistic=sum(map(mine, granted.opportunistic)),
        ran=len(ran),
        nm_opportunistic=len(opportunistic),
        nodes=dict(sorted(nodes.items())),
        disagreeing=tuple(sorted(disagreeing)),
    )
