"""The answers of the ResourceManager's REST API: the fields that we read, and the values made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, Field

from policies.model import Resources
from rm_proxy.domain.records import AppRecord

_LOST: Final = frozenset(("LOST", "UNHEALTHY", "DECOMMISSIONED", "REBOOTED", "SHUTDOWN"))


@dataclass(frozen=True, slots=True)
class YarnNode:
    """A node as the ResourceManager describes it."""

    id: str
    host: str
    rack: str
    state: str
    """RUNNING, DECOMMISSIONING, DECOMMISSIONED, LOST, UNHEALTHY, REBOOTED, SHUTDOWN, NEW."""
    label: str
    """The partition; "" for the default one."""
    capacity: Resources
    used: Resources
    """By guaranteed containers."""
    web_address: str
    opportunistic: int = 0
    """Opportunistic containers that run there, by the NodeManager's last heartbeat."""

    @property
    def running(self) -> bool:
        """Whether it takes new containers."""
        return self.state == "RUNNING"

    @property
    def decommissioning(self) -> bool:
        """Whether it empties before it is removed."""
        return self.state == "DECOMMISSIONING"

    @property
    def lost(self) -> bool:
        """Whether the scheduler has removed it, with all its containers."""
        return self.state in _LOST


@dataclass(frozen=True, slots=True)
class YarnQueue:
    """A queue with its full path; amounts are those of the default partition."""

    path: str
    leaf: bool
    state: str
    max_capacity: Resources
    used: Resources
    """By guaranteed containers."""
    labels: frozenset[str]
    """Labels that it may use beside the default partition; `*` for all."""
    default_label: str
    user_used: dict[str, Resources] = field(default_factory=dict)
    """By guaranteed containers, application masters included."""
    user_limit: Resources | None = None
    """One user's limit: capacity times user-limit-factor; None for no limit."""
    priority: int = 0
    capacity: Resources = field(default_factory=Resources)
    """Guaranteed to it by the Capacity Scheduler; its steady fair share under the Fair Scheduler."""
    user_ratio: float = 1.0
    """minimum-user-limit-percent as a ratio; 1: its users have no shares of their own."""
    user_weights: dict[str, float] = field(default_factory=dict)
    """Of users whose weight is not 1."""

    @property
    def name(self) -> str:
        """The last part of the path, by which the Capacity Scheduler's users mostly call it."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class YarnCluster:
    """The ResourceManager itself."""

    epoch_ms: int
    """Its cluster timestamp: the first number of the ids that it gives; a new one after a restart without recovery."""
    started_s: float
    state: str
    active: bool
    version: str


@dataclass(frozen=True, slots=True)
class YarnMetrics:
    """Totals of the cluster."""

    total: Resources
    allocated: Resources
    nodes_active: int
    apps_running: int
    apps_pending: int
    containers_allocated: int


class AmountJson(BaseModel):
    """Memory in MB and vcores."""

    memory: int = 0
    vCores: float = 0

    def value(self) -> Resources:
        """Return the amount; Hadoop's negative ones become 0."""
        return Resources(max(0, self.memory), max(0, self.vCores))


class NodeJson(BaseModel):
    """One node of /nodes."""

    id: str
    rack: str
    state: str
    nodeHostName: str
    nodeHTTPAddress: str = ""
    usedMemoryMB: int = 0
    availMemoryMB: int = 0
    usedVirtualCores: float = 0
    availableVirtualCores: float = 0
    numRunningOpportContainers: int = 0
    totalResource: AmountJson | None = None
    nodeLabels: list[str] = []

    def value(self) -> YarnNode:
        """Return what we keep of it."""
        used = Resources(self.usedMemoryMB, self.usedVirtualCores)
        capacity = used + Resources(self.availMemoryMB, self.availableVirtualCores)
        if self.totalResource and self.totalResource.memory > 0:
            capacity = self.totalResource.value()
        label = next((label for label in self.nodeLabels if label), "")
        return YarnNode(
            self.id,
            self.nodeHostName,
            self.rack,
            self.state,
            label,
            capacity,
            used,
            self.nodeHTTPAddress,
            self.numRunningOpportContainers,
        )


class NodeListJson(BaseModel):
    """Its list; absent when empty."""

    node: list[NodeJson] = []


class NodesAnswer(BaseModel):
    """/nodes."""

    nodes: NodeListJson | None


