"""Answers of the REST API on the cluster: nodes, applications, queues. Times are Unix seconds, memory MB."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from policies.model import NodeView, ParentView, QueueView, Resources
from quicksilver.common.messages import ContainerReport, Targets

T = TypeVar("T")


class ListPage(BaseModel, Generic[T]):
    """A part of a list."""

    items: list[T]
    offset: int
    more: bool
    """Whether there is more behind; ask again with offset + len(items)."""


class NodeInfo(BaseModel):
    """A node: YARN's record of it, and its sidecar's last report."""

    id: str
    host: str
    rack: str
    label: str = ""
    state: str = "RUNNING"
    """The ResourceManager's word."""
    usable: bool
    """Whether queueable containers may be placed here now."""
    why_unusable: str = ""
    capacity: Resources
    used_g: Resources
    used_q: Resources
    queue_length: int = 0
    queued_s: float = 0.0
    remaining_s: float = 0.0
    since_queueable_s: float = 0.0
    container_count: int = 0
    """Containers that run or wait here, application masters not counted; placements on their way are."""
    count_g: int = 0
    """Guaranteed containers that run here, application masters too."""
    count_q: int = 0
    """Queueable ones that run here, shrunk ones too."""
    slots: int = 0
    """How many of them the node starts at once; 0 where its containers do not share cores."""
    shrunk: int = 0
    """How many of them gave way and stand still, or nearly so."""
    attained_sd_s: float = 0.0
    """Standard deviation of the service that they have attained."""
    free_physical_mb: int | None = None
    draining: bool = False
    report_age_s: float | None = None
    """Null when its sidecar never reported."""
    sidecar_url: str = ""
    nm_page: str = ""
    """URL of the NodeManager's page; "" while the ResourceManager does not list the node."""
    version: str = ""
    """The sidecar's; "" for one that does not say it."""
    settings_version: str = ""
    """Of the settings that the sidecar uses."""
    limits: list[str] = []
    """Functions that the sidecar lacks there, with the reasons."""
    targets: Targets | None = None
    """Limits sent to its sidecar: for shedding, and for the use by queueables; null before the first round."""

    @classmethod
    def of(cls, view: NodeView, **more: Any) -> NodeInfo:
        """Make one of a policy's view; `more` fills what the view does not have."""
        same = {name: getattr(view, name) for name in cls.model_fields if hasattr(view, name)}
        return cls(**(same | {"container_count": view.containers} | more))


class NodeDetail(NodeInfo):
    """A node with the containers that its sidecar knows."""

    containers: list[ContainerReport] = []


class ApplicationInfo(BaseModel):
    """An application that the proxy relays for."""

    id: str
    name: str = ""
    user: str = ""
    queue: str = ""
    type: str = "YARN"
    tags: list[str] = []
    priority: int = 0
    submitted_s: float = 0.0
    finished_s: float | None = None
    final_status: str = ""
    """SUCCEEDED, FAILED or KILLED of an application that ended; "" before, or where it is not known."""
    mode: str = "active"
    """active, shadow, bypass, or passthrough for an encrypted connection."""
    mode_reason: str = ""
    attempt_id: str = ""
    wanted_g: int = 0
    wanted_q: int = 0
    """Pending containers: requested and not allocated yet."""
    waits: str = ""
    """The reason for which its queueable containers without a node wait."""
    live_g: int = 0
    live_q: int = 0
    used_g: Resources = Resources()
    used_q: Resources = Resources()
    rm_page: str = ""
    """URL of the ResourceManager's page about it; for a live one alone."""


class ApplicationRecord(BaseModel):
    """An application as it was recorded last."""

    id: str
    name: str
    user: str
    queue: str
    type: str
    tags: list[str]
    priority: int
    submitted_s: float
    finished_s: float | None
    final_status: str = ""


class QueueInfo(BaseModel):
    """A YARN queue: the ResourceManager's numbers, and the queueable containers beside them."""

    name: str
    max_capacity: Resources
    used_g: Resources
    used_q: Resources
    """By queueable containers: wanted, waiting or running."""
    left_q: Resources | None = None
    """Resources that the quota leaves to further queueable containers; null where no quota counts by queue."""
    user_used_q: dict[str, Resources] = {}
    labels: list[str] = []
    priority: int = 0
    queueable: bool = True
    """Whether `policies.queues` lets queueable containers into this queue."""
    rm_page: str = ""
    """URL of the ResourceManager's page about it."""

    @classmethod
    def of(cls, view: QueueView, **more: Any) -> QueueInfo:
        """Make one of a policy's view; `more` fills what the view does not have."""
        same = {name: getattr(view, name) for name in cls.model_fields if hasattr(view, name)}
        return cls(**(same | {"labels": sorted(view.labels)} | more))


class QueueUser(BaseModel):
    """A user of a YARN queue."""

    user: str
    used_g: Resources
    """By guaranteed containers, application masters included."""
    used_q: Resources
    left_q: Resources | None = None
    """Resources that the quota leaves to the user's further queueables; null where no quota counts by queue."""


class QueueAbove(BaseModel):
    """A queue above another one, with the use of all below it."""

    name: str
    max_capacity: Resources
    used_g: Resources
    used_q: Resources

    @classmethod
    def of(cls, view: ParentView) -> QueueAbove:
        """Make one of a policy's view."""
        return cls(**{name: getattr(view, name) for name in cls.model_fields})


class QueueDetail(QueueInfo):
    """A YARN queue with its users and what limits it from above."""

    user_limit: Resources | None = None
    """The scheduler's limit of one user, guaranteed and queueable; null for no limit."""
    users: list[QueueUser] = []
    above: list[QueueAbove] = []
    """The nearest first."""
    cluster: Resources = Resources()
    """Sum of the usable nodes' resources."""
    cluster_used_q: Resources = Resources()
