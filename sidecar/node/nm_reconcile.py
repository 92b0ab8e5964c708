"""Compares the NodeManager's own list of containers (REST) with the state of the node machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from policies.model import Resources
from sidecar.node.container import Container, app_of
from sidecar.node.events import Adopted, Doubtful, Dying, Ended, Localized, NodeManagerQueues, Unfinished, Unlaunched
from sidecar.node.phases import KILLED, Phase

OVER: Final = frozenset(
    (
        "DONE",
        "EXITED_WITH_SUCCESS",
        "EXITED_WITH_FAILURE",
        "CONTAINER_CLEANEDUP_AFTER_KILL",
        "CONTAINER_RESOURCES_CLEANINGUP",
        "LOCALIZATION_FAILED",
        "COMPLETE",
    )
)
"""States of the NodeManager in which a container's process is gone."""
KILLING: Final = "KILLING"
"""The state in which the NodeManager has signalled a container's processes to end."""
NOT_LAUNCHED: Final = "SCHEDULED"
"""The state between localization and launch: the launch is under way, or the container stands in a queue for it."""
QUEUED_PATH: Final = "/jmx?qry=Hadoop:service=NodeManager,name=NodeManagerMetrics"
"""Where the NodeManager says how many containers stand in that queue (ContainerScheduler)."""
_YOUNG_S: Final = 3.0
"""Age in seconds below which an answered container need not be listed yet."""
UNANSWERED_S: Final = 30.0
"""Time after which the list decides on a start that the NodeManager has not answered: its answer is lost."""


class Listed(BaseModel):
    """One container of `/ws/v1/node/containers`; fields that are not named here are ignored."""

    model_config = ConfigDict(extra="ignore")

    id: str
    state: str = ""
    executionType: str = "GUARANTEED"
    totalMemoryNeededMB: int = 0
    totalVCoresNeeded: float = 0


@dataclass(frozen=True, slots=True)
class NmList:
    """The list, when it was asked for, and when the NodeManager's process began (Unix seconds; 0: not known)."""

    containers: tuple[Listed, ...]
    asked_s: float
    began_s: float = 0.0
    queued: int = 0
    """Containers in the NodeManager's own queue; 0 also when that is not known."""


def read_list(answer: Any, asked_s: float, began_s: float = 0.0) -> NmList:
    """Return the list in a REST answer; an empty NodeManager answers null or "". Raises ValueError for all else."""
    outer = answer.get("containers") if isinstance(answer, Mapping) else None
    rows = outer.get("container", []) if isinstance(outer, Mapping) else []
    if not isinstance(rows, list):
        raise ValueError("the list of containers is no list")
    return NmList(tuple(Listed.model_validate(row) for row in rows), asked_s, began_s)


def read_queued(answer: Any) -> int:
    """Return the number of containers in the NodeManager's own queue from its answer at `QUEUED_PATH`.

    Raises ValueError for any other answer.
    """
    beans = answer.get("beans") if isinstance(answer, Mapping) else None
    if not isinstance(beans, list) or not all(isinstance(bean, Mapping) for bean in beans):
        raise ValueError("the NodeManager's metrics are no list of beans")
    names = ("ContainersOpportunisticQueued", "ContainersGuaranteedQueued")
    counts = [bean.get(name, 0) for bean in beans for name in names]
    return sum(count for count in counts if isinstance(count, int))


FromList = Adopted | Doubtful | Ended | Dying | Unlaunched | Unfinished | Localized | NodeManagerQueues


def compare(
    listed: NmList, containers: Mapping[str, Container], gone: Collection[str], pidfds: Collection[str], now_s: float
) -> list[FromList]:
    """Return events that the machine does not know yet: ended containers, and starts that it never saw.

    gone: containers that ended lately; pidfds: containers whose process is watched, which needs no list.
    """
    events: list[FromList] = []
    queued: list[str] = []
    states = {row.id: row for row in listed.containers}
    for container in containers.values():
        row = states.get(container.id)
        settled = container.since_s + _YOUNG_S < listed.asked_s
        if row is not None and row.state == KILLING and container.phase is Phase.RUNNING:
            events.append(Dying(container.id, now_s))
        overdue = container.phase is Phase.STARTING and container.since_s + UNANSWERED_S < listed.asked_s
        if overdue or (container.phase is Phase.DOUBTFUL and (row is not None or settled)):
            events.append(Doubtful(container.id, row is not None, now_s))
        if container.id in pidfds or not (container.phase is Phase.RUNNING or container.phase in KILLED):
            continue
        if (row is None and settled) or (row is not None and row.state in OVER):
            events.append(Ended(container.id, now_s))
        before = container.sent_s is not None and container.sent_s < listed.began_s
        if row is None or row.state != NOT_LAUNCHED:
            continue
        if container.phase in KILLED and not container.localized:
            events.append(Localized(container.id, now_s))
        if before:
            events.append(Unlaunched(container.id, now_s))
        elif settled and listed.queued:
            queued.append(container.id)
    if queued:
        events.append(NodeManagerQueues(tuple(queued), now_s))
    unknown = [r for r in listed.containers if r.id not in containers and r.state not in OVER and app_of(r.id)]
    events.extend(_adopted(row, now_s) for row in unknown if row.id not in gone)
    unfinished = tuple(_adopted(row, now_s) for row in unknown if row.id in gone and row.state == NOT_LAUNCHED)
    if unfinished:
        events.append(Unfinished(unfinished, now_s))
    return events


def _adopted(row: Listed, now_s: float) -> Adopted:
    needed = Resources(row.totalMemoryNeededMB, row.totalVCoresNeeded)
    return Adopted(row.id, app_of(row.id), needed, row.executionType == "OPPORTUNISTIC", now_s)