class AppJson(BaseModel):
    """One application."""

    id: str
    user: str
    queue: str
    name: str = ""
    applicationType: str
    applicationTags: str = ""
    priority: int = 0
    startedTime: int = 0
    finishedTime: int = 0
    finalStatus: str = ""

    def value(self) -> AppRecord:
        """Return what we keep of it."""
        tags = tuple(sorted(tag.strip() for tag in self.applicationTags.split(",") if tag.strip()))
        return AppRecord(
            id=self.id,
            queue=self.queue,
            user=self.user,
            type=self.applicationType.upper(),
            name=self.name,
            tags=tags,
            priority=self.priority,
            submitted_s=self.startedTime / 1000,
            finished_s=self.finishedTime / 1000 if self.finishedTime > 0 else None,
            final_status=self.finalStatus if self.finishedTime > 0 and self.finalStatus != "UNDEFINED" else "",
        )


class AppListJson(BaseModel):
    """The list; absent when empty."""

    app: list[AppJson] = []


class AppsAnswer(BaseModel):
    """/apps."""

    apps: AppListJson | None


class AppAnswer(BaseModel):
    """/apps/ID."""

    app: AppJson


class PartitionJson(BaseModel):
    """A queue's share of one partition."""

    partitionName: str | None = ""
    effectiveMinResource: AmountJson = AmountJson()
    effectiveMaxResource: AmountJson = AmountJson()


class CapacitiesJson(BaseModel):
    """A queue's shares."""

    queueCapacitiesByPartition: list[PartitionJson] = []

    def default(self) -> PartitionJson | None:
        """Return the share of the partition without a label."""
        return next((p for p in self.queueCapacitiesByPartition if not p.partitionName), None)


class UserJson(BaseModel):
    """A user of a leaf queue."""

    username: str
    resourcesUsed: AmountJson = AmountJson()
    userWeight: float = 1.0


class UsersJson(BaseModel):
    """The users."""

    user: list[UserJson] = []


class CapacityQueueJson(BaseModel):
    """A queue of the Capacity Scheduler."""

    queueName: str
    queuePath: str | None = None
    state: str = "RUNNING"
    resourcesUsed: AmountJson = AmountJson()
    nodeLabels: list[str] = []
    defaultNodeLabelExpression: str | None = None
    capacities: CapacitiesJson = CapacitiesJson()
    queuePriority: int = 0
    userLimit: float | None = None
    userLimitFactor: float | None = None
    users: UsersJson | None = None
    queues: CapacityQueuesJson | None = None


class CapacityQueuesJson(BaseModel):
    """Child queues."""

    queue: list[CapacityQueueJson] = []


class FairQueueJson(BaseModel):
    """A queue of the Fair Scheduler."""

    queueName: str
    maxResources: AmountJson = AmountJson()
    steadyFairResources: AmountJson = AmountJson()
    usedResources: AmountJson = AmountJson()
    childQueues: FairQueuesJson | None = None


class FairQueuesJson(BaseModel):
    """Child queues."""

    queue: list[FairQueueJson] = []


class SchedulerInfoJson(CapacityQueueJson):
    """Of the Capacity Scheduler this is the root queue; the others have fields of their own."""

    type: str
    queueName: str = "root"
    rootQueue: FairQueueJson | None = None


class SchedulerJson(BaseModel):
    """Of /scheduler."""

    info: SchedulerInfoJson = Field(alias="schedulerInfo")


class SchedulerAnswer(BaseModel):
    """/scheduler."""

    scheduler: SchedulerJson


class ClusterInfoJson(BaseModel):
    """Of /info."""

    id: int
    startedOn: int
    state: str
    haState: str = "ACTIVE"
    resourceManagerVersion: str = ""


class InfoAnswer(BaseModel):
    """/info."""

    clusterInfo: ClusterInfoJson


class PropertyJson(BaseModel):
    """Of /conf."""

    key: str
    value: str | None = None


class PropertyAnswer(BaseModel):
    """/conf with a name."""

    property: PropertyJson


class ClusterMetricsJson(BaseModel):
    """Of /metrics."""

    totalMB: int
    totalVirtualCores: float
    allocatedMB: int
    allocatedVirtualCores: float
    activeNodes: int = 0
    appsRunning: int = 0
    appsPending: int = 0
    containersAllocated: int = 0


class MetricsAnswer(BaseModel):
    """/metrics."""

    clusterMetrics: ClusterMetricsJson
